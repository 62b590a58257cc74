import { describe, expect, test } from '@jest/globals';
import { scanObject, splice } from '../../../src/core/json/spans.ts';
import { noTokens } from '../../../src/core/pricing.ts';
import type { RequestSummary } from '../../../src/dialects/contract/route-codec.ts';
import { messages } from '../../../src/dialects/messages/codec.ts';
import { readStream, streamOf } from '../events.ts';

function readRequest(text: string): RequestSummary {
  const body = Buffer.from(text);
  return messages.parseRequest(body, scanObject(body));
}

describe('parseRequest', () => {
  test.each<[string, Partial<RequestSummary>]>([
    ['{"max_tokens":5,"messages":[]}', {}],
    ['{"max_tokens":5,"messages":[],"model":"m","stream":true}', { model: 'm', stream: true }],
    ['{"max_tokens":5,"messages":[],"stream":null}', {}],
    ['{"max_tokens":5,"messages":[],"model":""}', {}],
    ['{"max_tokens":5,"messages":[],"metadata":{"user_id":"u\\u00e9"}}', { user: 'ué' }],
    ['{"max_tokens":5,"messages":[],"metadata":{"user_id":7}}', { user: '' }],
    ['{"max_tokens":5,"messages":[],"metadata":{"user_id":null}}', {}],
    ['{"max_tokens":5,"messages":[],"metadata":{"user_id":"ann","user_id":"bob"}}', { user: '' }],
    ['{"max_tokens":5,"messages":[],"metadata":{}}', {}],
    ['{"max_tokens":5,"messages":[],"metadata":null}', {}],
    ['{"max_tokens":5,"messages":[],"metadata":"x"}', { user: '' }],
    ['{"max_tokens":5,"messages":[],"user":"not read"}', {}],
    ['{"max_tokens":0,"messages":[]}', { maxOutputTokens: null }],
    ['{"max_tokens":1.5,"messages":[]}', { maxOutputTokens: null }],
    [`{"max_tokens":5,"messages":[],"metadata":{"user_id":"u","deep":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`, { user: 'u' }],
  ])('reads the messages request %.80s', (text, facts) => {
    expect(readRequest(text)).toEqual({ model: null, stream: false, maxOutputTokens: 5, user: null, ...facts });
  });

  test.each([
    ['{"messages":[]}', 'max_tokens: Field required'],
    ['{"messages":[],"max_tokens":"5"}', 'max_tokens: Input should be a valid integer'],
    ['{"messages":[],"max_tokens":null}', 'max_tokens: Input should be a valid integer'],
    ['{"max_tokens":5}', 'messages: Field required'],
    ['{"max_tokens":5,"messages":{}}', 'messages: Input should be a valid list'],
    ['{"max_tokens":5,"messages":[],"model":7}', 'model: Input should be a valid string'],
    ['{"model":7}', 'model: Input should be a valid string'],
    ['{"max_tokens":5,"messages":[],"stream":"yes"}', 'stream: Input should be a valid boolean'],
    ['{"max_tokens":5,"messages":[],"max_tokens":6}', 'max_tokens: duplicate key'],
    ['{"max_tokens":5,"messages":[],"metadata":{},"metadata":{"user_id":"u"}}', 'metadata: duplicate key'],
    ['{"max_tokens":5,"messages":[],"system":"a","syste\\u006d":"b"}', 'system: duplicate key'],
  ])("returns 400 with the vendor's message for %s", (text, message) => {
    expect(() => readRequest(text)).toThrow(expect.objectContaining({ code: 'bad_json', status: 400, message }));
  });
});

test.each([
  ['{"max_tokens": 5.0,"model":"standard","stream":true}', '{"max_tokens": 5.0,"model":"claude","stream":true}'],
  ['{ "max_tokens":5}', '{"model":"claude", "max_tokens":5}'],
])('replaces only the model of %s', (text, sent) => {
  const body = Buffer.from(text);
  expect(splice(body, messages.patchForVendor(body, scanObject(body), 'claude', true)).toString()).toBe(sent);
});

