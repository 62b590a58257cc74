/**
 * Tests that the cost bound of a call covers everything that the vendor can bill, while its token bound is only an
 * estimate.
 */
import { describe, expect, test } from '@jest/globals';
import { parseImportedRows } from '../../../src/config/catalog.ts';
import type { Call, CallResult, TextRoute } from '../../../src/core/call.ts';
import type { Candidate } from '../../../src/core/candidate.ts';
import { newId } from '../../../src/core/ids.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import { noTokens, type Price } from '../../../src/core/pricing.ts';
import { bodyKeys } from '../../../src/dialects/json/body-members.ts';
import { routeCodecs } from '../../../src/dialects/routes/route-codecs.ts';
import { estimateRequest } from '../../../src/pipeline/call/estimate.ts';
import { backgroundCaller, buildInternalCall } from '../../../src/pipeline/call/internal-call.ts';
import { usageBounds } from '../../../src/pipeline/call/usage-bounds.ts';
import { createUsageEstimates, type UsageEstimates } from '../../../src/pipeline/call/usage-estimates.ts';
import { outsideInputs } from './outside-inputs.ts';

const searched: Price = {
  inputNanos: 0n,
  outputNanos: 0n,
  cachedInputNanos: 0n,
  cacheWriteNanos: 0n,
  cacheWrite1hNanos: 0n,
  perSearchNanos: 2_000_000n,
};

const reranked = (documents: readonly string[], query: unknown = 'hi') =>
  buildInternalCall({
    id: newId(0),
    route: 'rerank',
    caller: backgroundCaller('acme'),
    slug: 'acme',
    model: 'rank',
    members: { query, documents },
    timeoutMs: 1,
    now: 0,
  });

test.each([
  ['many small documents', Array.from({ length: 1_001 }, () => 'x'), 11],
  ['a few long documents', Array.from({ length: 3 }, () => 'x'.repeat(50_000)), 4],
  ['no documents', [], 1],
])('reserves enough searches for a rerank call with %s', (_what, documents, searches) => {
  const call = reranked(documents);
  const candidate = {
    id: 'two/rank',
    provider: 'two',
    model: 'rank',
    dialect: 'chat',
    price: searched,
    maxOutputTokens: null,
    traits: {},
  } as const;
  const { costNanos } = usageBounds(call, [candidate]);
  expect(costNanos).toBe(searches * 2_000_000);
  expect(estimateRequest(call, candidate, 1).costNanos).toBeLessThanOrEqual(costNanos);
});

test('reserves the query of a rerank call once for each document', () => {
  const call = reranked(Array(1_000).fill('a'), 'tea '.repeat(2_000));
  const { perSearchNanos: _, ...unsearched } = searched;
  const price: Price = { ...unsearched, inputNanos: 1_000_000n };
  const candidate = { id: 'two/rank', provider: 'two', model: 'rank', dialect: 'chat', price, maxOutputTokens: null, traits: {} } as const;
  const { costNanos, tokens } = usageBounds(call, [candidate]);
  expect(Math.min(costNanos, tokens)).toBeGreaterThanOrEqual(1_000 * 8_000 + 1_000);
  expect(estimateRequest(call, candidate, 1).tokens.input).toBeGreaterThanOrEqual(1_000 * 2_000);
});

test("doesn't reserve tokens for a repeated query if the model charges for searches", () => {
  const call = reranked(Array(1_000).fill('a'), 'x'.repeat(500));
  const candidate = { id: 'two/rank', provider: 'two', model: 'rank', dialect: 'chat', price: searched, maxOutputTokens: null } as const;
  expect(usageBounds(call, [candidate]).tokens).toBeLessThan(10_000);
});

