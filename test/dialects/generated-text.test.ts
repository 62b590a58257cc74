/**
 * Tests that if a response has no final usage, it's charged by the characters that the vendor has generated, no matter
 * where they are.
 */
import { describe, expect, test } from '@jest/globals';
import { createSseParser } from '../../src/core/sse.ts';
import { chat } from '../../src/dialects/chat/codec.ts';
import type { RouteCodec, StreamReader } from '../../src/dialects/contract/route-codec.ts';
import { countGeneratedText } from '../../src/dialects/json/generated-text.ts';
import { messages } from '../../src/dialects/messages/codec.ts';
import { responses } from '../../src/dialects/passthrough/responses.ts';
import { streamOf } from './events.ts';

/** Reads a stream like the relay does. */
function readAsRelayed(codec: RouteCodec, ...events: readonly object[]): StreamReader {
  const reader = codec.createStreamReader();
  const parser = createSseParser();
  const name = (event: object): string => (codec.route === 'messages' && 'type' in event ? `event: ${event.type}\n` : '');
  const bytes = Buffer.from(events.map((event) => name(event) + streamOf(event)).join(''));
  parser.scan(bytes, (event) => void reader.read(event));
  return reader;
}

const countOf = (codec: RouteCodec, ...events: readonly object[]): number => readAsRelayed(codec, ...events).summary().generatedCharacters;

describe('chat streams', () => {
  const chunk = (delta: object, index = 0, finish: string | null = null): object => ({
    id: 'chatcmpl-1',
    choices: [{ index, delta, finish_reason: finish }],
  });
  const call = (fn: object, more: object = {}): object => ({ tool_calls: [{ index: 0, ...more, function: fn }] });

  test.each<[string, object, number]>([
    ['text', { role: 'assistant', content: '12345' }, 5],
    ['text that begins like a data URL', { refusal: 'data: 5' }, 7],
    ['a refusal', { refusal: '12345' }, 5],
    ['reasoning_content', { content: null, reasoning_content: '12345' }, 5],
    ['reasoning', { content: '', reasoning: '12345' }, 5],
    ['reasoning under two names', { content: '', reasoning: '12345', reasoning_content: '12345' }, 5],
    [
      'reasoning as text and as details',
      { reasoning: '12345', reasoning_details: [{ type: 'reasoning.text', text: '12345', format: 'x' }] },
      5,
    ],
    ['reasoning in parts of the content', { content: [{ type: 'thinking', thinking: [{ type: 'text', text: '12345' }] }] }, 5],
    ['encrypted reasoning', { reasoning_details: [{ type: 'reasoning.encrypted', data: 'A'.repeat(8), index: 0 }] }, 6],
    ['a tool call', call({ name: 'look', arguments: '{"a":1}' }, { id: 'call_123', type: 'function' }), 11],
    [
      'two tool calls with the same arguments',
      { tool_calls: [{ function: { arguments: '{"a":1}' } }, { function: { arguments: '{"a":1}' } }] },
      14,
    ],
    ['a custom tool call', { tool_calls: [{ id: 'x', type: 'custom', custom: { name: 'py', input: 'print(1)' } }] }, 10],
    ['a legacy call', { function_call: { name: 'look', arguments: '{}' } }, 6],
    ['the transcript of audio, without its bytes', { audio: { id: 'audio_1', transcript: '12345', data: 'AAAAAAAA' } }, 5],
    ['a member that the gateway does not know', { something_new: { parts: ['123', { deep: '45' }] } }, 5],
    ['an image, which is billed by the image', { images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }, 0],
    ['a signature', { reasoning_details: [{ type: 'reasoning.text', text: '', signature: 'AAAAAAAA' }] }, 0],
  ])('counts the generated text of a chat stream: %s', (_what, delta, characters) => {
    expect(countOf(chat, chunk(delta))).toBe(characters);
    expect(countOf(chat, chunk(delta), chunk(delta, 5))).toBe(2 * characters);
  });

  test("doesn't count log probabilities as generated text", () => {
    const logprobs = { content: [{ token: 'abc', bytes: [1], top_logprobs: [{ token: 'def' }] }] };
    expect(countOf(chat, { choices: [{ index: 0, delta: { content: 'abc' }, logprobs, finish_reason: null }] })).toBe(3);
  });

  test('counts the text of chat stream events that are read without parsing their JSON', () => {
    const texts = ['Hello', ' world', ' grüße 😀', ' world', ' world'];
    expect(countOf(chat, ...texts.map((content) => chunk({ content })))).toBe(texts.join('').length);
    // These three events are identical. Their text is in `reasoning_content` instead of `content`, and all three have
    // to count.
    const thought = chunk({ content: '', reasoning_content: ' the' });
    expect(countOf(chat, chunk({ content: 'a' }), thought, thought, thought)).toBe(13);
    const both = (content: string) => chunk({ content, reasoning: ' the' });
    expect(countOf(chat, both('a'), both('b'), both('c'))).toBe(15);
  });

  test('counts the text of all choices but records only the first one', () => {
    const reader = readAsRelayed(chat, chunk({ content: 'one' }), chunk({ content: 'two' }, 1), chunk({ content: 'more' }, 1));
    expect(reader.summary()).toMatchObject({ turn: { text: 'one' }, generatedCharacters: 10 });
  });

  test('expects no more output from a chat stream once every requested choice has finished', () => {
    const reader = readAsRelayed(chat, chunk({ content: 'a' }), chunk({}, 0, 'stop'));
    expect([1, 2].map(reader.hasAllOutput)).toEqual([true, false]);
    const two = readAsRelayed(chat, chunk({}, 0, 'stop'), chunk({ content: 'a' }, 1));
    expect([1, 2].map(two.hasAllOutput)).toEqual([false, false]);
  });

  test("doesn't mistake the usage in an early chunk for the final usage", () => {
    const usage = { prompt_tokens: 9, completion_tokens: 0 };
    const early = readAsRelayed(chat, { ...chunk({ role: 'assistant' }), usage }, chunk({ content: 'abcd'.repeat(10) }));
    expect(early.summary()).toMatchObject({ tokens: { input: 9, output: 0 }, isFinal: false, generatedCharacters: 40 });
    expect(readAsRelayed(chat, { ...chunk({ content: 'a' }, 0, 'stop'), usage }).summary().isFinal).toBe(true);
  });
});