describe('parseResponse', () => {
  const answerOf = (content: unknown, usage?: unknown): Buffer =>
    Buffer.from(JSON.stringify({ type: 'message', role: 'assistant', content, usage }));

  test('reads the text, tool uses and usage of a message, but not its thinking', () => {
    const content = [
      { type: 'thinking', thinking: 'hm', signature: 's' },
      { type: 'text', text: 'Hel' },
      { type: 'text', text: 'lo' },
      { type: 'tool_use', id: 'a', name: 'f', input: { x: 1 } },
      { type: 'tool_use', id: 'b', name: 'g', input: {} },
      { type: 'tool_use', id: 'c', name: 'h' },
      'odd',
      null,
    ];
    expect(messages.parseResponse(answerOf(content, { input_tokens: 3, output_tokens: 4 }))).toMatchObject({
      tokens: { ...noTokens, input: 3, output: 4 },
      isFinal: true,
      turn: {
        text: 'Hello',
        toolCalls: [
          { name: 'f', arguments: '{"x":1}' },
          { name: 'g', arguments: '{}' },
          { name: 'h', arguments: '{}' },
        ],
      },
    });
  });

  test('treats missing usage in a message as unknown', () => {
    expect(messages.parseResponse(answerOf([]))).toMatchObject({ tokens: null, isFinal: false, turn: { text: '', toolCalls: [] } });
    const halfTold = Buffer.from(JSON.stringify({ content: [], usage: { output_tokens: 3 } }));
    expect(messages.parseResponse(halfTold)).toMatchObject({ tokens: { ...noTokens, output: 3 }, isFinal: false });
  });

  test.each<[string, object]>([
    ['a missing output count', { input_tokens: 100 }],
    ['a null output count', { input_tokens: 100, output_tokens: null }],
    ['a fractional output count', { input_tokens: 100, output_tokens: 50.5 }],
    ['an output count that is text', { input_tokens: 100, output_tokens: '50' }],
    ['a fractional input count', { input_tokens: 100.5, output_tokens: 50, cache_read_input_tokens: 0 }],
    ['an input count below zero', { input_tokens: -1, output_tokens: 50, cache_read_input_tokens: 0 }],
    ['no input count but one for the cache', { output_tokens: 50, cache_read_input_tokens: 0 }],
  ])('treats the usage of a message as incomplete if it has %s', (_what, usage) => {
    const summary = messages.parseResponse(answerOf([{ type: 'text', text: 'Hello' }], usage));
    expect(summary).toMatchObject({ isFinal: false, generatedCharacters: 5 });
  });

  test('reads compactions and other models in the iterations of a message', () => {
    const iterations = [{ type: 'compaction', input_tokens: 1_000, output_tokens: 100 }, { type: 'fallback_message' }];
    expect(messages.parseResponse(answerOf([], { input_tokens: 10, output_tokens: 5, iterations }))).toMatchObject({
      ...{ tokens: { ...noTokens, input: 1_010, output: 105 }, isFinal: true, usesOtherModels: true },
    });
  });

  test.each(['', '<html>', '{}', '[]', '{"content":"x"}', '{"choices":[]}', '{"type":"error","error":{"message":"x"}}'])(
    'rejects %j as a response',
    (text) => {
      expect(messages.parseResponse(Buffer.from(text))).toBeNull();
    },
  );
});

