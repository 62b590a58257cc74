import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { asObject } from '../../../src/core/json/narrow.ts';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import { scanObject, splice } from '../../../src/core/json/spans.ts';
import { noTokens } from '../../../src/core/pricing.ts';
import { chat } from '../../../src/dialects/chat/codec.ts';
import type { RequestSummary } from '../../../src/dialects/contract/route-codec.ts';
import { parsePrompt } from '../../../src/dialects/prompt/prompt.ts';
import { objectWith, valueText } from '../../core/json/json-texts.ts';
import { readStream, streamOf } from '../events.ts';

function readRequest(text: string): RequestSummary {
  const body = Buffer.from(text);
  return chat.parseRequest(body, scanObject(body));
}

function forVendor(text: string, model: string, stream: boolean): string {
  const body = Buffer.from(text);
  return splice(body, chat.patchForVendor(body, scanObject(body), model, stream)).toString();
}

describe('parseRequest', () => {
  test.each<[string, Partial<RequestSummary>]>([
    ['{"messages":[]}', {}],
    ['{"model":"standard","messages":[]}', { model: 'standard' }],
    ['{"model":"a\\/b\\u00e9","messages":[]}', { model: 'a/bé' }],
    ['{"mod\\u0065l":"m","messages":[]}', { model: 'm' }],
    ['{"model":"","messages":[]}', {}],
    ['{"model":null,"messages":[]}', {}],
    ['{"stream":true,"messages":[]}', { stream: true, hidesUsage: true }],
    ['{"stream":true,"stream_options":{},"messages":[]}', { stream: true, hidesUsage: true }],
    ['{"stream":true,"stream_options":{"include_usage":false},"messages":[]}', { stream: true, hidesUsage: true }],
    ['{"stream":true,"stream_options":null,"messages":[]}', { stream: true, hidesUsage: true }],
    ['{"stream":true,"stream_options":{ "include_us\\u0061ge" : true },"messages":[]}', { stream: true }],
    ['{"stream_options":{"include_usage":false},"messages":[]}', {}],
    ['{"stream":false,"messages":[]}', {}],
    ['{"stream":null,"messages":[]}', {}],
    ['{"messages":[],"user":"u-1"}', { user: 'u-1' }],
    ['{"messages":[],"user":7}', { user: '' }],
    ['{"messages":[],"user":null}', {}],
    ['{"messages":[],"max_tokens":5}', { maxOutputTokens: 5 }],
    ['{"messages":[],"max_tokens":5,"max_completion_tokens":7}', { maxOutputTokens: 7 }],
    ['{"messages":[],"max_tokens":5,"max_completion_tokens":null}', { maxOutputTokens: 5 }],
    ['{"messages":[],"max_tokens":1e3}', { maxOutputTokens: 1000 }],
    ['{"messages":[],"max_tokens":5.0}', { maxOutputTokens: 5 }],
    ['{"messages":[],"max_tokens":0}', {}],
    ['{"messages":[],"max_tokens":-1}', {}],
    ['{"messages":[],"max_tokens":1.5}', {}],
    ['{"messages":[],"max_tokens":1e99}', {}],
    ['{"messages":[],"max_tokens":"5"}', {}],
    ['{"messages":[],"temperature":1,"temperature":2}', {}],
    ['{"messages":[{"role":"user","model":"x","model":"y"}]}', {}],
  ])('parses the chat request %s', (text, facts) => {
    expect(readRequest(text)).toEqual({ model: null, stream: false, maxOutputTokens: null, user: null, ...facts });
  });

  test.each([
    ['{}', 'messages: is required'],
    ['{"messages":null}', 'messages: must be a list'],
    ['{"messages":{}}', 'messages: must be a list'],
    ['{"messages":[],"model":7}', 'model: must be a string'],
    ['{"messages":[],"model":["m"]}', 'model: must be a string'],
    ['{"messages":[],"stream":"true"}', 'stream: must be a boolean'],
    ['{"messages":[],"stream":1}', 'stream: must be a boolean'],
    ['{"messages":[],"messages":[]}', 'messages: duplicate key'],
    ['{"model":"a","messages":[],"model":"a"}', 'model: duplicate key'],
    ['{"model":"a","messages":[],"mode\\u006c":"b"}', 'model: duplicate key'],
    ['{"messages":[],"stream_options":{},"stream_options":{}}', 'stream_options: duplicate key'],
    ['{"messages":[],"user":"a","user":"b"}', 'user: duplicate key'],
    ['{"messages":[],"max_tokens":1,"max_tokens":2}', 'max_tokens: duplicate key'],
  ])('returns 400 bad_json and names the field for %s', (text, message) => {
    expect(() => readRequest(text)).toThrow(expect.objectContaining({ code: 'bad_json', status: 400, message }));
  });
});

