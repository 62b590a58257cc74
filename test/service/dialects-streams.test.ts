/**
 * Tests that an assembled stream equals the JSON response, with the same usage and cost, for callers and vendors of
 * both dialects.
 */
import type Anthropic from '@anthropic-ai/sdk';
import { describe, expect, it } from '@jest/globals';
import type OpenAI from 'openai';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, shareGateway } from '../support/gateway.ts';
import type { Way } from './dialects-gateway.ts';
import { anthropicOf, chatTools, messagesTools, openaiOf, providersYaml, vendors, ways } from './dialects-gateway.ts';

const said = 'Über "Oslo" \\ 東京 😀\n  two  spaces\ttab';
const answered = `say-${Buffer.from('Ja: "Ørsta" \\ 東京 👩‍👩‍👧 {"a": 1}\r\n\n data: [DONE]\n\nevent: error\n').toString('base64url')}`;

/** The vendor's script, and the output limit if it matters. */
const answers: readonly { readonly title: string; readonly model: string; readonly maxTokens?: number }[] = [
  ...[
    'big-96',
    'cached-70+tool',
    'cached-5+cache-written-6',
    'filtered',
    'no-usage',
    'usage-in-finish',
    'no-done',
    'tiny-bytes+tools-parallel',
    'crlf+tools-interleaved',
    'numbers',
  ].map((model) => ({ title: model, model })),
  { title: 'an answer that is cut off', model: 'echo', maxTokens: 3 },
  { title: 'odd characters byte by byte', model: `tiny-bytes+${answered}` },
];

const price = '{ input: 3, output: 15, cached_input: 0.3, cache_write: 3.75 }';
const yaml = (vendorUrl: string, deadUrl: string): string =>
  `${providersYaml(vendorUrl, deadUrl)}models:\n${answers
    .flatMap(({ model }) => Object.values(vendors).map((vendor) => `  "${vendor}/${model}": ${price}\n`))
    .filter((line, index, all) => all.indexOf(line) === index)
    .join('')}`;

const lent = shareGateway({ database: 'any', yaml });

interface Received {
  readonly text: string | null;
  readonly tools: readonly unknown[];
  readonly end: unknown;
  readonly model: string;
  /** All input tokens, the ones that were read from the cache, and output tokens. */
  readonly usage: readonly [whole: number, cached: number, output: number] | null;
}

const ask = {
  chat: async (gateway: TestGateway, model: string, stream: boolean, maxTokens: number): Promise<Received> => {
    const body = { model, max_tokens: maxTokens, tools: chatTools, messages: [{ role: 'user' as const, content: said }] };
    const { completions } = openaiOf(gateway).chat;
    const asking = { ...body, stream_options: { include_usage: true } };
    return fromChat(stream ? await completions.stream(asking).finalChatCompletion() : await completions.create(body));
  },
  messages: async (gateway: TestGateway, model: string, stream: boolean, maxTokens: number): Promise<Received> => {
    const body = { model, max_tokens: maxTokens, tools: messagesTools, messages: [{ role: 'user' as const, content: said }] };
    const { messages } = anthropicOf(gateway);
    return fromMessages(stream ? await messages.stream(body).finalMessage() : await messages.create(body));
  },
};

function fromChat({ choices, usage, model, object }: OpenAI.ChatCompletion): Received {
  expect([choices.length, object]).toEqual([1, 'chat.completion']);
  const { message, finish_reason: end } = choices[0] ?? { message: { content: null, tool_calls: [] }, finish_reason: null };
  const tools = (message.tool_calls ?? []).map((call) => {
    expect(call.id).toMatch(/^(call|toolu)_demo_\d+_\d$/);
    return call.type === 'function' ? [call.function.name, call.function.arguments] : call;
  });
  // A chat stream has no content if the JSON response has an empty one.
  const text = message.content === '' ? null : message.content;
  const counts = usage && ([usage.prompt_tokens, usage.prompt_tokens_details?.cached_tokens ?? 0, usage.completion_tokens] as const);
  if (usage) expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens);
  return { text, tools, end, model, usage: counts ?? null };
}

function fromMessages({ content, stop_reason: end, stop_sequence: stopSequence, usage, model, role, type }: Anthropic.Message): Received {
  expect([role, type, stopSequence]).toEqual(['assistant', 'message', null]);
  const texts = content.flatMap((block) => (block.type === 'text' ? [block.text] : []));
  const tools = content.flatMap((block) => {
    if (block.type !== 'tool_use') return [];
    expect(block.id).toMatch(/^(call|toolu)_demo_\d+_\d$/);
    return [[block.name, JSON.stringify(block.input)]];
  });
  const { input_tokens: input, output_tokens: output, cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage;
  const cached = read ?? 0;
  return { text: texts.length === 0 ? null : texts.join(''), tools, end, model, usage: [input + cached + (written ?? 0), cached, output] };
}

const sentWords = Math.ceil(said.length / 4);

/** Returns the vendor's counts. Only messages vendors report cache writes. */
function countedBy(vendor: Way['vendor'], model: string) {
  const amount = (word: string): number => Number(new RegExp(`(?:^|\\+)${word}-(\\d+)`).exec(model)?.[1] ?? 0);
  return { input: sentWords, cached_input: amount('cached'), cache_write: vendor === 'messages' ? amount('cache-written') : 0 };
}

describe.each(ways)('a $caller caller on a $vendor vendor', ({ caller, vendor }) => {
  // The SDK cannot parse a messages response without usage, which we don't add if nothing is translated.
  const readable = answers.filter(({ model }) => model !== 'no-usage' || caller !== vendor || caller === 'chat');

  it.each(readable)('returns the same content plain and streamed: $title', async ({ model, maxTokens = 10_000 }) => {
    const gateway = lent();
    const id = `${vendors[vendor]}/${model}`;
    const plain = await ask[caller](gateway, id, false, maxTokens);
    const streamed = await ask[caller](gateway, id, true, maxTokens);
    const isCounted = !model.includes('no-usage');
    // A messages response needs usage, so it is zero if the vendor sent none.
    const noCounts = caller === 'chat' ? null : [0, 0, 0];
    expect(streamed).toEqual(isCounted ? plain : { ...plain, usage: noCounts });
    expect(plain).toMatchObject({ model, ...(isCounted ? {} : { usage: noCounts }) });

    const [streamedCall, plainCall] = await callsOf(gateway, '?limit=2');
    const shared = { model: id, outcome: 'ok', status: 200, estimated: !isCounted, attempts: [{ n: 1, outcome: 'ok' }] };
    expect([plainCall, streamedCall]).toMatchObject([
      { ...shared, stream: false },
      { ...shared, stream: true },
    ]);
    if (!isCounted || !plainCall || !streamedCall) return;
    const counted = countedBy(vendor, model);
    const [whole, cached, output] = plain.usage ?? [];
    expect(plainCall.tokens).toEqual({ ...counted, output });
    expect(streamedCall.tokens).toEqual(plainCall.tokens);
    expect([whole, cached]).toEqual([counted.input + counted.cached_input + counted.cache_write, counted.cached_input]);
    const cost = (counted.input * 3 + counted.cached_input * 0.3 + counted.cache_write * 3.75 + (output ?? 0) * 15) / 1e6;
    expect(plainCall.cost).toBeCloseTo(cost, 9);
    expect(streamedCall.cost).toBe(plainCall.cost);
    expect(streamedCall.attempts).toMatchObject([{ cost: plainCall.cost }]);
  });
});
