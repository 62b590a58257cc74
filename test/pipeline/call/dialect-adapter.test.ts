/** How one candidate is spoken to: the caller's bytes, or a translation that a vendor of the other dialect understands. */
import { describe, expect, it, test } from '@jest/globals';
import type { Call, Candidate, Dialect } from '../../../src/core/call.ts';
import { noCorrelation } from '../../../src/core/call.ts';
import { VendorError } from '../../../src/core/errors.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import { routeCodecs } from '../../../src/dialects/routes/route-codecs.ts';
import type { DialectAdapter } from '../../../src/pipeline/call/dialect-adapter.ts';
import { adapterFor } from '../../../src/pipeline/call/dialect-adapter.ts';
import type { StreamChunk, StreamEnd } from '../../../src/vendors/stream.ts';
import type { StreamResponse, VendorResponse } from '../../../src/vendors/text.ts';
import type { Provider } from '../../../src/vendors/vendor.ts';

const passed = { 'anthropic-version': '2020-01-01', 'anthropic-beta': 'a', 'openai-beta': 'o', 'idempotency-key': 'i' };

function callOf(route: Dialect, text: string, stream = false): Call {
  const body = Buffer.from(text);
  return {
    id: '0193d7a0-0000-7000-8000-000000000000',
    startedAt: 1_763_678_400_500,
    route,
    caller: { keyId: 'k', keyPrefix: 'abcdefgh', quotaKeyId: 'k', projectId: 'p', models: null, expiresAt: null },
    projectSlug: 'acme',
    source: 'acme',
    sourceGiven: false,
    modelAsked: 'standard',
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

function speak(call: Call, dialect: Dialect, { baseUrl = 'http://vendor.test/v1', maxOutputTokens = null }: Target = {}): DialectAdapter {
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
    secrets: [],
    connectTimeoutMs: 1,
    firstByteTimeoutMs: 1,
    idleTimeoutMs: 1,
  };
  return adapterFor(call, candidate, provider);
}

interface Target {
  readonly baseUrl?: string;
  readonly maxOutputTokens?: number | null;
}

const jsonOf = ({ body }: DialectAdapter): unknown => JSON.parse(body.toString('utf8'));
const asked = '"messages":[{"role":"user","content":"hi"}]';
const chatText = `{ "x" : 1.0, "model":"standard",${asked} }`;
const messagesText = `{ "x" : 1.0, "model":"standard","max_tokens":9,${asked} }`;

describe('to a vendor of the same dialect', () => {
  test.each([
    ['chat', chatText],
    ['messages', messagesText],
  ] as const)("%s: the caller's bytes go but for the model, and the answer comes as it is", (route, text) => {
    const speech = speak(callOf(route, text), route);
    expect(speech.body.toString()).toBe(text.replace('standard', `${route}-model`));
    expect(speech).toMatchObject({ rules: { route }, passedHeaders: passed });
    const answer = plainOf(route, '{"any":1.0}');
    expect(speech.toCallerResponse(answer)).toBe(answer);
  });
});

describe('to a vendor of the other dialect', () => {
  it('goes what the caller said, and the headers of the dialect that is spoken', () => {
    const toMessages = speak(callOf('chat', chatText), 'messages', { maxOutputTokens: 321 });
    expect(jsonOf(toMessages)).toEqual({
      model: 'messages-model',
      max_tokens: 321,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }],
    });
    expect([toMessages.codec.route, toMessages.forwardedHeaders]).toEqual(['messages', { 'anthropic-beta': 'a', 'idempotency-key': 'i' }]);
    const toChat = speak(callOf('messages', messagesText), 'chat');
    expect(jsonOf(toChat)).toEqual({ model: 'chat-model', messages: [{ role: 'user', content: 'hi' }], max_tokens: 9 });
    expect([toChat.codec.route, toChat.forwardedHeaders]).toEqual(['chat', { 'openai-beta': 'o', 'idempotency-key': 'i' }]);
  });

  test.each([
    ['https://api.openai.com/v1', 'max_completion_tokens'],
    ['https://acme.openai.azure.com/openai/v1', 'max_completion_tokens'],
    ['https://api.openai.com.example.com/v1', 'max_tokens'],
    ['http://127.0.0.1:8080/v1', 'max_tokens'],
  ])('%s takes the bound on output as %s', (baseUrl, member) => {
    expect(jsonOf(speak(callOf('messages', messagesText), 'chat', { baseUrl }))).toMatchObject({ [member]: 9 });
  });

  test.each([
    ['chat', 'messages', `{"n":2,${asked}}`, 'n other than 1 cannot be expressed in the messages dialect'],
    ['messages', 'chat', `{"max_tokens":9,"container":"c",${asked}}`, 'container cannot be expressed in the chat dialect'],
    [
      'chat',
      'messages',
      `{"x":${'['.repeat(60_000)}${']'.repeat(60_000)},${asked}}`,
      'the body is nested too deeply, or has too many values, to be told in the other dialect',
    ],
  ] as const)('what a %s caller says and a %s vendor cannot hear is a refusal', (route, dialect, text, sentence) => {
    let failure: unknown = null;
    try {
      speak(callOf(route, text), dialect);
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(VendorError);
    expect(failure).toMatchObject({ kind: 'status', status: 400, vendorMessage: sentence });
  });
});

function plainOf(dialect: Dialect, text: string): VendorResponse {
  const bytes = Buffer.from(text);
  const reading = routeCodecs[dialect].parseResponse(bytes) ?? { tokens: null, isFinal: false, turn: { text: '', toolCalls: [] } };
  return { kind: 'plain', status: 200, contentType: 'text/x', bytes, reading };
}