describe('spliceForVendor', () => {
  test.each([
    ['replaces the model', '{"model":"standard","messages":[ ]}', false, '{"model":"gpt","messages":[ ]}'],
    ['adds a missing model', '{ "messages":[]}', false, '{"model":"gpt", "messages":[]}'],
    ['replaces a null model', '{"messages":[],"model" : null }', false, '{"messages":[],"model" : "gpt" }'],
    [
      'keeps the stream options of a plain call',
      '{"model":"m","stream_options":null,"messages":[]}',
      false,
      '{"model":"gpt","stream_options":null,"messages":[]}',
    ],
    [
      'asks for usage in streams',
      '{"model":"m","stream":true}',
      true,
      '{"stream_options":{"include_usage":true},"model":"gpt","stream":true}',
    ],
    [
      'inserts model and usage at the same position',
      '{"stream":true}',
      true,
      '{"model":"gpt","stream_options":{"include_usage":true},"stream":true}',
    ],
    ['fills an empty object', '{ }', true, '{"model":"gpt","stream_options":{"include_usage":true} }'],
    [
      'replaces null stream options',
      '{"model":"m","stream_options":null}',
      true,
      '{"model":"gpt","stream_options":{"include_usage":true}}',
    ],
    ['fills empty stream options', '{"model":"m","stream_options":{ }}', true, '{"model":"gpt","stream_options":{"include_usage":true }}'],
    [
      'keeps other stream options',
      '{"model":"m","stream_options":{"a":1.0}}',
      true,
      '{"model":"gpt","stream_options":{"include_usage":true,"a":1.0}}',
    ],
    [
      'turns usage on again',
      '{"model":"m","stream_options":{"include_usage": false,"a":1}}',
      true,
      '{"model":"gpt","stream_options":{"include_usage": true,"a":1}}',
    ],
    [
      'an escaped key',
      '{"model":"m","stream_options":{"include\\u005fusage":false}}',
      true,
      '{"model":"gpt","stream_options":{"include\\u005fusage":true}}',
    ],
    ['forwards stream options of another type', '{"model":"m","stream_options":"x"}', true, '{"model":"gpt","stream_options":"x"}'],
    ['forwards a list of stream options', '{"stream_options":[{}]}', true, '{"model":"gpt","stream_options":[{}]}'],
  ])('edits the request: %s', (_name, text, stream, sent) => {
    expect(forVendor(text, 'gpt', stream)).toBe(sent);
  });

  test('any model id reaches the vendor unchanged, whatever characters it contains', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (model) =>
        expect(JSON.parse(forVendor('{"messages":[]}', model, false)).model).toBe(model),
      ),
    );
  });

  const options = fc.oneof(
    valueText,
    objectWith({ include_usage: valueText }),
    objectWith({ include_usage: valueText, include_obfuscation: valueText }),
    fc.constantFrom('null', '{}', '{ }'),
  );
  const body = fc.oneof(
    objectWith({ messages: valueText }),
    objectWith({ model: valueText, messages: valueText }),
    objectWith({ messages: valueText, stream_options: options }),
    objectWith({ model: valueText, messages: valueText, stream_options: options, stream: fc.constant('true') }),
  );

  test('changes nothing in a chat request except the model and include_usage', () => {
    fc.assert(
      fc.property(body, fc.boolean(), (text, stream) => {
        const bytes = Buffer.from(text);
        const splices = chat.patchForVendor(bytes, scanObject(bytes), 'vendor/model', stream);
        const sent = splice(bytes, splices);

        const asked = asObject(parseJsonOrThrow(text));
        const known = asked['stream_options'];
        const expected: Record<string, unknown> = { ...asked, model: 'vendor/model' };
        if (stream && (known === undefined || known === null)) expected['stream_options'] = { include_usage: true };
        else if (stream && typeof known === 'object' && !Array.isArray(known))
          expected['stream_options'] = { ...known, include_usage: true };
        expect(parseJsonOrThrow(sent.toString())).toEqual(expected);

        let at = 0;
        let from = 0;
        for (const { span, replacement } of splices.toSorted((a, b) => a.span.start - b.span.start)) {
          const kept = bytes.subarray(from, span.start);
          expect(sent.subarray(at, at + kept.length)).toEqual(kept);
          at += kept.length + Buffer.byteLength(replacement);
          from = span.end;
        }
        expect(sent.subarray(at)).toEqual(bytes.subarray(from));
      }),
      { numRuns: 500 },
    );
  });
});

