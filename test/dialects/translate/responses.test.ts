/** Tests the translation of JSON responses. */
import { describe, expect, test } from '@jest/globals';
import { asArray, type JsonObject } from '../../../src/core/json/narrow.ts';
import { asLosslessObject } from '../../../src/dialects/json/lossless-json.ts';
import { parseLossless } from '../../../src/dialects/json/parse-lossless.ts';
import { responseToMessages } from '../../../src/dialects/translate/chat-to-messages.ts';
import { jsonAnswerToolName, toCallerTurn } from '../../../src/dialects/translate/json-answer-tool.ts';
import { responseToChat } from '../../../src/dialects/translate/messages-to-chat.ts';

const names = { id: 'gw-1', model: 'asked', createdSeconds: 1700000000 };
const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } };
const text = (value: string): object => ({ type: 'text', text: value });
const thinking = { type: 'thinking', thinking: 'Hm', signature: 'c2ln' };
const sealed = { type: 'redacted_thinking', data: 'ZGF0YQ==' };
const format = 'anthropic-claude-v1';
const signedDetails = [
  { type: 'reasoning.text', text: 'Hm', signature: 'c2ln', format, index: 0 },
  { type: 'reasoning.encrypted', data: 'ZGF0YQ==', format, index: 1 },
];
const use = { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } };

function ofChat(message: object, choice: object = {}, members: object = {}): JsonObject | null {
  const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop', ...choice }];
  return responseToMessages({ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'gpt', choices, ...members }, names);
}