describe('reserving tokens for media in the body', () => {
  const base64 = (magic: Buffer, bytes: number): string => Buffer.concat([magic, Buffer.alloc(bytes)]).toString('base64');
  const png = base64(Buffer.from('89504e470d0a1a0a', 'hex'), 1_000_000);
  const jpeg = base64(Buffer.from('ffd8ffe0', 'hex'), 1_000_000);
  const pdf = base64(Buffer.from('%PDF-1.7'), 1_000_000);
  const audio = base64(Buffer.from('RIFF'), 1_000_000);
  const source = (data: string, mediaType = 'image/png') => ({ type: 'base64', media_type: mediaType, data });
  const chatPart = { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } };
  const ofMessages = { type: 'image', source: source(jpeg, 'image/jpeg') };
  const toolResult = { type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source: source(png) }] };
  const screenshot = { type: 'computer_screenshot', image_url: `data:image/png;base64,${png}` };
  const said = (...content: object[]) => ({ messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, ...content] }] });

  const measure = (route: TextRoute, members: object | string, window?: number) => {
    const text = typeof members === 'string' ? members : JSON.stringify(members);
    const body = Buffer.from(text);
    const call = { route, body, spans: scanObject(body, bodyKeys), maxOutputTokens: 10 } as unknown as Call;
    const limit = window === undefined ? {} : { maxInputTokens: window };
    const candidate = { id: 'one/m', provider: 'one', model: 'm', dialect: 'chat', price: null, maxOutputTokens: null, ...limit } as const;
    return {
      bound: usageBounds(call, [candidate]).tokens,
      estimate: estimateRequest(call, candidate, 1).tokens.input,
    };
  };

  test.each<[string, TextRoute, object | string, number]>([
    ['a chat image', 'chat', said(chatPart), 1],
    ['an image with escaped slashes', 'chat', JSON.stringify(said(chatPart)).replaceAll('/', '\\/'), 1],
    ['two messages images', 'messages', said(ofMessages, ofMessages), 2],
    ['an image in a tool result', 'messages', said(toolResult), 1],
    [
      'a responses image',
      'responses',
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: `data:image/png;base64,${png}` }] }] },
      1,
    ],
    ['a screenshot', 'responses', { input: [{ type: 'computer_call_output', output: screenshot }] }, 1],
    ['an image generated by a tool', 'responses', { input: [{ type: 'image_generation_call', id: 'i', result: png }] }, 1],
    ['an image by URL', 'chat', said({ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }), 1],
  ])('reserves the tokens of an image rather than of its base64 text: %s', (_what, route, members, images) => {
    const { bound, estimate } = measure(route, members);
    expect(bound).toBeGreaterThan(images * 5_000);
    expect(bound).toBeLessThan(images * 5_000 + 500);
    expect(estimate).toBeGreaterThanOrEqual(images * 1_600);
    expect(estimate).toBeLessThanOrEqual(bound);
  });

  test.each<[string, TextRoute, object]>([
    ['the arguments of a tool', 'messages', said({ type: 'tool_use', id: 't', name: 'x', input: { source: source(png) } })],
    [
      'the description of a tool',
      'chat',
      { ...said(), tools: [{ type: 'function', function: { name: 'x', description: { image_url: chatPart.image_url } } }] },
    ],
    ['a text', 'chat', said({ type: 'text', text: JSON.stringify(chatPart) })],
    ['a document of plain text', 'messages', said({ type: 'document', source: { data: png, media_type: 'text/plain', type: 'text' } })],
    [
      'text where an image belongs',
      'chat',
      said({ type: 'image_url', image_url: { url: `data:image/png;base64,${'text'.repeat(250_000)}` } }),
    ],
  ])('reserves the tokens of the base64 text for an image in %s', (_what, route, members) => {
    expect(measure(route, members).bound).toBeGreaterThan(1_000_000);
  });

  test('reserves tokens for audio by its length', () => {
    const { bound, estimate } = measure('chat', said({ type: 'input_audio', input_audio: { data: audio, format: 'wav' } }));
    expect(bound).toBeGreaterThan(audio.length / 30);
    expect(bound).toBeLessThan(audio.length / 20);
    expect(estimate).toBeLessThan(bound);
  });

  test.each<[string, TextRoute, object]>([
    ['chat', 'chat', { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${pdf}` } }],
    ['messages', 'messages', { type: 'document', source: source(pdf, 'application/pdf') }],
    ['text that begins like an image', 'chat', { type: 'file', file: { file_data: `data:text/plain;base64,${png}` } }],
    ['no declared type', 'chat', { type: 'file', file: { filename: 'a.txt', file_data: png } }],
  ])("reserves tokens for a document by its size, up to the model's context window: %s", (_what, route, part) => {
    expect(measure(route, said(part)).bound).toBeGreaterThan(pdf.length);
    const { bound, estimate } = measure(route, said(part), 200_000);
    expect(bound).toBeGreaterThan(200_000);
    expect(bound).toBeLessThan(200_500);
    expect(estimate).toBeLessThan(bound);
  });
});

/** Creates a call by parsing the body like its route does. */
function callOf(route: TextRoute, members: object | string): Call {
  const body = Buffer.from(typeof members === 'string' ? members : JSON.stringify(members));
  const spans = scanObject(body, bodyKeys);
  const { maxOutputTokens } = routeCodecs[route].parseRequest(body, spans);
  return { route, body, spans, maxOutputTokens, caller: backgroundCaller('acme') } as unknown as Call;
}

const hello = { model: 'one/m', messages: [{ role: 'user', content: 'hi' }] };
const dollar = 1_000_000_000;
/** Output costs $10 per million tokens. Input is free unless `changes` says something else. */
const priceOf = (changes: Partial<Price> = {}): Price => ({
  ...{ inputNanos: 0n, outputNanos: 10_000_000_000n, cachedInputNanos: 0n, cacheWriteNanos: 0n, cacheWrite1hNanos: 0n },
  ...changes,
});
const modelOf = (changes: Partial<Candidate> = {}): Candidate => ({
  ...{ id: 'one/m', provider: 'one', model: 'm', dialect: 'chat', price: priceOf(), maxOutputTokens: 128_000 },
  ...changes,
});
const outputOf = (route: TextRoute, members: object | string, model = modelOf()): number =>
  usageBounds(callOf(route, members), [model]).costNanos / 10_000;

describe('the output tokens that a call reserves', () => {
  test.each<[string, object, number]>([
    ["reserves the model's maximum if the call has no output limit", {}, 128_000],
    ["reserves the caller's output limit", { max_tokens: 500 }, 500],
    ['reserves output for each choice', { n: 8 }, 1_024_000],
    ['reserves output for each choice if n is a string', { n: '8', max_tokens: 10 }, 80],
    ['reserves output for each choice if n contains an underscore', { n: '1_0', max_tokens: 10 }, 100],
    ['reserves the larger of two output limits', { max_completion_tokens: 1, max_tokens: 100_000 }, 100_000],
    ['reserves the larger of two output limits in either order', { max_tokens: 1, max_completion_tokens: 100_000 }, 100_000],
    ['reserves the larger of two output limits from different routes', { max_tokens: 1, max_output_tokens: 100_000 }, 100_000],
    ['parses an output limit in exponent notation', { max_tokens: 1e5 }, 100_000],
    ['ignores an output limit of null', { max_completion_tokens: null, max_tokens: 7 }, 7],
    ["reserves the model's maximum if the caller's limit is higher", { max_tokens: 1e15 }, 128_000],
    ...[0, -1, 0.5, 1e300, '100', true, [5], { value: 5 }].map((limit): [string, object, number] => [
      `uses the model's maximum for the invalid limit ${JSON.stringify(limit)}`,
      { max_tokens: limit },
      128_000,
    ]),
    ["reserves the model's maximum if one of two output limits is invalid", { max_completion_tokens: 1, max_tokens: '9e4' }, 128_000],
  ])('%s', (_what, members, tokens) => {
    expect(outputOf('chat', { ...hello, ...members })).toBe(tokens);
  });

  test('reserves output for each choice even if the digits of n are escaped', () => {
    expect(outputOf('chat', JSON.stringify({ ...hello, n: '@', max_tokens: 10 }).replace('@', '\\u0038'))).toBe(80);
  });

  test('reserves output tokens by the same rules on all routes', () => {
    const input = { model: 'one/m', input: 'hi' };
    expect(outputOf('responses', input)).toBe(128_000);
    expect(outputOf('responses', { ...input, max_output_tokens: 9 })).toBe(9);
    expect(outputOf('responses', { ...input, max_output_tokens: 9, max_tokens: 1_000 })).toBe(1_000);
    // The Responses API has no `max_tokens`, so the vendor may ignore this limit.
    expect(outputOf('responses', { ...input, max_tokens: 1 })).toBe(128_000);
    expect(outputOf('messages', { ...hello, max_tokens: 9 })).toBe(9);
    expect(outputOf('messages', { ...hello, max_tokens: 9, max_completion_tokens: 1_000 })).toBe(1_000);
    expect(outputOf('messages', { ...hello, max_tokens: -1 })).toBe(128_000);
  });

  test('reserves 131,072 tokens or the context window if the catalog has no maximum', () => {
    expect(outputOf('chat', hello, modelOf({ maxOutputTokens: null }))).toBe(131_072);
    expect(outputOf('chat', hello, modelOf({ maxOutputTokens: null, contextWindow: 8_192 }))).toBe(8_192);
  });

  test('also reserves output tokens for predicted text that the model may reject', () => {
    const prediction = { type: 'content', content: 'x'.repeat(5_000) };
    expect(outputOf('chat', { ...hello, max_tokens: 10, prediction })).toBeGreaterThan(5_010);
  });

  test.each(['max_tokens', 'n', 'service_tier', 'tools'])('rejects a body with a duplicate %s', (name) => {
    const body = `{"model":"one/m","messages":[],"${name}":1,"${name}":1}`;
    expect(() => callOf('chat', body)).toThrow('duplicate key');
  });
});