describe('messages streams', () => {
  const start = (block: object, index = 0): object => ({ type: 'content_block_start', index, content_block: block });
  const delta = (more: object, index = 0): object => ({ type: 'content_block_delta', index, delta: more });
  const stop = (index = 0): object => ({ type: 'content_block_stop', index });

  test.each<[string, readonly object[], number]>([
    ['text', [start({ type: 'text', text: '' }), delta({ type: 'text_delta', text: '12345' })], 5],
    [
      'thinking, without its signature',
      [
        start({ type: 'thinking', thinking: '', signature: '' }),
        delta({ type: 'thinking_delta', thinking: '12345' }),
        delta({ type: 'signature_delta', signature: 'AAAA' }),
      ],
      5,
    ],
    ['redacted thinking', [start({ type: 'redacted_thinking', data: 'A'.repeat(8) })], 6],
    [
      'a tool call',
      [start({ type: 'tool_use', id: 't', name: 'look', input: {} }), delta({ type: 'input_json_delta', partial_json: '{"a":1}' })],
      11,
    ],
    ['a tool call whose input is complete at its start', [start({ type: 'tool_use', id: 't', name: 'look', input: { a: 'b' } })], 13],
    ['a quoted source, which is not billed', [delta({ type: 'citations_delta', citation: { cited_text: '12345' } })], 0],
    [
      'a summary of the conversation',
      [start({ type: 'compaction', content: '' }), delta({ type: 'compaction_delta', content: '12345' })],
      5,
    ],
  ])('counts the generated text of a message stream: %s', (_what, events, characters) => {
    expect(countOf(messages, ...events)).toBe(characters);
  });

  test('counts the text of message stream events that are read without parsing their JSON', () => {
    const texts = ['Hello', ' world', ' grüße 😀', ' world'];
    expect(countOf(messages, ...texts.map((text) => delta({ type: 'text_delta', text })))).toBe(texts.join('').length);
    const both = (text: string) => delta({ type: 'text_delta', text, thinking: 'ab' });
    expect(countOf(messages, both('x'), both('y'), both('z'))).toBe(9);
  });

  test('expects no more output from a message stream once its content blocks are closed', () => {
    const events = [start({ type: 'text', text: '' }), delta({ type: 'text_delta', text: 'a' }), stop()];
    expect(readAsRelayed(messages, ...events.slice(0, 2)).hasAllOutput(1)).toBe(false);
    expect(readAsRelayed(messages, ...events).hasAllOutput(1)).toBe(true);
    expect(readAsRelayed(messages, ...events, start({ type: 'text', text: '' }, 1)).hasAllOutput(1)).toBe(false);
  });
});