function ofMessages(content: unknown, members: object = {}): JsonObject | null {
  return responseToChat(
    { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', content, stop_reason: 'end_turn', ...members },
    names,
  );
}

/** Returns the only choice of a translated response. */
function choiceOf(answer: JsonObject | null): JsonObject {
  return asLosslessObject(asArray(answer?.choices)[0]);
}

describe('a chat response for a messages caller', () => {
  test('translates a chat response to a message with text, tool uses and usage', () => {
    const usage = {
      prompt_tokens: 100,
      completion_tokens: 5,
      total_tokens: 105,
      prompt_tokens_details: { cached_tokens: 64, cache_write_tokens: 20 },
    };
    expect(ofChat({ content: 'Hi', tool_calls: [call] }, { finish_reason: 'tool_calls' }, { usage })).toEqual({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'gpt',
      content: [
        { type: 'text', text: 'Hi' },
        { ...use, id: 'call_1' },
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 16, cache_creation_input_tokens: 20, cache_read_input_tokens: 64, output_tokens: 5 },
    });
  });

  test.each([
    ['stop', [], 'end_turn'],
    ['length', [], 'max_tokens'],
    ['content_filter', [], 'refusal'],
    ['tool_calls', [call], 'tool_use'],
    ['function_call', [call], 'tool_use'],
    ['stop', [call], 'tool_use'],
    ['length', [call], 'max_tokens'],
    ['eos', [], 'end_turn'],
    [null, [], 'end_turn'],
  ])('maps finish reason %p with calls %j to %s', (reason, calls, expected) => {
    expect(ofChat({ content: 'x', tool_calls: calls }, { finish_reason: reason })).toMatchObject({ stop_reason: expected });
  });

  test.each<[string, object, unknown[]]>([
    ['no text', { content: null }, []],
    ['an empty text', { content: '' }, []],
    ['a refusal', { content: null, refusal: 'No.' }, [{ type: 'text', text: 'No.' }]],
    [
      'parts with empty thinking',
      {
        content: [
          { type: 'thinking', thinking: [] },
          { type: 'text', text: 'A' },
          { type: 'text', text: 'B' },
        ],
      },
      [{ type: 'text', text: 'AB' }],
    ],
    [
      'reasoning_content',
      { content: 'A', reasoning_content: 'Hm' },
      [
        { ...thinking, signature: '' },
        { type: 'text', text: 'A' },
      ],
    ],
    [
      'reasoning',
      { content: 'A', reasoning: 'Hm', reasoning_details: [] },
      [
        { ...thinking, signature: '' },
        { type: 'text', text: 'A' },
      ],
    ],
    [
      'reasoning_details',
      { content: null, reasoning: 'Hm', reasoning_details: signedDetails, tool_calls: [call] },
      [thinking, sealed, { ...use, id: 'call_1' }],
    ],
    ['thinking_blocks', { content: 'A', reasoning_content: 'Hm', thinking_blocks: [thinking, sealed] }, [thinking, sealed, text('A')]],
    [
      'thinking in content parts',
      { content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }] }, text('A')] },
      [{ ...thinking, signature: '' }, text('A')],
    ],
    [
      'a call without arguments',
      { content: null, tool_calls: [{ ...call, function: { name: 'f', arguments: '' } }] },
      [{ ...use, id: 'call_1', input: {} }],
    ],
    ['object arguments', { tool_calls: [{ ...call, function: { name: 'f', arguments: { a: 1 } } }] }, [{ ...use, id: 'call_1' }]],
    [
      'a legacy function_call',
      { function_call: { name: 'f', arguments: '{"a":1}' } },
      [{ ...use, id: expect.stringMatching(/^toolu_[0-9a-f]{24}$/) }],
    ],
  ])("converts a chat vendor's response with %s", (_name, message, content) => {
    expect(ofChat(message)?.content).toEqual(content);
  });

  test('omits thinking from the response if the caller disabled it', () => {
    const choices = [{ message: { role: 'assistant', content: 'A', reasoning_content: 'Hm' }, finish_reason: 'stop' }];
    expect(responseToMessages({ choices }, names, { hidesThinking: true })?.content).toEqual([text('A')]);
  });

  test.each([
    ['chatcmpl-9', 'msg_9'],
    ['msg_9', 'msg_9'],
    ['gen-9', 'msg_gen-9'],
    [undefined, 'msg_gw-1'],
  ])('maps the id %s to %s', (id, expected) => {
    expect(ofChat({ content: 'A' }, {}, { id })).toMatchObject({ id: expected });
  });

  test('keeps the spelling of numbers and the member order in tool call arguments', () => {
    const text = '{"z":12345678901234567890,"a":[1.0,1e5],"m":-0}';
    expect(JSON.stringify(ofChat({ tool_calls: [{ ...call, function: { name: 'f', arguments: text } }] }))).toContain(`"input":${text}`);
  });

  test('generates message and tool call ids that the vendor omitted', () => {
    const anonymous = { function: { name: 'f', arguments: '' } };
    const answer = ofChat({ tool_calls: [anonymous, anonymous] }, {}, { id: undefined, model: '' });
    expect(answer).toMatchObject({ id: 'msg_gw-1', model: 'asked', usage: { input_tokens: 0, output_tokens: 0 } });
    const ids = asArray(answer?.content).map((block) => asLosslessObject(block).id);
    expect(new Set(ids).size).toBe(2);
    expect(answer).toEqual(ofChat({ tool_calls: [anonymous, anonymous] }, {}, { id: undefined, model: '' }));
  });

  test.each([
    ['an error', { error: { message: 'x' } }],
    ['no choices', { choices: [] }],
    ['a choice without a message', { choices: [{ index: 0, text: 'old' }] }],
    ['a messages response', { type: 'message', content: [] }],
  ])("doesn't recognize %s as a response", (_name, answer) => {
    expect(responseToMessages(answer, names)).toBeNull();
  });

  test('rejects invalid tool arguments unless the response was truncated', () => {
    const broken = { content: null, tool_calls: [{ ...call, function: { name: 'f', arguments: '{"a":' } }] };
    expect(ofChat(broken, { finish_reason: 'tool_calls' })).toBeNull();
    expect(ofChat(broken, { finish_reason: 'length' })).toMatchObject({
      stop_reason: 'max_tokens',
      content: [{ type: 'tool_use', input: {} }],
    });
  });
});