describe('the input tokens that a call reserves', () => {
  const inputOf = (route: TextRoute, members: object | string, changes: Partial<Price>, model: Partial<Candidate> = {}): number => {
    const price = priceOf({ outputNanos: 0n, ...changes });
    return usageBounds(callOf(route, members), [modelOf({ ...model, price })]).costNanos;
  };
  const size = Buffer.byteLength(JSON.stringify(hello));

  test("reserves the cache write price if it's higher than the input price", () => {
    const cost = inputOf('chat', hello, { inputNanos: 4_000_000_000n, cacheWriteNanos: 5_000_000_000n, cacheWrite1hNanos: 8_000_000_000n });
    expect(cost).toBe(size * 5_000);
  });

  test('reserves the price of one-hour cache writes if the request may use them', () => {
    const rates = { inputNanos: 1_000_000_000n, cacheWriteNanos: 1_250_000_000n, cacheWrite1hNanos: 2_000_000_000n };
    const plain = JSON.stringify({ ...hello, cache_control: { type: 'ephemeral', ttl: '1h' } });
    const escaped = plain.replace('cache_control', 'cach\\u0065_control');
    for (const body of [plain, escaped]) expect(inputOf('chat', body, rates)).toBeGreaterThanOrEqual(Buffer.byteLength(body) * 2_000);
    // Many encoders write these escapes on their own, so they don't count as an attempt to hide something.
    const umlauts = JSON.stringify(hello).replace('hi', 'h\\u00fc\\u003c');
    expect(inputOf('chat', umlauts, rates)).toBe(Buffer.byteLength(umlauts) * 1_250);
  });

  test.each(outsideInputs)("reserves the model's entire context window if the request refers to %s", (_what, route, members) => {
    const body = { model: 'one/m', max_tokens: 1, ...members };
    expect(inputOf(route, body, { inputNanos: 1_000_000_000n }, { maxInputTokens: 400_000 })).toBe(400_000 * 1_000);
  });

  test.each<[string, TextRoute, object]>([
    ['an empty list of MCP servers', 'messages', { ...hello, max_tokens: 1, mcp_servers: [] }],
    [
      'a tool with a property called file_id',
      'chat',
      {
        ...hello,
        tools: [
          { type: 'function', function: { name: 'x', parameters: { properties: { file_id: { type: 'string' } }, required: ['file_id'] } } },
        ],
      },
    ],
    ['a text about data', 'chat', { messages: [{ role: 'user', content: [{ type: 'text', text: 'data: 1' }] }] }],
    ['texts to embed', 'embeddings', { input: ['https://example.com', '{"url": "https://example.com"}'] }],
    ['texts to embed in objects', 'embeddings', { input: [{ text: 'https://example.com' }] }],
  ])('reserves only the input in the body for %s', (_what, route, members) => {
    const body = { model: 'one/m', ...members };
    expect(inputOf(route, body, { inputNanos: 1_000_000_000n }, { maxInputTokens: 400_000 })).toBeLessThan(1_000 * 1_000);
  });

  test.each<[string, TextRoute, object | string]>([
    ['messages', 'messages', { context_management: { edits: [{ type: 'compact_20260112' }] } }],
    ['messages with escaped letters', 'messages', '"context_management":{"edits":[{"type":"c\\u006fmpact_20260112"}]}'],
    ['responses', 'responses', { context_management: [{ type: 'compaction', compact_threshold: 1_000 }] }],
  ])('reserves a second request if the vendor may compact the prompt of %s', (_what, route, members) => {
    const own = typeof members === 'string' ? members : JSON.stringify(members).slice(1, -1);
    const body = `{"model":"one/m","max_tokens":100,"max_output_tokens":100,"messages":[],"input":[],${own}}`;
    // The window is so small that escaped letters, which could hide a reference to a file, don't raise the input.
    const input = inputOf(route, body, { inputNanos: 1_000_000_000n }, { maxInputTokens: 10 });
    expect(input).toBe(2 * Buffer.byteLength(body) * 1_000);
    expect(outputOf(route, body)).toBe(200);
  });

  test.each<[string, object | null]>([
    ['tool results', { edits: [{ type: 'clear_tool_uses_20250919' }] }],
    ['nothing', null],
  ])('reserves a single request if the vendor may remove %s from the prompt', (_what, management) => {
    expect(outputOf('messages', { ...hello, max_tokens: 100, context_management: management })).toBe(100);
  });

  test('reserves the largest number of tokens that the model can use for an image', () => {
    const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
    const body = { ...hello, messages: [{ role: 'user', content: [image] }] };
    const { rows } = parseImportedRows(
      { 'p/gpt-4o-mini': { input: 1, output: 1 }, 'p/a': { input: 1, output: 1, image_tokens: 77_000 } },
      () => ({
        dialect: 'chat',
        vendor: null,
      }),
    );
    for (const [id, tokens] of [
      ['p/gpt-4o-mini', 48_169],
      ['p/a', 77_000],
    ] as const) {
      const imageTokens = rows[id]?.imageTokens ?? 0;
      const cost = inputOf('chat', body, { inputNanos: 1_000_000_000n }, { imageTokens });
      expect(cost).toBeGreaterThanOrEqual(tokens * 1_000);
      expect(cost).toBeLessThan((tokens + 500) * 1_000);
    }
  });
});