describe('a plain answer of the other dialect', () => {
  it('is told in the words of the caller, and memory keeps what the caller heard', () => {
    const use = '{"type":"tool_use","id":"t","name":"gateway_json_answer","input":{"a":1.0}}';
    const answer = plainOf(
      'messages',
      `{"id":"msg_1","content":[${use}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`,
    );
    const told = speak(callOf('chat', chatText), 'messages').toCallerResponse(answer);
    if (told.kind !== 'plain') throw new Error('not plain');
    expect(JSON.parse(told.bytes.toString())).toMatchObject({
      id: 'msg_1',
      created: 1_763_678_400,
      model: 'messages-model',
      choices: [{ message: { content: '{"a":1.0}' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 4 },
    });
    expect(told).toMatchObject({ contentType: 'application/json', reading: { isFinal: true, turn: { text: '{"a":1}', toolCalls: [] } } });
  });

  test.each([
    ['chat', 'messages', '{"content":"x"}'],
    ['messages', 'chat', '{"choices":[]}'],
    ['messages', 'chat', '{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{"}}]}}]}'],
  ] as const)('that cannot be told to a %s caller is unreadable', (route, dialect, text) => {
    const speech = speak(callOf(route, route === 'chat' ? chatText : messagesText), dialect);
    expect(() => speech.toCallerResponse(plainOf(dialect, text))).toThrow(expect.objectContaining({ kind: 'unreadable', status: 200 }));
  });
});

describe('a streamed answer of the other dialect', () => {
  const start =
    'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":3,"output_tokens":1}}}\n\n';
  const text = (words: string): string =>
    `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"${words}"}}\n\n`;
  const stop = 'event: message_stop\ndata: {"type":"message_stop"}\n\n';
  const fault = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n';

  interface Told {
    readonly pieces: readonly string[];
    readonly lasts: readonly boolean[];
    readonly end: StreamEnd;
  }

  /** A vendor's stream as the relay hands it over; tells whether it was given back. */
  function streamOf(pieces: readonly (readonly [string, boolean])[], end: StreamEnd) {
    let isReturned = false;
    async function* relay(): AsyncGenerator<StreamChunk, StreamEnd> {
      try {
        for (const [piece, last] of pieces) yield { bytes: Buffer.from(piece), isLast: last };
        return end;
      } finally {
        isReturned = true;
      }
    }
    const reading = () => ({ tokens: null, isFinal: false, turn: { text: '', toolCalls: [] } });
    const answer: StreamResponse = { kind: 'stream', status: 200, pieces: relay, reading };
    return { answer, isReturned: () => isReturned };
  }

  function told(answer: VendorResponse): AsyncGenerator<StreamChunk, StreamEnd> {
    const translated = speak(callOf('chat', chatText, true), 'messages').toCallerResponse(answer);
    if (translated.kind !== 'stream') throw new Error('not a stream');
    return translated.pieces();
  }

  async function readAll(pieces: AsyncGenerator<StreamChunk, StreamEnd>): Promise<Told> {
    const texts: string[] = [];
    const lasts: boolean[] = [];
    for (;;) {
      const step = await pieces.next();
      if (step.done) return { pieces: texts, lasts, end: step.value };
      texts.push(step.value.bytes.toString());
      lasts.push(step.value.isLast);
    }
  }

  it('comes piece by piece, and its last piece is marked', async () => {
    const { answer, isReturned } = streamOf(
      [
        [start, false],
        [text('Hel'), false],
        [text('lo') + stop, true],
      ],
      { kind: 'whole' },
    );
    const { pieces, lasts, end } = await readAll(told(answer));
    expect(pieces).toEqual([
      expect.stringContaining('"role":"assistant"'),
      expect.stringContaining('"content":"Hel"'),
      expect.stringMatching(/"content":"lo".*"finish_reason":"stop".*\[DONE\]\n\n$/s),
    ]);
    expect([lasts, end, isReturned()]).toEqual([[false, false, true], { kind: 'whole' }, true]);
  });

  it('that the relay calls broken is broken, and the caller has not been told', async () => {
    const { answer } = streamOf([[start + text('Hel'), false]], { kind: 'broken', message: 'the answer broke off', errorForwarded: true });
    expect(await readAll(told(answer))).toMatchObject({ end: { kind: 'broken', message: 'the answer broke off', told: false } });
  });

  it("that holds the vendor's error ends with the vendor's words, without the error and what follows", async () => {
    const { answer, isReturned } = streamOf(
      [
        [start + text('Hel') + fault + text('never'), false],
        [stop, true],
      ],
      { kind: 'whole' },
    );
    const { pieces, end } = await readAll(told(answer));
    expect(pieces.join('')).toMatch(/"content":"Hel"/);
    expect(pieces.join('')).not.toMatch(/never|Overloaded|DONE/);
    expect([end, isReturned()]).toEqual([{ kind: 'broken', message: 'Overloaded', told: false }, true]);
  });

  it('that is whole for the relay but has no end in its dialect is broken', async () => {
    const { answer } = streamOf([[start + text('Hel'), true]], { kind: 'whole' });
    expect(await readAll(told(answer))).toMatchObject({
      lasts: [false],
      end: { kind: 'broken', message: 'the vendor ended the stream early' },
    });
  });

  it("that its reader leaves ends the vendor's", async () => {
    const { answer, isReturned } = streamOf(
      [
        [start, false],
        [text('Hel'), false],
      ],
      { kind: 'whole' },
    );
    const pieces = told(answer);
    await pieces.next();
    await pieces.return({ kind: 'whole' });
    expect(isReturned()).toBe(true);
  });
});
