/**
 * Tests requests to a single candidate. They have the caller's bytes, or a translation if the vendor uses the other
 * dialect.
 */
import { describe, expect, it, test } from '@jest/globals';
import { loadConfig } from '../../../src/config/load.ts';
import type { Call, Dialect, PromptRoute } from '../../../src/core/call.ts';
import { noCorrelation } from '../../../src/core/call.ts';
import type { Candidate } from '../../../src/core/candidate.ts';
import { VendorError } from '../../../src/core/errors.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import { type RequestFormat, standardFormat } from '../../../src/core/request-format.ts';
import { createSseParser } from '../../../src/core/sse.ts';
import { sealReasoning } from '../../../src/dialects/json/sealed-reasoning.ts';
import { routeCodecs } from '../../../src/dialects/routes/route-codecs.ts';
import type { DialectAdapter } from '../../../src/pipeline/call/dialect-adapter.ts';
import { adapterFor } from '../../../src/pipeline/call/dialect-adapter.ts';
import { forwardedHeadersFor } from '../../../src/pipeline/call/forwarded-headers.ts';
import type { ResponsesForm } from '../../../src/pipeline/call/responses-routes.ts';
import { type ChunkReader, nextChunk, type StreamEnd } from '../../../src/vendors/stream.ts';
import type { StreamResponse, VendorResponse } from '../../../src/vendors/text.ts';
import type { Provider } from '../../../src/vendors/vendor.ts';

const passed = { 'anthropic-version': '2020-01-01', 'anthropic-beta': 'a', 'openai-beta': 'o', 'idempotency-key': 'i' };

function callOf(route: PromptRoute, text: string, stream = false): Call {
  const body = Buffer.from(text);
  return {
    id: '0193d7a0-0000-7000-8000-000000000000',
    startedAt: 1_763_678_400_500,
    route,
    caller: { keyId: 'k', keyPrefix: 'abcdefgh', quotaKeyId: 'k', projectId: 'p', models: null, expiresAt: null },
    projectSlug: 'acme',
    source: 'acme',
    hasExplicitSource: false,
    requestedModel: 'standard',
    stream,
    body,
    spans: scanObject(body),
    maxOutputTokens: null,
    memory: { mode: 'write', explicitWrite: false, subject: null },
    cache: { reads: true, writes: true },
    correlation: noCorrelation,
    deadlineAt: null,
    forwardedHeaders: passed,
  };
}

function adapt(
  call: Call,
  dialect: Dialect,
  { baseUrl = 'http://vendor.test/v1', maxOutputTokens = null, form = 'native' }: Target = {},
): DialectAdapter {
  const candidate: Candidate = {
    id: `x/${dialect}-model`,
    provider: 'x',
    model: `${dialect}-model`,
    dialect,
    price: null,
    maxOutputTokens,
  };
  const provider: Provider = {
    name: 'x',
    dialect,
    baseUrl,
    headers: {},
    requests: requestsAt(baseUrl, dialect),
    secrets: [],
    connectTimeoutMs: 1,
    firstByteTimeoutMs: 1,
    idleTimeoutMs: 1,
  };
  return adapterFor(call, candidate, provider, form);
}

/** The request format of a provider that has this address in the configuration. */
function requestsAt(baseUrl: string, dialect: Dialect): RequestFormat {
  const fileText = JSON.stringify({ providers: { x: { base_url: baseUrl, dialect } } });
  const provider = loadConfig({ env: {}, fileText, fileName: 'gateway.yaml' }).providers.x;
  if (!provider) throw new Error('there is no provider');
  return provider.requests;
}

interface Target {
  readonly baseUrl?: string;
  readonly maxOutputTokens?: number | null;
  readonly form?: ResponsesForm;
}

const jsonOf = ({ body }: DialectAdapter): unknown => JSON.parse(Buffer.concat([body].flat()).toString('utf8'));
const asked = '"messages":[{"role":"user","content":"hi"}]';
const chatText = `{ "x" : 1.0, "model":"standard",${asked} }`;
const messagesText = `{ "x" : 1.0, "model":"standard","max_tokens":9,${asked} }`;

describe('for a vendor of the same dialect', () => {
  test.each([
    ['chat', chatText],
    ['messages', messagesText],
  ] as const)("changes only the model in the request and doesn't change the response: %s", (route, text) => {
    const adapter = adapt(callOf(route, text), route);
    expect(adapter.body.toString()).toBe(text.replace('standard', `${route}-model`));
    expect(adapter).toMatchObject({ codec: { route } });
    const answer = plainOf(route, '{"any":1.0}');
    expect(adapter.toCallerResponse(answer)).toBe(answer);
  });
});