test('finds images even after a thousand strings that mention images', () => {
  const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
  const members = { model: 'one/m', tools: [Array(1_000).fill('image_url')], messages: [{ role: 'user', content: Array(50).fill(image) }] };
  const price = priceOf({ inputNanos: 1_000_000_000n, outputNanos: 0n });
  expect(usageBounds(callOf('chat', members), [modelOf({ price })]).costNanos).toBeGreaterThan(50 * 5_000 * 1_000);
});

describe('extra charges that a call reserves', () => {
  const tierMillionths = { priority: 2_000_000n, flex: 500_000n, fast: 6_000_000n, us: 1_100_000n };
  const limited = { ...hello, max_tokens: 1_000 };

  test.each<[string, object, number]>([
    ['priority', { service_tier: 'priority' }, 2_000],
    ['flex, which may be served in the standard tier', { service_tier: 'flex' }, 1_000],
    ['auto', { service_tier: 'auto' }, 1_000],
    ['default', { service_tier: 'default' }, 1_000],
    ['a tier that the catalog does not know', { service_tier: 'turbo' }, 1_000],
    ['a faster mode in a region', { speed: 'fast', inference_geo: 'us' }, 6_600],
  ])('multiplies the reserved cost for %s', (_what, members, tokens) => {
    expect(outputOf('chat', { ...limited, ...members }, modelOf({ price: priceOf({ tierMillionths }) }))).toBe(tokens);
  });

  const perToolUseNanos = { web_search: 10_000_000n, web_search_preview: 25_000_000n, code_interpreter: 30_000_000n };
  const model = modelOf({ price: priceOf({ outputNanos: 0n, perToolUseNanos }) });
  const toolCost = (route: TextRoute, members: object | string): number => usageBounds(callOf(route, members), [model]).costNanos / dollar;
  const added = (definition: object) => ({
    role: 'system',
    content: [{ type: 'tool_addition', tool: { type: 'tool_definition', definition } }],
  });
  const searched = {
    type: 'web_search_tool_result',
    tool_use_id: 'a',
    content: [{ type: 'web_search_result', url: 'https://example.com' }],
  };
  const ask = (tools: object[], changes: object = {}) => ({ model: 'one/m', input: 'hi', tools, ...changes });

  test.each<[string, TextRoute, object | string, number]>([
    ['ten tool calls if there is no limit', 'responses', ask([{ type: 'web_search' }]), 0.1],
    [
      'as many tool calls as max_tool_calls allows',
      'responses',
      ask([{ type: 'web_search_preview_2025_03_11' }], { max_tool_calls: 2 }),
      0.05,
    ],
    ['as many tool calls as max_uses allows', 'messages', { ...limited, tools: [{ type: 'web_search_20250305', max_uses: 3 }] }, 0.03],
    ['several tools', 'responses', ask([{ type: 'web_search' }, { type: 'code_interpreter' }], { max_tool_calls: 1 }), 0.04],
    ['an escaped name', 'responses', JSON.stringify(ask([{ type: 'web_search' }])).replace('web_s', 'web_\\u0073'), 0.1],
    ['the search of a search model', 'chat', { ...limited, web_search_options: {} }, 0.01],
    ['a tool in a system message', 'messages', { ...limited, messages: [added({ type: 'web_search_20250305', max_uses: 30 })] }, 0.3],
    ['a tool in a system message without a limit', 'messages', { ...limited, messages: [added({ type: 'web_search_20250305' })] }, 0.1],
    ['tools in the input', 'responses', ask([], { input: [{ type: 'additional_tools', tools: [{ type: 'code_interpreter' }] }] }), 0.3],
    ['tools that were found', 'responses', ask([], { input: [{ type: 'tool_search_output', tools: [{ type: 'web_search' }] }] }), 0.1],
    [
      'an escaped tool in a system message',
      'messages',
      JSON.stringify({ ...limited, messages: [added({ type: 'web_search_20250305' })] }).replaceAll('tool_a', 'tool_\\u0061'),
      0.1,
    ],
    ['nothing for the results of a search', 'messages', { ...limited, messages: [{ role: 'user', content: [searched] }] }, 0],
    ["nothing for the caller's own tools", 'responses', ask([{ type: 'function', name: 'web_search' }]), 0],
    ['nothing for a tool without a price', 'responses', ask([{ type: 'mcp' }]), 0],
  ])('reserves extra charges: %s', (_what, route, members, usd) => {
    expect(toolCost(route, members)).toBeCloseTo(usd, 9);
  });

  test('reserves input tokens for what a web search adds to the prompt', () => {
    const price = priceOf({ inputNanos: 1_000_000_000n, outputNanos: 0n, perToolUseNanos });
    const { costNanos } = usageBounds(callOf('responses', ask([{ type: 'web_search' }], { max_tool_calls: 1 })), [modelOf({ price })]);
    expect(costNanos).toBeGreaterThanOrEqual(10_000_000 + 20_000 * 1_000);
  });
});