describe('a messages response for a chat caller', () => {
  test('translates a message to a chat completion with text, tool calls and usage', () => {
    const usage = {
      input_tokens: 10,
      cache_creation_input_tokens: 200,
      cache_read_input_tokens: 3000,
      cache_creation: { ephemeral_5m_input_tokens: 150, ephemeral_1h_input_tokens: 50 },
      output_tokens: 5,
    };
    const content = [thinking, sealed, text('A'), use, text('B')];
    expect(ofMessages(content, { stop_reason: 'tool_use', usage })).toEqual({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1700000000,
      model: 'claude',
      choices: [
        {
          index: 0,
          message: {
            ...{ role: 'assistant', content: 'AB', refusal: null, tool_calls: [{ ...call, id: 'toolu_1' }] },
            ...{ reasoning_content: 'Hm', reasoning_details: signedDetails },
          },
          logprobs: null,
          finish_reason: 'tool_calls',
        },
      ],
      usage: {
        prompt_tokens: 3210,
        completion_tokens: 5,
        total_tokens: 3215,
        prompt_tokens_details: { cached_tokens: 3000, cache_write_tokens: 200 },
      },
    });
  });

  test.each([
    ['end_turn', [], 'stop'],
    ['stop_sequence', [], 'stop'],
    ['pause_turn', [], 'stop'],
    ['max_tokens', [], 'length'],
    ['model_context_window_exceeded', [], 'length'],
    ['refusal', [], 'content_filter'],
    ['tool_use', [use], 'tool_calls'],
    ['max_tokens', [use], 'length'],
    [null, [], 'stop'],
  ])('maps stop reason %p with blocks %j to %s', (reason, content, expected) => {
    expect(choiceOf(ofMessages(content, { stop_reason: reason })).finish_reason).toBe(expected);
  });

  test.each<[string, unknown[], string | null]>([
    ['no blocks', [], ''],
    ['only tool calls', [use], null],
    ['only thinking', [{ type: 'redacted_thinking', data: 'x' }], ''],
  ])('sets the content of a response with %s', (_name, content, expected) => {
    expect(asLosslessObject(choiceOf(ofMessages(content)).message).content).toBe(expected);
  });

  test.each([
    ['msg_9', 'chatcmpl-9'],
    ['chatcmpl-9', 'chatcmpl-9'],
    [undefined, 'chatcmpl-gw-1'],
  ])('maps the id %s to %s', (id, expected) => {
    expect(ofMessages([], { id })).toMatchObject({ id: expected });
  });

  test('omits reasoning_details for unsigned thinking', () => {
    const { message } = choiceOf(ofMessages([{ type: 'thinking', thinking: 'Hm' }, text('A')]));
    expect(message).toEqual({ role: 'assistant', content: 'A', refusal: null, reasoning_content: 'Hm' });
  });

  test('keeps the spelling of numbers and the member order in tool use inputs', () => {
    const text = '{"z":12345678901234567890,"a":[1.0,1e5],"m":-0}';
    const content = parseLossless(`[{"type":"tool_use","id":"t","name":"f","input":${text}}]`);
    expect(JSON.stringify(ofMessages(content))).toContain(JSON.stringify(text));
  });

  test("returns the input of the gateway's JSON answer tool as text", () => {
    const content = [{ ...use, name: jsonAnswerToolName, input: { a: [1, 'é'] } }];
    expect(choiceOf(ofMessages(content, { stop_reason: 'tool_use' }))).toMatchObject({
      message: { content: '{"a":[1,"é"]}' },
      finish_reason: 'stop',
    });
    expect(choiceOf(ofMessages(content)).message).not.toHaveProperty('tool_calls');
  });

  test("records the input of the gateway's JSON answer tool as text in the conversation", () => {
    const others = [{ name: 'f', arguments: '{}' }];
    expect(toCallerTurn({ text: '', toolCalls: [...others, { name: jsonAnswerToolName, arguments: '{"a":1}' }] })).toEqual({
      text: '{"a":1}',
      toolCalls: others,
    });
    expect(toCallerTurn({ text: 'A', toolCalls: others })).toEqual({ text: 'A', toolCalls: others });
  });

  test("omits usage from the response if the vendor didn't report it", () => {
    expect(ofMessages([{ type: 'text', text: 'A' }])).not.toHaveProperty('usage');
  });

  test('reads token counts written as 1.0 or 2e0', () => {
    const usage = parseLossless('{"input_tokens":1.0,"output_tokens":2e0}');
    expect(ofMessages([], { usage })?.usage).toMatchObject({ prompt_tokens: 1, completion_tokens: 2 });
  });

  test.each([
    ['an error', { type: 'error', error: { type: 'api_error', message: 'x' } }],
    ['a string as content', { content: 'x' }],
    ['a chat response', { choices: [] }],
  ])("doesn't recognize %s as a response", (_name, answer) => {
    expect(responseToChat(answer, names)).toBeNull();
  });
});