describe('for a vendor that supports responses', () => {
  const own = '{ "type":"reasoning", "encrypted_content":"gAAA" }';
  const sealed = `{"type":"reasoning","encrypted_content" : "${sealReasoning({ a: 1 })}","id":"r"}`;
  const broken = '{"type":"reasoning","encrypted_content":"gw1.???"}';
  const quoting = `{"role":"user","content":"\\"${sealReasoning({ a: 1 })}\\""}`;
  const bodyOf = (model: string, items: string): string =>
    `{ "model":"${model}", "input": ${items}, "x" : 1.0 ,"n":12345678901234567890}\n`;

  test.each([
    ['none', `[${own} , ${quoting}]`, `[${own} , ${quoting}]`],
    ['the first item', `[ ${sealed}, ${own}]`, `[ ${own}]`],
    ['the last item', `[${own}\n, ${sealed} ]`, `[${own} ]`],
    ['several items', `[${sealed},${own},${sealed},${sealed} , ${quoting}]`, `[${own},${quoting}]`],
    ['all items', `[ ${sealed} ]`, '[  ]'],
    ['text that does not contain reasoning', `[${broken}]`, `[${broken}]`],
    ['a text instead of items', `"${sealReasoning({ a: 1 })}"`, `"${sealReasoning({ a: 1 })}"`],
  ])('removes reasoning that was sealed for another vendor and changes no other byte: %s', (_place, items, sent) => {
    expect(adapt(callOf('responses', bodyOf('standard', items)), 'chat').body.toString()).toBe(bodyOf('chat-model', sent));
  });
});

describe("for a vendor that doesn't support responses", () => {
  test.each([
    ['openrouter.ai', true],
    ['vendor.test', false],
  ])('decides whether to send reasoning back to %s: %s', (host, isReturned) => {
    const details = [{ type: 'reasoning.encrypted', data: 'eA==', format: 'google-gemini-v1' }];
    const items = [
      { role: 'user', content: 'hi' },
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: sealReasoning({ reasoning_details: details }) },
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
    ];
    const call = callOf('responses', JSON.stringify({ model: 'standard', input: items }));
    const { messages } = jsonOf(adapt(call, 'chat', { baseUrl: `https://${host}/v1`, form: 'translated' })) as { messages: object[] };
    expect(messages.at(1)).toEqual({
      role: 'assistant',
      content: null,
      ...(isReturned && { reasoning_details: details }),
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }],
    });
  });
});

describe('for a vendor of the other dialect', () => {
  it("translates the request body to the vendor's dialect", () => {
    const toMessages = adapt(callOf('chat', chatText), 'messages', { maxOutputTokens: 321 });
    expect(jsonOf(toMessages)).toEqual({
      model: 'messages-model',
      max_tokens: 321,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }],
    });
    expect(toMessages.codec.route).toBe('messages');
    const toChat = adapt(callOf('messages', messagesText), 'chat');
    expect(jsonOf(toChat)).toEqual({ model: 'chat-model', messages: [{ role: 'user', content: 'hi' }], max_tokens: 9 });
    expect(toChat.codec.route).toBe('chat');
  });

  const [openAi, anthropic] = [{ 'openai-beta': 'o' }, { 'anthropic-beta': 'a' }];
  test.each([
    ['messages', 'chat', anthropic],
    ['messages', 'messages', { ...anthropic, 'anthropic-version': '2020-01-01' }],
    ['chat', 'messages', openAi],
    ['chat', 'chat', openAi],
    ['embeddings', 'embeddings', openAi],
  ] as const)('sends a %s vendor only its own headers from a %s caller', (vendor, route, headers) => {
    expect(forwardedHeadersFor(vendor, { ...callOf('chat', '{}'), route, forwardedHeaders: passed }, standardFormat)).toEqual({
      headers: { ...headers, 'idempotency-key': 'i' },
      droppedFlags: null,
    });
  });

  test('filters beta flags from the header and the body', () => {
    const call = { ...callOf('messages', '{"anthropic_beta":["two","unknown", 3]}'), forwardedHeaders: { 'anthropic-beta': 'one, odd' } };
    const betaFlags = { allowed: ['one', 'two'], aliases: {}, isInBody: true };
    expect(forwardedHeadersFor('messages', call, { betaFlags })).toEqual({
      headers: { 'anthropic-beta': 'one,two' },
      droppedFlags: ['odd', 'unknown'],
    });
    expect(forwardedHeadersFor('messages', call, { betaFlags: { ...betaFlags, isInBody: false } }).headers).toEqual({
      'anthropic-beta': 'one',
    });
  });

  test.each([
    ['https://api.openai.com/v1', 'max_completion_tokens'],
    ['https://acme.openai.azure.com/openai/v1', 'max_completion_tokens'],
    ['https://api.openai.com.example.com/v1', 'max_tokens'],
    ['http://127.0.0.1:8080/v1', 'max_tokens'],
  ])('sends the output limit to %s as %s', (baseUrl, member) => {
    expect(jsonOf(adapt(callOf('messages', messagesText), 'chat', { baseUrl }))).toMatchObject({ [member]: 9 });
  });

  test.each([
    ['chat', 'messages', `{"n":2,${asked}}`, 'n: must be 1 for vendors that use the messages dialect'],
    ['messages', 'chat', `{"max_tokens":9,"container":"c",${asked}}`, 'container: is not supported by vendors that use the chat dialect'],
    [
      'chat',
      'messages',
      `{"x":${'['.repeat(60_000)}${']'.repeat(60_000)},${asked}}`,
      'the body is nested too deeply, or has too many values, to be translated to the other dialect',
    ],
  ] as const)("rejects a %s request that can't be translated for a %s vendor", (route, dialect, text, sentence) => {
    let failure: unknown = null;
    try {
      adapt(callOf(route, text), dialect);
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(VendorError);
    expect(failure).toMatchObject({ kind: 'status', status: 400, vendorMessage: sentence });
  });
});