describe('parseResponse', () => {
  const usage = { prompt_tokens: 9, completion_tokens: 2 };
  const answerOf = (message: unknown, more: object = { usage }): Buffer =>
    Buffer.from(JSON.stringify({ id: 'x', choices: [{ index: 0, message }], ...more }));

  test('reads the text, tool calls and usage of a chat response', () => {
    const tool_calls = [
      { id: 'a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } },
      { id: 'b', type: 'function', function: { name: 'g', arguments: '' } },
    ];
    expect(chat.parseResponse(answerOf({ role: 'assistant', content: 'Hi', tool_calls }))).toMatchObject({
      tokens: { ...noTokens, input: 9, output: 2 },
      isFinal: true,
      turn: {
        text: 'Hi',
        toolCalls: [
          { name: 'f', arguments: '{"x":1}' },
          { name: 'g', arguments: '' },
        ],
      },
    });
  });

  test('reads tool calls the same way from a response and from the next request', () => {
    const tool_calls = [
      { id: 'a', type: 'function', function: { name: 'f', arguments: { x: 1 } } },
      { id: 'b', type: 'custom', custom: { name: 'g', input: '' } },
    ];
    const message = { role: 'assistant', content: null, tool_calls, function_call: { name: 'h', arguments: '{}' } };
    const turn = chat.parseResponse(answerOf(message))?.turn;
    expect(turn?.toolCalls).toEqual([
      { name: 'f', arguments: '{"x":1}' },
      { name: 'h', arguments: '{}' },
    ]);
    expect(parsePrompt('chat', { messages: [message] }).messages.map(({ toolCalls }) => toolCalls)).toEqual([turn?.toolCalls]);
  });

  test.each([
    ['null content', { content: null, tool_calls: null }, ''],
    ['a refusal', { content: null, refusal: 'No.' }, 'No.'],
    ['no message', undefined, ''],
    ["content that isn't text", { content: [{ type: 'text', text: 'x' }] }, ''],
  ])('reads a response with %s', (_name, message, text) => {
    expect(chat.parseResponse(answerOf(message))?.turn).toEqual({ text, toolCalls: [] });
  });

  test('treats missing usage in a chat response as unknown, not as zero', () => {
    for (const more of [{}, { usage: null }, { usage: {} }])
      expect(chat.parseResponse(answerOf({ content: 'x' }, more))).toMatchObject({ tokens: null, isFinal: false });
    expect(chat.parseResponse(answerOf({ content: 'x' }, { usage: { prompt_tokens: 0, completion_tokens: 0 } }))).toMatchObject({
      tokens: noTokens,
      isFinal: true,
    });
  });

  test.each(['', 'Bad gateway', '[]', 'null', '{}', '{"choices":null}', '{"error":{"message":"x"}}', '{"type":"message","content":[]}'])(
    'rejects %j as a response',
    (text) => {
      expect(chat.parseResponse(Buffer.from(text))).toBeNull();
    },
  );
});

describe('the stream reader', () => {
  const delta = (content: unknown, more: object = {}): object => ({
    choices: [{ index: 0, delta: content, finish_reason: null }],
    ...more,
  });
  const finish = (reason: string, more: object = {}): object => ({ choices: [{ index: 0, delta: {}, finish_reason: reason }], ...more });
  const usage = { prompt_tokens: 9, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 4 } };
  const counted = { ...noTokens, input: 5, cachedInput: 4, output: 2 };

  test('reads a chat stream with role, text, finish reason, usage and [DONE]', () => {
    const reader = chat.createStreamReader();
    const meanings = readStream(
      reader,
      streamOf(
        delta({ role: 'assistant', content: '' }, { usage: null }),
        delta({ content: 'Hel' }),
        delta({ content: 'lo' }),
        finish('stop', { usage: null }),
        { choices: [], usage },
        '[DONE]',
      ),
    );
    expect(meanings).toEqual(['opening', 'delta', 'delta', 'delta', 'usage', 'end']);
    expect(reader.summary()).toEqual({
      tokens: counted,
      isFinal: true,
      turn: { text: 'Hello', toolCalls: [] },
      generatedCharacters: 5,
      finished: true,
    });
    expect(reader.finished()).toBe(true);
    expect(reader.problem()).toBeNull();
  });

  test.each([
    ['in the finishing chunk', [delta({ content: 'x' }), finish('stop', { usage })]],
    ['under x_groq', [delta({ content: 'x' }), finish('stop', { x_groq: { id: 'r', usage } })]],
    ['before chunks with null usage', [{ choices: [], usage }, finish('stop', { usage: null })]],
    [
      'in the last chunk if every chunk has it',
      [delta({ content: 'x' }, { usage: { prompt_tokens: 9, completion_tokens: 1 } }), finish('stop', { usage })],
    ],
    ['in a chunk without choices', [finish('stop'), { usage }]],
  ])('finds the usage of a chat stream %s', (_name, chunks) => {
    const reader = chat.createStreamReader();
    readStream(reader, streamOf(...chunks, '[DONE]'));
    expect(reader.summary()).toMatchObject({ tokens: counted, isFinal: true });
  });

  test.each([
    ['only usage', { choices: [], usage }, 'usage'],
    ['only usage, without choices', { usage }, 'usage'],
    ['the end and usage', finish('stop', { usage }), 'delta'],
    ["Azure's filter results", { choices: [], prompt_filter_results: [{ prompt_index: 0 }] }, 'opening'],
    ["Azure's filter results and null usage", { choices: [], prompt_filter_results: [{ prompt_index: 0 }], usage: null }, 'opening'],
    ['neither choices nor usage', { choices: [] }, 'opening'],
    ['only the role', delta({ role: 'assistant', content: '', refusal: null, tool_calls: [] }), 'opening'],
    ['reasoning', delta({ role: 'assistant', content: null, reasoning: 'Hm' }), 'delta'],
  ])('recognizes a chunk with %s', (_what, chunk, meaning) => {
    expect(readStream(chat.createStreamReader(), streamOf(chunk))).toEqual([meaning]);
  });

  test('distinguishes zero token counts from missing ones', () => {
    const zero = chat.createStreamReader();
    readStream(zero, streamOf(finish('stop', { usage: { prompt_tokens: 0, completion_tokens: 0 } })));
    expect(zero.summary()).toMatchObject({ tokens: noTokens, isFinal: true });
    const none = chat.createStreamReader();
    readStream(none, streamOf(delta({ content: 'x' }), finish('stop', { usage: {} })));
    expect(none.summary()).toMatchObject({ tokens: null, isFinal: false });
  });

  test.each<[string, object[]]>([
    ['in a chunk of its own', [{ choices: [], usage: { prompt_tokens: 9, completion_tokens: 0 } }, delta({ content: 'x' })]],
    ['with the first content', [delta({ content: 'x' }, { usage: { prompt_tokens: 9, completion_tokens: 1 } }), delta({ content: 'y' })]],
    [
      'before content that repeats',
      [
        ...[delta({ content: 'a' }), delta({ content: 'b' }), delta({ content: 'c' })],
        ...[{ choices: [], usage: { prompt_tokens: 9, completion_tokens: 3 } }, delta({ content: 'd' }), delta({ content: 'e' })],
      ],
    ],
  ])("doesn't take the usage of a chat stream as final if content follows: %s", (_name, chunks) => {
    const reader = chat.createStreamReader();
    readStream(reader, streamOf(...chunks, finish('stop'), '[DONE]'));
    expect(reader.summary()).toMatchObject({ tokens: { input: 9 }, isFinal: false });
  });

  test('ignores zeros after the real usage of a chat stream', () => {
    const reader = chat.createStreamReader();
    const zeros = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    readStream(reader, streamOf(delta({ content: 'x' }), finish('stop', { usage }), { choices: [], usage: zeros }, '[DONE]'));
    expect(reader.summary()).toMatchObject({ tokens: counted, isFinal: true });
  });

  test('assembles parallel tool calls from stream chunks by their index', () => {
    const reader = chat.createStreamReader();
    const call = (index: number, fn: object, id?: string): object =>
      delta({ tool_calls: [{ index, ...(id ? { id, type: 'function' } : {}), function: fn }] });
    readStream(
      reader,
      streamOf(
        call(0, { name: 'first', arguments: '' }, 'a'),
        call(1, { name: 'second', arguments: '' }, 'b'),
        call(0, { arguments: '{"x"' }),
        call(1, { arguments: '{"y":' }),
        delta({
          tool_calls: [
            { index: 1, function: { arguments: '2}' } },
            { index: 0, function: { arguments: ':1}' } },
          ],
        }),
        finish('tool_calls'),
        '[DONE]',
      ),
    );
    expect(reader.summary().turn).toEqual({
      text: '',
      toolCalls: [
        { name: 'first', arguments: '{"x":1}' },
        { name: 'second', arguments: '{"y":2}' },
      ],
    });
  });

  test.each([
    ['the same index', 0],
    ['no index', undefined],
  ])('separates complete tool calls with %s', (_what, index) => {
    const reader = chat.createStreamReader();
    const call = (id: string, fn: object): object => delta({ tool_calls: [{ index, id, type: 'function', function: fn }] });
    readStream(
      reader,
      streamOf(
        call('a', { name: 'first', arguments: '{"x":' }),
        call('a', { name: 'first', arguments: '1}' }),
        call('b', { name: 'second', arguments: { y: [2] } }),
        delta({ tool_calls: [{ index: 7, id: 'c', type: 'custom', custom: { name: 'third', input: 'z' } }] }),
        finish('tool_calls'),
        '[DONE]',
      ),
    );
    expect(reader.summary().turn.toolCalls).toEqual([
      { name: 'first', arguments: '{"x":1}' },
      { name: 'second', arguments: '{"y":[2]}' },
    ]);
  });

  test('reads a legacy function_call as a tool call', () => {
    const reader = chat.createStreamReader();
    const parts = [{ name: 'f', arguments: '{"x"' }, { arguments: ':1}' }];
    readStream(reader, streamOf(...parts.map((part) => delta({ function_call: part })), finish('function_call'), '[DONE]'));
    expect(reader.summary().turn.toolCalls).toEqual([{ name: 'f', arguments: '{"x":1}' }]);
  });

  test('records only the first of several choices in the conversation', () => {
    const reader = chat.createStreamReader();
    const second = { choices: [{ index: 1, delta: { content: 'B', tool_calls: [{ index: 0, function: { name: 'b' } }] } }] };
    readStream(
      reader,
      streamOf(delta({ content: 'A' }), second, {
        choices: [
          { index: 1, delta: { content: 'B' } },
          { index: 0, delta: { content: 'a' } },
        ],
      }),
    );
    expect(reader.summary().turn).toEqual({ text: 'Aa', toolCalls: [] });
  });

  test('reads a refusal as text but ignores reasoning', () => {
    const reader = chat.createStreamReader();
    readStream(reader, streamOf(delta({ reasoning_content: 'hm' }), delta({ refusal: 'No', content: null }), delta({ refusal: '.' })));
    expect(reader.summary().turn.text).toBe('No.');
  });

  test.each<[string, unknown, string | null]>([
    ['with a message', { error: { message: 'overloaded', type: 'server_error' } }, 'overloaded'],
    ['without a message', { error: {} }, null],
    ['as a string', { error: 'overloaded' }, 'overloaded'],
    ['with choices', { choices: [], error: { message: 'cut' } }, 'cut'],
  ])('recognizes an error event %s', (_name, event, problem) => {
    const reader = chat.createStreamReader();
    expect(readStream(reader, streamOf(delta({ content: 'x' }), event))).toEqual(['delta', 'error']);
    expect(reader.problem()).toMatchObject({ message: problem });
    expect(reader.finished()).toBe(false);
  });

  test("doesn't treat `error: null` in a chunk as an error", () => {
    expect(readStream(chat.createStreamReader(), streamOf(delta({ content: 'x' }, { error: null })))).toEqual(['delta']);
  });

  test('ignores keep-alive comments and empty events in a chat stream', () => {
    expect(readStream(chat.createStreamReader(), ': OPENROUTER PROCESSING\n\n\nevent: ping\n\ndata:\n\n')).toEqual([
      'ignored',
      'ignored',
      'ignored',
      'ignored',
    ]);
  });

  test("ignores stream events that aren't chat chunks", () => {
    expect(readStream(chat.createStreamReader(), streamOf({ debug: true }, { type: 'message_start', message: {} }))).toEqual([
      'ignored',
      'ignored',
    ]);
  });

  test.each(['hello', '{"a":', '[]', '"text"', '7', 'null', '[done]'])('reports %s as unreadable', (data) => {
    expect(readStream(chat.createStreamReader(), streamOf(data))).toEqual(['unreadable']);
  });

  test('a chat stream may end with a finish reason instead of [DONE]', () => {
    const reader = chat.createStreamReader();
    readStream(reader, streamOf(delta({ content: 'x' })));
    expect(reader.finished()).toBe(false);
    readStream(reader, streamOf(finish('length')));
    expect(reader.finished()).toBe(true);
  });
});

test("doesn't append an error event to a broken chat stream", () => {
  expect(chat.formatStreamError('x')).toBeNull();
});