describe('responses streams', () => {
  const added = (item: object, index = 0): object => ({ type: 'response.output_item.added', output_index: index, item });
  const done = (item: object, index = 0): object => ({ type: 'response.output_item.done', output_index: index, item });
  const delta = (name: string, text: string, index = 0): object => ({ type: `response.${name}.delta`, output_index: index, delta: text });

  test.each([
    'output_text',
    'refusal',
    'reasoning_text',
    'reasoning_summary_text',
    'function_call_arguments',
    'custom_tool_call_input',
    'mcp_call_arguments',
    'code_interpreter_call_code',
    'audio.transcript',
    'something_new',
  ])('counts the deltas of %s', (name) => {
    expect(countOf(responses, delta(name, '123'), delta(name, '45'), delta(name, '6', 1))).toBe(6);
  });

  test('counts an output item once even if the stream sends it both in deltas and as a whole', () => {
    const call = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'look', arguments: '{"a":1}', status: 'completed' };
    const deltas = [added({ ...call, arguments: '' }), delta('function_call_arguments', '{"a":1}')];
    expect(countOf(responses, ...deltas)).toBe(11);
    expect(countOf(responses, ...deltas, done(call))).toBe(11);
    expect(countOf(responses, done(call))).toBe(11);
    expect(countOf(responses, done({ type: 'reasoning', summary: [], encrypted_content: 'A'.repeat(8) }))).toBe(6);
  });

  test('expects no more output from a responses stream once its output items are closed', () => {
    const events = [
      added({ type: 'message', content: [] }),
      delta('output_text', 'a'),
      done({ type: 'message', content: [{ text: 'a' }] }),
    ];
    expect([1, 2, 3].map((count) => readAsRelayed(responses, ...events.slice(0, count)).hasAllOutput(1))).toEqual([false, false, true]);
  });

  test('a background response is pending until its last event', () => {
    const created = { type: 'response.created', response: { status: 'queued', background: true } };
    const completed = {
      type: 'response.completed',
      response: { status: 'completed', output: [], usage: { input_tokens: 1, output_tokens: 2 } },
    };
    expect(readAsRelayed(responses, created, delta('output_text', 'a')).summary()).toMatchObject({ isPending: true });
    expect(readAsRelayed(responses, created, completed).summary()).not.toHaveProperty('isPending');
    const foreground = { type: 'response.created', response: { status: 'in_progress', background: false } };
    expect(readAsRelayed(responses, foreground, delta('output_text', 'a')).summary()).not.toHaveProperty('isPending');
  });
});

test("counts all choices, reasoning and tool calls of responses that aren't streamed", () => {
  const parse = (codec: RouteCodec, body: object) => codec.parseResponse(Buffer.from(JSON.stringify(body)))?.generatedCharacters;
  const message = {
    role: 'assistant',
    content: '12',
    reasoning: '345',
    tool_calls: [{ id: 'c', function: { name: 'f', arguments: '{}' } }],
  };
  expect(
    parse(chat, {
      choices: [
        { index: 0, message },
        { index: 1, message },
      ],
    }),
  ).toBe(16);
  const content = [
    { type: 'thinking', thinking: '123', signature: 'AAAA' },
    { type: 'text', text: '45' },
    { type: 'tool_use', id: 't', name: 'f', input: { a: 1 } },
  ];
  expect(parse(messages, { content })).toBe(3 + 2 + 1 + '{"a":1}'.length);
  const output = [
    { type: 'reasoning', summary: [{ type: 'summary_text', text: '123' }] },
    { type: 'message', content: [{ type: 'output_text', text: '45' }] },
  ];
  expect(parse(responses, { output })).toBe(5);
});

test('treats queued and in-progress responses as pending', () => {
  const parse = (status: string) => responses.parseResponse(Buffer.from(JSON.stringify({ status, output: [], usage: null })));
  expect(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled'].map((status) => parse(status)?.isPending)).toEqual([
    true,
    true,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test('counts tool arguments that are JSON objects by their serialized length', () => {
  const input = { a: [1, 'two', null, { b: {} }, []], c: true };
  expect(countGeneratedText({ input })).toBe(JSON.stringify(input).length);
  expect(countGeneratedText({ input: {} })).toBe(0);
});

test('counts the text of deeply nested values without a stack overflow', () => {
  const depth = 200_000;
  const nested: unknown = JSON.parse(`${'[{"a":'.repeat(depth)}"text"${'}]'.repeat(depth)}`);
  expect(countGeneratedText(nested)).toBe(4);
  expect(countGeneratedText({ input: nested, arguments: { deep: nested } })).toBeGreaterThan(4);
});