function plainOf(dialect: Dialect, text: string): VendorResponse {
  const bytes = Buffer.from(text);
  const summary = routeCodecs[dialect].parseResponse(bytes) ?? {
    tokens: null,
    isFinal: false,
    turn: { text: '', toolCalls: [] },
    generatedCharacters: 0,
  };
  return { kind: 'plain', status: 200, contentType: 'text/x', bytes, summary };
}

describe('a plain response in the other dialect', () => {
  it("translates a plain response to the caller's dialect", () => {
    const use = '{"type":"tool_use","id":"t","name":"gateway_json_answer","input":{"a":1.0}}';
    const answer = plainOf(
      'messages',
      `{"id":"msg_1","content":[${use}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`,
    );
    const translated = adapt(callOf('chat', chatText), 'messages').toCallerResponse(answer);
    if (translated.kind !== 'plain') throw new Error('not plain');
    expect(JSON.parse(translated.bytes.toString())).toMatchObject({
      id: 'chatcmpl-1',
      created: 1_763_678_400,
      model: 'messages-model',
      choices: [{ message: { content: '{"a":1.0}' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 4 },
    });
    expect(translated).toMatchObject({
      contentType: 'application/json',
      summary: { isFinal: true, turn: { text: '{"a":1}', toolCalls: [] } },
    });
  });

  test.each([
    ['', 'text'],
    ['"thinking":{"type":"disabled"},', 'text'],
    ['"thinking":{"type":"adaptive"},', 'thinking'],
    ['"thinking":{"type":"enabled","budget_tokens":1024},', 'thinking'],
  ])('translates reasoning for a messages request with %j so that the response starts with %s', (thinking, type) => {
    const answer = plainOf('chat', '{"choices":[{"message":{"reasoning_content":"hm","content":"A"},"finish_reason":"stop"}]}');
    const call = callOf('messages', `{${thinking}"model":"standard","max_tokens":9,${asked}}`);
    const translated = adapt(call, 'chat').toCallerResponse(answer);
    if (translated.kind !== 'plain') throw new Error('not plain');
    expect(JSON.parse(translated.bytes.toString()).content[0].type).toBe(type);
  });

  test.each([
    ['chat', 'messages', '{"content":"x"}'],
    ['messages', 'chat', '{"choices":[]}'],
    ['messages', 'chat', '{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{"}}]}}]}'],
  ] as const)("throws if a response can't be translated for a %s caller", (route, dialect, text) => {
    const adapter = adapt(callOf(route, route === 'chat' ? chatText : messagesText), dialect);
    expect(() => adapter.toCallerResponse(plainOf(dialect, text))).toThrow(expect.objectContaining({ kind: 'unreadable', status: 200 }));
  });
});

describe('a streamed response in the other dialect', () => {
  const start =
    'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":3,"output_tokens":1}}}\n\n';
  const text = (delta: string): string =>
    `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"${delta}"}}\n\n`;
  const stop = 'event: message_stop\ndata: {"type":"message_stop"}\n\n';
  const fault = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n';

  interface Translated {
    readonly chunks: readonly string[];
    readonly lasts: readonly boolean[];
    readonly end: StreamEnd;
  }

  /** Creates a vendor's stream as the relay sees it, and reports if it was closed. */
  function streamOf(chunks: readonly (readonly [string, boolean])[], end: StreamEnd) {
    let isClosed = false;
    const rest = [...chunks];
    const relay = (): ChunkReader => ({
      ready: () => Promise.resolve(),
      read() {
        const [chunk, isLast] = rest.shift() ?? [];
        if (chunk === undefined) return end;
        // The relay also reads the last event of a stream if no blank line follows.
        const parser = createSseParser();
        const bytes = Buffer.from(chunk);
        const events = [...parser.push(bytes).events, ...parser.end().events];
        return { kind: 'chunk', bytes, events, isLast: isLast === true };
      },
      close() {
        isClosed = true;
      },
    });
    const summary = () => ({ tokens: null, isFinal: false, turn: { text: '', toolCalls: [] }, generatedCharacters: 0 });
    const answer: StreamResponse = { kind: 'stream', status: 200, chunks: relay, summary, hasAllOutput: () => false };
    return { answer, isClosed: () => isClosed };
  }

  function translateStream(answer: VendorResponse): ChunkReader {
    const translated = adapt(callOf('chat', chatText, true), 'messages').toCallerResponse(answer);
    if (translated.kind !== 'stream') throw new Error('not a stream');
    return translated.chunks();
  }

  async function readChunks(chunks: ChunkReader): Promise<Translated> {
    const texts: string[] = [];
    const lasts: boolean[] = [];
    for (;;) {
      const step = await nextChunk(chunks);
      if (step.kind !== 'chunk') {
        chunks.close();
        return { chunks: texts, lasts, end: step };
      }
      texts.push(step.bytes.toString());
      lasts.push(step.isLast);
    }
  }

  it('translates the stream chunk by chunk', async () => {
    const { answer, isClosed } = streamOf(
      [
        [start, false],
        [text('Hel'), false],
        [text('lo') + stop, true],
      ],
      { kind: 'whole' },
    );
    const { chunks, lasts, end } = await readChunks(translateStream(answer));
    expect(chunks).toEqual([
      expect.stringContaining('"role":"assistant"'),
      expect.stringContaining('"content":"Hel"'),
      expect.stringMatching(/"content":"lo".*"finish_reason":"stop".*\[DONE\]\n\n$/s),
    ]);
    expect([lasts, end, isClosed()]).toEqual([[false, false, true], { kind: 'whole' }, true]);
  });

  it("aborts a translated stream if the vendor's stream breaks", async () => {
    const { answer } = streamOf([[start + text('Hel'), false]], {
      kind: 'broken',
      message: 'the response ended early',
      errorForwarded: true,
    });
    expect(await readChunks(translateStream(answer))).toMatchObject({
      end: { kind: 'broken', message: 'the response ended early', errorForwarded: false },
    });
  });

  it("ends a translated stream with the vendor's error message", async () => {
    const { answer, isClosed } = streamOf(
      [
        [start + text('Hel') + fault + text('never'), false],
        [stop, true],
      ],
      { kind: 'whole' },
    );
    const { chunks, end } = await readChunks(translateStream(answer));
    expect(chunks.join('')).toMatch(/"content":"Hel"/);
    expect(chunks.join('')).not.toMatch(/never|Overloaded|DONE/);
    expect([end, isClosed()]).toEqual([{ kind: 'broken', message: 'Overloaded', errorForwarded: false }, true]);
  });

  it('aborts a translated stream if the end marker is missing', async () => {
    const { answer } = streamOf([[start + text('Hel'), true]], { kind: 'whole' });
    expect(await readChunks(translateStream(answer))).toMatchObject({
      lasts: [false],
      end: { kind: 'broken', message: 'the vendor ended the stream early' },
    });
  });

  it("cancels the vendor's stream if the reader stops early", async () => {
    const { answer, isClosed } = streamOf(
      [
        [start, false],
        [text('Hel'), false],
      ],
      { kind: 'whole' },
    );
    const chunks = translateStream(answer);
    await nextChunk(chunks);
    chunks.close();
    expect(isClosed()).toBe(true);
  });
});