describe('the stream reader', () => {
  const start = (usage: unknown = { input_tokens: 25, output_tokens: 1 }): object => ({
    type: 'message_start',
    message: { id: 'm', content: [], usage },
  });
  const text = (more: string, index = 0): object => ({ type: 'content_block_delta', index, delta: { type: 'text_delta', text: more } });
  const json = (index: number, more: string): object => ({
    type: 'content_block_delta',
    index,
    delta: { type: 'input_json_delta', partial_json: more },
  });
  const tool = (index: number, name: string): object => ({
    type: 'content_block_start',
    index,
    content_block: { type: 'tool_use', id: `t${index}`, name, input: {} },
  });
  const delta = (usage: unknown): object => ({ type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage });
  const stop = { type: 'message_stop' };

  test('reads a message stream with text and usage', () => {
    const reader = messages.createStreamReader();
    const meanings = readStream(
      reader,
      streamOf(
        start(),
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
        { type: 'ping' },
        text('Hel'),
        text('lo'),
        { type: 'content_block_stop', index: 0 },
        delta({ output_tokens: 15 }),
        stop,
      ),
    );
    expect(meanings).toEqual(['opening', 'opening', 'ignored', 'delta', 'delta', 'delta', 'delta', 'end']);
    expect(reader.summary()).toMatchObject({
      tokens: { ...noTokens, input: 25, output: 15 },
      isFinal: true,
      turn: { text: 'Hello', toolCalls: [] },
    });
  });

  test('later token counts in a message stream replace earlier ones', () => {
    const reader = messages.createStreamReader();
    readStream(
      reader,
      streamOf(start({ input_tokens: 25, cache_read_input_tokens: 100, cache_creation_input_tokens: 7, output_tokens: 1 })),
    );
    expect(reader.summary()).toMatchObject({ tokens: { input: 25, cachedInput: 100, cacheWrite: 7, output: 1 }, isFinal: false });
    readStream(reader, streamOf(delta({ output_tokens: 9 })));
    readStream(reader, streamOf(delta({ input_tokens: 26, cache_read_input_tokens: 0, output_tokens: 15 })));
    expect(reader.summary()).toMatchObject({ tokens: { input: 26, cachedInput: 0, cacheWrite: 7, output: 15 }, isFinal: true });
  });

  test("doesn't mistake the usage in message_start for the final usage", () => {
    const begun = messages.createStreamReader();
    readStream(begun, streamOf(start(), text('x'), delta(undefined), stop));
    expect(begun.summary()).toMatchObject({ tokens: { input: 25, output: 1 }, isFinal: false });
    const silent = messages.createStreamReader();
    readStream(silent, streamOf(start(null), text('x'), delta(null), stop));
    expect(silent.summary()).toMatchObject({ tokens: null, isFinal: false });
    const halfTold = messages.createStreamReader();
    readStream(halfTold, streamOf(start(null), text('x'), delta({ output_tokens: 7 }), stop));
    expect(halfTold.summary()).toMatchObject({ tokens: { ...noTokens, output: 7 }, isFinal: false });
  });

  test.each<[string, object]>([
    ['no counts', {}],
    ['null', { output_tokens: null }],
    ['text', { output_tokens: '450' }],
    ['a fraction', { output_tokens: 450.5 }],
    ['a number below zero', { output_tokens: -50 }],
    ['a fractional input', { output_tokens: 450, input_tokens: 3.5 }],
  ])("doesn't take the counts of a stream as final if its last usage has %s", (_what, usage) => {
    const reader = messages.createStreamReader();
    readStream(reader, streamOf(start(), text('x'), delta({ output_tokens: 7 }), delta(usage), stop));
    expect(reader.summary()).toMatchObject({ tokens: { input: 25 }, isFinal: false, generatedCharacters: 1 });
  });

  test("ignores zeros after a stream's real counts", () => {
    const reader = messages.createStreamReader();
    const zeros = { input_tokens: 0, output_tokens: 0 };
    readStream(reader, streamOf(start(), text('x'), delta({ input_tokens: 0, output_tokens: 7 }), delta(zeros), stop));
    expect(reader.summary()).toMatchObject({ tokens: { ...noTokens, input: 25, output: 7 }, isFinal: true });
  });

  test('adds the compactions in the last usage of a stream', () => {
    const reader = messages.createStreamReader();
    const iterations = [{ type: 'compaction', input_tokens: 1_000, output_tokens: 100 }];
    readStream(reader, streamOf(start(), text('x'), delta({ output_tokens: 7, iterations }), stop));
    expect(reader.summary()).toMatchObject({ tokens: { ...noTokens, input: 1_025, output: 107 }, isFinal: true });
  });

  test('reads zero as a token count', () => {
    const reader = messages.createStreamReader();
    readStream(reader, streamOf(start({ input_tokens: 0, output_tokens: 0 }), delta({ output_tokens: 0 })));
    expect(reader.summary()).toMatchObject({ tokens: noTokens, isFinal: true });
  });

  test('assembles parallel tool uses from stream events by their index', () => {
    const reader = messages.createStreamReader();
    readStream(
      reader,
      streamOf(
        start(),
        tool(1, 'first'),
        tool(2, 'second'),
        tool(3, 'third'),
        json(1, '{"x"'),
        json(2, ''),
        json(1, ':1}'),
        json(9, 'nobody'),
        stop,
      ),
    );
    expect(reader.summary().turn.toolCalls).toEqual([
      { name: 'first', arguments: '{"x":1}' },
      { name: 'second', arguments: '{}' },
      { name: 'third', arguments: '{}' },
    ]);
  });

  test("doesn't treat thinking, signatures and citations as response text", () => {
    const reader = messages.createStreamReader();
    const deltas = [
      { type: 'thinking_delta', thinking: 'hm' },
      { type: 'signature_delta', signature: 's' },
      { type: 'citations_delta', citation: {} },
    ];
    expect(
      readStream(reader, streamOf(start(), ...deltas.map((part) => ({ type: 'content_block_delta', index: 0, delta: part })))),
    ).toEqual(['opening', 'delta', 'delta', 'delta']);
    expect(reader.summary().turn.text).toBe('');
  });

  test.each([
    [{ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 'Overloaded'],
    [{ type: 'error' }, null],
  ])('recognizes the error event %j', (event, problem) => {
    const reader = messages.createStreamReader();
    expect(readStream(reader, streamOf(start(), event))).toEqual(['opening', 'error']);
    expect(reader.problem()).toMatchObject({ message: problem });
  });

  test('ignores stream events of an unknown type', () => {
    expect(readStream(messages.createStreamReader(), streamOf({ type: 'something_new' }))).toEqual(['ignored']);
  });

  test.each(['hello', '[DONE]', '{"type":', '[]', 'null', '{"choices":[]}', '{"type":7}'])('reports %s as unreadable', (data) => {
    expect(readStream(messages.createStreamReader(), streamOf(data))).toEqual(['unreadable']);
  });

  test('ignores ping events and comments in a message stream', () => {
    expect(readStream(messages.createStreamReader(), ': hi\n\nevent: ping\n\n')).toEqual(['ignored', 'ignored']);
  });

  test('a message stream is complete only after message_stop', () => {
    const reader = messages.createStreamReader();
    readStream(reader, streamOf(start(), text('x'), delta({ output_tokens: 1 })));
    expect(reader.finished()).toBe(false);
  });
});

test('ends a broken message stream with an error event', () => {
  expect(messages.formatStreamError('the vendor "stopped"')).toBe(
    'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"the vendor \\"stopped\\""}}\n\n',
  );
});
