/**
 * Tests that a cached response keeps its meaning when it's converted to the other format, and that it isn't converted
 * if that's impossible.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Dialect } from '../../../src/core/call.ts';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import { jsonToStream, streamToJson } from '../../../src/dialects/routes/response-formats.ts';
import { responseToChat } from '../../../src/dialects/translate/messages-to-chat.ts';
import { streamOf as eventsOf } from '../events.ts';
import { readChatResponse, readChatStream, readMessagesResponse, readMessagesStream } from '../translate/callers.ts';
import { chatAnswer, chatStream, isSigned, messagesAnswer, messagesStream, said } from '../translate/vendors.ts';

// The SDKs can't parse responses that have no ids.
const whole = said.map((answer) => ({ ...answer, hasToolIds: true, hasUsage: true }));

function plain(dialect: Dialect, stream: string): unknown {
  const text = streamToJson(dialect, Buffer.from(stream));
  return text === null ? null : parseJsonOrThrow(text);
}

function stream(dialect: Dialect, answer: unknown): string | null {
  return jsonToStream(dialect, Buffer.from(typeof answer === 'string' ? answer : JSON.stringify(answer)));
}

describe('chat', () => {
  test('assembles a chat stream into the same JSON response', () => {
    fc.assert(
      fc.property(said, (answer) => {
        fc.pre((answer.hasToolIds || answer.tools.length === 0) && !isSigned(answer));
        const converted = plain('chat', chatStream(answer));
        expect(converted).toMatchObject({ object: 'chat.completion', created: 1 });
        expect(readChatResponse(converted)).toEqual(readChatResponse(chatAnswer(answer)));
      }),
    );
  });

  test('converts a chat response to a stream that the SDK reads the same way', () =>
    fc.assert(
      fc.asyncProperty(whole, async (answer) => {
        fc.pre(answer.form !== 'thinking_blocks');
        expect(await readChatStream(stream('chat', chatAnswer(answer)) ?? '')).toEqual(readChatResponse(chatAnswer(answer)));
      }),
    ));

  test('converts a chat response to a stream and back without loss', () => {
    fc.assert(
      fc.property(whole, (answer) => {
        fc.pre(!isSigned(answer));
        const there = plain('chat', chatStream(answer));
        expect(plain('chat', stream('chat', there) ?? '')).toEqual(there);
      }),
    );
  });

  test('converts signed reasoning between chat responses and streams', () => {
    fc.assert(
      fc.property(whole, (answer) => {
        const there = responseToChat(JSON.parse(JSON.stringify(messagesAnswer(answer))), { id: 'c', model: 'm', createdSeconds: 1 });
        expect(plain('chat', stream('chat', there) ?? '')).toEqual(there);
      }),
    );
  });

  const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' };
  const chunk = (index: number, delta: object, reason: string | null = null, more: object = {}) => ({
    ...head,
    choices: [{ index, delta, finish_reason: reason, ...more }],
  });
  const first = chunk(0, { role: 'assistant', content: 'Hi' });
  const last = chunk(0, {}, 'stop');

  test('assembles the choices of a chat stream by their index', () => {
    const converted = plain(
      'chat',
      eventsOf(chunk(1, { content: 'b' }), chunk(0, { content: 'a' }), chunk(1, { content: 'c' }, 'length'), last, '[DONE]'),
    );
    const choices = [
      { index: 0, message: { role: 'assistant', content: 'a', refusal: null }, logprobs: null, finish_reason: 'stop' },
      { index: 1, message: { role: 'assistant', content: 'bc', refusal: null }, logprobs: null, finish_reason: 'length' },
    ];
    expect(converted).toEqual({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices });
    expect(plain('chat', stream('chat', converted) ?? '')).toEqual(converted);
  });

  test('keeps numbers, unknown members, refusals and legacy function calls unchanged', () => {
    const text = `{"id":"c","object":"chat.completion","created":1.0,"model":"m","provider":{"seed":12345678901234567890},"choices":[
      {"index":0,"message":{"role":"assistant","content":null,"refusal":"No."},"logprobs":null,"finish_reason":"stop"},
      {"index":1,"message":{"role":"assistant","content":null,"refusal":null,"function_call":{"name":"f","arguments":"{\\"n\\":1.0}"}},"logprobs":null,"finish_reason":"function_call"}
    ],"usage":{"prompt_tokens":1e2}}`;
    const events = stream('chat', text) ?? '';
    expect(events).toContain('"created":1.0,');
    expect(events).toContain('{"seed":12345678901234567890}');
    expect(events).toContain('"usage":{"prompt_tokens":1e2}}\n\ndata: [DONE]\n\n');
    expect(plain('chat', events)).toEqual(parseJsonOrThrow(text));
  });

  test('splits a long text into stream chunks, but never within a character', async () => {
    const content = `${'x'.repeat(2_047)}${'😀'.repeat(3_000)}`;
    const message = { role: 'assistant', content, refusal: null };
    const answer = { id: 'c', object: 'chat.completion', created: 1, model: 'm', choices: [{ index: 0, message, finish_reason: 'stop' }] };
    const events = stream('chat', answer) ?? '';
    expect(events.match(/data: /g)?.length).toBeGreaterThan(4);
    expect(Buffer.from(events).toString()).not.toContain('\ufffd');
    expect((await readChatStream(events)).blocks).toEqual([content]);
  });

  test.each<[string, readonly unknown[]]>([
    ['log probabilities', [chunk(0, { content: 'Hi' }, null, { logprobs: { content: [{ token: 'Hi' }] } }), last]],
    ['unknown members of a choice', [first, chunk(0, {}, 'stop', { content_filter_results: { hate: {} } })]],
    ['unknown members of a delta', [first, chunk(0, { audio: { id: 'a' } }), last]],
    [
      'entries of reasoning in parts',
      [chunk(0, { reasoning_details: [{ index: 0, text: 'A' }] }), chunk(0, { reasoning_details: [{ index: 0, text: 'B' }] }), last],
    ],
    ['entries of reasoning without their place', [chunk(0, { reasoning_details: [{ text: 'A' }] }), last]],
    ['tool calls of another type', [first, chunk(0, { tool_calls: [{ index: 0, id: 't', type: 'custom', custom: { name: 'f' } }] }), last]],
    ['pieces of a tool call without their place', [first, chunk(0, { tool_calls: [{ id: 't', function: { name: 'f' } }] }), last]],
    [
      'two names of one tool call',
      [chunk(0, { tool_calls: [{ index: 0, id: 't' }] }), chunk(0, { tool_calls: [{ index: 0, id: 'u' }] }), last],
    ],
    ['a missing end', [first]],
    ['a missing end of one choice', [first, chunk(1, { content: 'x' }), last]],
    [
      'chunks that do not agree',
      [
        { ...first, x_vendor: 1 },
        { ...last, x_vendor: 2 },
      ],
    ],
    ['no choices', [{ ...head, choices: [] }]],
    ['what is no JSON', ['{"cut']],
  ])("doesn't convert a stream with %s to JSON", (_what, chunks) => {
    expect(plain('chat', eventsOf(...chunks, '[DONE]'))).toBeNull();
  });

  const message = { role: 'assistant', content: 'Hi' };
  test.each<[string, unknown]>([
    ['log probabilities', { choices: [{ message, logprobs: { content: [{ token: 'Hi' }] }, finish_reason: 'stop' }] }],
    ['sound', { choices: [{ message: { ...message, audio: { id: 'a' } }, finish_reason: 'stop' }] }],
    ['content in parts', { choices: [{ message: { ...message, content: [{ type: 'text' }] }, finish_reason: 'stop' }] }],
    ['annotations', { choices: [{ message: { ...message, annotations: [{ type: 'url_citation' }] }, finish_reason: 'stop' }] }],
    ['custom tools', { choices: [{ message: { ...message, tool_calls: [{ id: 't', type: 'custom' }] }, finish_reason: 'stop' }] }],
    ['no end', { choices: [{ message, finish_reason: null }] }],
    ['no choices', { choices: [] }],
    ['no JSON in it', 'Hi'],
  ])("doesn't convert a response with %s to a stream", (_what, answer) => {
    expect(stream('chat', answer)).toBeNull();
  });
});

describe('messages', () => {
  const named = (text: string): string =>
    text.replace(/^data: (\{.*\})$/gm, (line, json: string) => `event: ${JSON.parse(json).type}\n${line}`);

  test('assembles a message stream into the same JSON response', () => {
    fc.assert(
      fc.property(whole, (answer) => {
        const converted = plain('messages', named(messagesStream(answer)));
        expect(readMessagesResponse(converted)).toEqual(readMessagesResponse(messagesAnswer(answer)));
      }),
    );
  });

  test('converts a message to a stream that the SDK reads the same way', () =>
    fc.assert(
      fc.asyncProperty(whole, async (answer) => {
        const received = await readMessagesStream(stream('messages', messagesAnswer(answer)) ?? '');
        expect(received).toEqual(readMessagesResponse(messagesAnswer(answer)));
      }),
    ));

  test('converts a message to a stream and back without loss', () => {
    fc.assert(
      fc.property(whole, (answer) => {
        const there = messagesAnswer(answer);
        expect(plain('messages', stream('messages', there) ?? '')).toEqual({ stop_sequence: null, ...there });
      }),
    );
  });

  test('keeps citations, thinking, searches, numbers and unknown members unchanged', () => {
    const text = `{"id":"m","type":"message","role":"assistant","model":"c","content":[
      {"type":"thinking","thinking":"Hm","signature":"c2ln"},{"type":"redacted_thinking","data":"x"},
      {"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q","n":1.50}},
      {"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"https://example.com"}]},
      {"type":"text","text":"Hi","citations":[{"type":"char_location","cited_text":"H"},{"type":"char_location","cited_text":"i"}]},
      {"type":"text","text":"!","citations":null},{"type":"tool_use","id":"t","name":"f","input":{}}
    ],"stop_reason":"stop_sequence","stop_sequence":"END","usage":{"input_tokens":1,"output_tokens":2,"service_tier":"standard"},"container":{"id":"k"}}`;
    const events = stream('messages', text) ?? '';
    expect(events).toContain('\\"n\\":1.50');
    expect(plain('messages', events)).toEqual(parseJsonOrThrow(text));
  });

  const message = {
    id: 'm',
    type: 'message',
    role: 'assistant',
    content: [],
    stop_reason: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  const start = { type: 'message_start', message };
  const block = (content: object, index = 0) => ({ type: 'content_block_start', index, content_block: content });
  const delta = (piece: object, index = 0) => ({ type: 'content_block_delta', index, delta: piece });
  const end = { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 3 } };
  const stop = { type: 'message_stop' };
  const text = block({ type: 'text', text: '' });

  test('uses the latest token counts of a message stream', () => {
    const converted = plain('messages', eventsOf(start, { type: 'ping' }, { ...end, context_management: { applied_edits: [] } }, stop));
    const ends = { stop_reason: 'end_turn', stop_sequence: null, usage: { input_tokens: 1, output_tokens: 3 } };
    expect(converted).toEqual({ ...message, ...ends, context_management: { applied_edits: [] } });
  });

  test.each<[string, readonly unknown[]]>([
    ['an unknown event', [start, { type: 'message_note' }, end, stop]],
    ['an unknown delta', [start, text, delta({ type: 'odd_delta' }), end, stop]],
    ['a delta with more in it', [start, text, delta({ type: 'text_delta', text: 'x', mark: 1 }), end, stop]],
    ['a delta of no block', [start, delta({ type: 'text_delta', text: 'x' }), end, stop]],
    ['blocks out of order', [start, block({ type: 'text', text: '' }, 1), end, stop]],
    [
      'input that is cut off',
      [start, block({ type: 'tool_use', input: {} }), delta({ type: 'input_json_delta', partial_json: '{"a' }), end, stop],
    ],
    ['no beginning', [end, stop]],
    ['two beginnings', [start, start, end, stop]],
    ['no end', [start, text, end]],
    ['no reason of its end', [start, text, stop]],
  ])("doesn't convert a stream with %s to JSON", (_what, events) => {
    expect(plain('messages', eventsOf(...events))).toBeNull();
  });

  test.each<[string, unknown]>([
    ['no usage', { content: [], stop_reason: 'end_turn' }],
    ['no end', { content: [], stop_reason: null, usage: {} }],
    ['an invalid block', { content: ['Hi'], stop_reason: 'end_turn', usage: {} }],
    ['input that is no object', { content: [{ type: 'tool_use', input: 'x' }], stop_reason: 'tool_use', usage: {} }],
    ['no JSON in it', 'Hi'],
  ])("doesn't convert a response with %s to a stream", (_what, answer) => {
    expect(stream('messages', answer)).toBeNull();
  });
});