describe('tokens that a call reserves from a tpm ceiling', () => {
  const unlimited = callOf('chat', hello);
  const { quotaKeyId } = unlimited.caller;
  const finished = (output: number, input = 20): CallResult =>
    ({ outcome: 'ok', estimated: false, model: 'one/m', tokens: { ...noTokens, input, output } }) as unknown as CallResult;
  const sample = { bodyBytes: unlimited.body.length, choices: 1 };
  const reserve = (call: Call, estimates: UsageEstimates) => usageBounds(call, [modelOf()], estimates).tokens;
  const bytes = unlimited.body.length;

  test('reserves 4,096 output tokens if there are no recent calls', () => {
    const estimates = createUsageEstimates();
    expect(reserve(unlimited, estimates)).toBe(bytes + 4_096);
    const limited = callOf('chat', { ...hello, max_tokens: 10 });
    expect(reserve(limited, estimates)).toBe(limited.body.length + 10);
  });

  test('estimates output tokens from recent calls of the same key and model', () => {
    const estimates = createUsageEstimates();
    reserve(unlimited, estimates);
    estimates.observe(quotaKeyId, sample, finished(50_000));
    expect(reserve(unlimited, estimates)).toBeGreaterThan(50_000);
    expect(usageBounds(unlimited, [modelOf({ id: 'one/other' })], estimates).tokens).toBe(bytes + 4_096);
    for (let n = 0; n < 200; n += 1) estimates.observe(quotaKeyId, sample, finished(2_000));
    expect(reserve(unlimited, estimates)).toBeLessThan(bytes + 2_200);
  });

  test('never reserves fewer than 1,024 output tokens per choice', () => {
    const estimates = createUsageEstimates();
    reserve(unlimited, estimates);
    for (let n = 0; n < 10_000; n += 1) estimates.observe(quotaKeyId, sample, finished(1, 1));
    expect(reserve(unlimited, estimates)).toBeGreaterThanOrEqual(1_024);
    expect(reserve(callOf('chat', { ...hello, n: 100 }), estimates)).toBeGreaterThanOrEqual(102_400);
  });

  test('still reserves many tokens when a small call follows a large one', () => {
    const estimates = createUsageEstimates();
    reserve(unlimited, estimates);
    estimates.observe(quotaKeyId, sample, finished(100_000));
    estimates.observe(quotaKeyId, sample, finished(1));
    expect(reserve(unlimited, estimates)).toBeGreaterThan(90_000);
  });

  test('remembers recent calls for no more than ten thousand keys', () => {
    const estimates = createUsageEstimates();
    reserve(unlimited, estimates);
    estimates.observe(quotaKeyId, sample, finished(50_000));
    for (let n = 0; n < 9_000; n += 1) estimates.estimate(`key-${n}`, 'one/m');
    expect(reserve(unlimited, estimates)).toBeGreaterThan(50_000);
    for (let n = 0; n < 10_000; n += 1) estimates.estimate(`other-${n}`, 'one/m');
    expect(reserve(unlimited, estimates)).toBe(bytes + 4_096);
  });
});
