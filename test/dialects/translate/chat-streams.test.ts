/** Tests the translation of chat vendors' streams for messages callers. */
import { describe, expect, test } from '@jest/globals';
import { createStreamToMessages } from '../../../src/dialects/translate/chat-to-messages-stream.ts';
import { names, run, whole } from './steps.ts';

describe('from chat to messages', () => {
  const chunk = (delta: object, finish_reason: string | null = null, members: object = {}): object => ({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'gpt',
    choices: [{ index: 0, delta, finish_reason }],
    ...members,
  });
  const call = (index: unknown, fn: object, id?: string): object => chunk({ tool_calls: [{ index, id, type: 'function', function: fn }] });
  const more = (index: unknown, text: string): object => call(index, { arguments: text });
  const first = chunk({ role: 'assistant', content: '' });
  const usage = {
    id: 'chatcmpl-1',
    choices: [],
    usage: { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 64 } },
  };

  const zero = { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 };
  const counted = { input_tokens: 36, cache_creation_input_tokens: 0, cache_read_input_tokens: 64, output_tokens: 5 };
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'gpt',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: zero,
  };
  const opening = { type: 'message_start', message };
  const blockStart = (index: number, content_block: object): object => ({ type: 'content_block_start', index, content_block });
  const textStart = (index: number): object => blockStart(index, { type: 'text', text: '' });
  const useStart = (index: number, id: unknown, name = 'f'): object => blockStart(index, { type: 'tool_use', id, name, input: {} });
  const text = (index: number, value: string): object => ({
    type: 'content_block_delta',
    index,
    delta: { type: 'text_delta', text: value },
  });
  const json = (index: number, value: string): object => ({
    type: 'content_block_delta',
    index,
    delta: { type: 'input_json_delta', partial_json: value },
  });
  const stop = (index: number): object => ({ type: 'content_block_stop', index });
  const closing = (stop_reason: string, counts: object = zero): object[] => [
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: counts },
    { type: 'message_stop' },
  ];

  const translate = (...datas: unknown[]) => run(createStreamToMessages(names), datas);
  /** Returns the output for each chunk except the first. */
  const steps = (...datas: unknown[]): unknown[][] => run(createStreamToMessages(names), [first, ...datas], false).steps.slice(1);

  test('converts a streamed text response from chat to messages', () => {
    expect(translate(first, chunk({ content: 'Hi' }), chunk({ content: '!' }), chunk({}, 'stop'), usage, '[DONE]')).toEqual({
      steps: [[opening], [textStart(0), text(0, 'Hi')], [text(0, '!')], [stop(0)], [], closing('end_turn', counted), []],
      state: whole,
    });
  });

  test("reads usage from the last chunk or from Groq's x_groq field", () => {
    const { usage: counts } = usage;
    expect(steps(chunk({}, 'stop', { usage: counts }), '[DONE]').flat()).toEqual(closing('end_turn', counted));
    expect(steps(chunk({}, 'stop', { x_groq: { usage: counts } }), '[DONE]').flat()).toEqual(closing('end_turn', counted));
  });

  test("a chat vendor's stream may end with a finish reason but without [DONE]", () => {
    expect(translate(first, chunk({ content: 'Hi' }, 'length'))).toEqual({
      steps: [[opening], [textStart(0), text(0, 'Hi'), stop(0)], closing('max_tokens')],
      state: whole,
    });
  });

  test("a chat vendor's stream may end with [DONE] but without a finish reason", () => {
    expect(translate(first, chunk({ content: 'Hi' }), '[DONE]')).toMatchObject({ state: whole });
    expect(steps(call(0, { name: 'f', arguments: '{}' }, 'c0'), '[DONE]').flat()).toEqual([
      useStart(0, 'c0'),
      json(0, '{}'),
      stop(0),
      ...closing('tool_use'),
    ]);
  });

  test('forwards the chunks of sequential tool calls immediately', () => {
    expect(
      steps(
        chunk({ content: 'Wait' }),
        call(0, { name: 'f', arguments: '' }, 'c0'),
        more(0, '{"a"'),
        more(0, ':1}'),
        call(1, { name: 'g', arguments: '' }, 'c1'),
        more(1, '{}'),
        chunk({}, 'tool_calls'),
        '[DONE]',
      ),
    ).toEqual([
      [textStart(0), text(0, 'Wait')],
      [stop(0), useStart(1, 'c0')],
      [json(1, '{"a"')],
      [json(1, ':1}')],
      [stop(1), useStart(2, 'c1', 'g')],
      [json(2, '{}')],
      [stop(2)],
      closing('tool_use'),
    ]);
  });

  test('holds back interleaved tool calls until the current one is complete', () => {
    expect(
      steps(
        call(0, { name: 'f', arguments: '' }, 'c0'),
        call(1, { name: 'g', arguments: '' }, 'c1'),
        call(2, { name: 'h', arguments: '{"c":3}' }, 'c2'),
        more(0, '{"a":{'),
        more(1, '{"b":'),
        more(0, '}}'),
        more(1, '2}'),
        chunk({}, 'tool_calls'),
      ),
    ).toEqual([
      [useStart(0, 'c0')],
      [],
      [],
      [json(0, '{"a":{')],
      [],
      [json(0, '}}'), stop(0), useStart(1, 'c1', 'g'), json(1, '{"b":')],
      [json(1, '2}'), stop(1), useStart(2, 'c2', 'h'), json(2, '{"c":3}')],
      [stop(2)],
    ]);
  });

  test('accepts several tool calls in one chunk and text after a tool call', () => {
    const both = chunk({
      tool_calls: [
        { index: 0, id: 'c0', function: { name: 'f', arguments: '{}' } },
        { index: 1, id: 'c1', function: { name: 'g', arguments: '{' } },
      ],
    });
    expect(steps(both, chunk({ content: 'So' }), more(1, '}'), chunk({ content: '.' }))).toEqual([
      [useStart(0, 'c0'), json(0, '{}'), stop(0), useStart(1, 'c1', 'g'), json(1, '{')],
      [],
      [json(1, '}'), stop(1), textStart(2), text(2, 'So')],
      [text(2, '.')],
    ]);
  });

  test('starts a new tool call when the id changes if the vendor sends no index', () => {
    expect(
      steps(
        call(undefined, { name: 'f', arguments: '{' }, 'c0'),
        call(undefined, { arguments: '}' }),
        call(undefined, { name: 'g', arguments: '{}' }, 'c1'),
      ),
    ).toEqual([[useStart(0, 'c0'), json(0, '{')], [json(0, '}')], [stop(0), useStart(1, 'c1', 'g'), json(1, '{}')]]);
  });

  test('separates complete tool calls with the same index by their id', () => {
    expect(
      steps(
        call(0, { name: 'f', arguments: '{"a":1}' }, 'c0'),
        call(0, { name: 'g', arguments: '{"a":' }, 'c1'),
        call(0, { arguments: '2}' }, 'c2'),
        chunk({}, 'tool_calls'),
      ),
    ).toEqual([[useStart(0, 'c0'), json(0, '{"a":1}')], [stop(0), useStart(1, 'c1', 'g'), json(1, '{"a":')], [json(1, '2}')], [stop(1)]]);
  });

  test('converts a long streamed tool call in linear time', () => {
    const translator = createStreamToMessages(names);
    const push = (data: object): string => translator.push({ name: '', data: JSON.stringify(data), start: 0, end: 0 });
    push(first);
    push(call(0, { name: 'f', arguments: '{"a":"' }, 'c0'));
    for (let index = 1; index <= 20_000; index += 1) push(call(index, { name: 'g', arguments: '{' }, `c${index}`));
    for (let piece = 0; piece < 100_000; piece += 1) push(more(0, '}'));
    for (let index = 1; index <= 20_000; index += 1) push(more(index, '}'));
    const events = push(more(0, '"}')).split('\n\n');
    expect(events.length - 1).toBe(1 + 1 + 20_000 * 3 - 1);
  });

  test('waits for the name of a streamed tool call and generates a missing id', () => {
    const made = expect.stringMatching(/^toolu_[0-9a-f]{24}$/);
    expect(steps(more(0, '{'), call(0, { name: 'f', arguments: '' }), call(0, { name: 'f', arguments: '}' }))).toEqual([
      [],
      [useStart(0, made), json(0, '{')],
      [json(0, '}')],
    ]);
    expect(steps(more(0, '{}'), chunk({}, 'tool_calls')).flat()).toEqual([useStart(0, made, ''), json(0, '{}'), stop(0)]);
  });

  test('converts a legacy function_call to a tool use', () => {
    const old = [
      chunk({ function_call: { name: 'f', arguments: '' } }),
      chunk({ function_call: { arguments: '{}' } }),
      chunk({}, 'function_call'),
      '[DONE]',
    ];
    expect(steps(...old).flat()).toEqual([useStart(0, expect.any(String)), json(0, '{}'), stop(0), ...closing('tool_use')]);
  });

  test('converts a streamed refusal to text', () => {
    expect(steps(chunk({ refusal: 'No.' }), chunk({}, 'content_filter'), '[DONE]').flat()).toEqual([
      textStart(0),
      text(0, 'No.'),
      stop(0),
      ...closing('refusal'),
    ]);
  });

  const thinkingStart = (index: number): object => blockStart(index, { type: 'thinking', thinking: '', signature: '' });
  const delta = (index: number, members: object): object => ({ type: 'content_block_delta', index, delta: members });
  const thought = (index: number, value: string): object => delta(index, { type: 'thinking_delta', thinking: value });
  const signed = (index: number, signature: string): object => delta(index, { type: 'signature_delta', signature });
  const detail = (members: object): object => chunk({ reasoning_details: [{ type: 'reasoning.text', index: 0, ...members }] });

  test.each<[string, (text: string) => object]>([
    ['reasoning_content', (value) => ({ reasoning_content: value, content: null })],
    ['reasoning', (value) => ({ reasoning: value, content: '' })],
    ['parts of the content', (value) => ({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: value }] }] })],
    ['reasoning_details', (value) => ({ reasoning: value, reasoning_details: [{ type: 'reasoning.text', text: value }] })],
    ['summaries', (value) => ({ reasoning_details: [{ type: 'reasoning.summary', summary: value, format: 'openai-responses-v1' }] })],
    [
      'thinking_blocks',
      (value) => ({ reasoning_content: value, thinking_blocks: [{ type: 'thinking', thinking: value, signature: null }] }),
    ],
  ])('turns %s into a thinking block without a signature', (_name, members) => {
    expect(steps(chunk(members('H')), chunk(members('H')), chunk({ content: 'Hi' }))).toEqual([
      [thinkingStart(0), thought(0, 'H')],
      [thought(0, 'H')],
      [stop(0), textStart(1), text(1, 'Hi')],
    ]);
  });

  test('converts encrypted reasoning to a separate redacted_thinking block', () => {
    const encrypted = chunk({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'ZGF0YQ==', format: 'anthropic-claude-v1' }] });
    expect(steps(detail({ text: 'A' }), detail({ text: 'B' }), detail({ signature: 'c2ln' }), encrypted, detail({ text: 'C' }))).toEqual([
      [thinkingStart(0), thought(0, 'A')],
      [thought(0, 'B')],
      [signed(0, 'c2ln'), stop(0)],
      [blockStart(1, { type: 'redacted_thinking', data: 'ZGF0YQ==' }), stop(1)],
      [thinkingStart(2), thought(2, 'C')],
    ]);
  });

  test('adds only the signature if reasoning_details repeat text that was already streamed', () => {
    expect(steps(chunk({ reasoning_content: 'A' }), chunk({ reasoning_content: 'B' }), detail({ text: 'AB', signature: 'c2ln' }))).toEqual([
      [thinkingStart(0), thought(0, 'A')],
      [thought(0, 'B')],
      [signed(0, 'c2ln'), stop(0)],
    ]);
  });

  test('omits reasoning signatures from other vendors', () => {
    const foreign = chunk({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'x', format: 'google-gemini-v1' }] });
    expect(steps(detail({ text: 'A', signature: 'x', format: 'google-gemini-v1' }), foreign, chunk({ content: 'Hi' })).flat()).toEqual([
      thinkingStart(0),
      thought(0, 'A'),
      stop(0),
      textStart(1),
      text(1, 'Hi'),
    ]);
  });

  test('sends pings instead of thinking if the caller disabled thinking', () => {
    const datas = [first, chunk({ reasoning_content: 'Hm' }), chunk({ content: 'Hi' })];
    const { steps: out } = run(createStreamToMessages(names, { hidesThinking: true }), datas, false);
    expect(out.slice(1)).toEqual([[{ type: 'ping' }], [textStart(0), text(0, 'Hi')]]);
  });

  test("converts the vendor's SSE comments to ping events", () => {
    expect(run(createStreamToMessages(names), ['', first, ''], false).steps).toEqual([[], [opening], [{ type: 'ping' }]]);
  });

  test('ignores additional choices and stream chunks without choices', () => {
    const { steps: out } = translate({ id: '', choices: [] }, { id: 'x', choices: [{ index: 1, delta: { content: 'B' } }] }, first);
    expect(out.flat()).toEqual([opening]);
  });

  test('generates the id and model of a message if the vendor omitted them', () => {
    expect(translate({ choices: [{ delta: {} }] }).steps.flat()).toEqual([
      { ...opening, message: { ...message, id: 'msg_gw-1', model: 'asked' } },
    ]);
  });

  test("sends no events until the vendor's chat response begins", () => {
    const { steps: out, state } = translate({ choices: [] }, '[DONE]', 'no json', { error: 'Overloaded' });
    expect(out.flat()).toEqual([]);
    expect(state).toEqual({ begun: false, ended: 'broken', problem: 'Overloaded' });
  });

  test('ignores chat stream events after an error', () => {
    const { steps: out, state } = translate(first, { error: { message: 'Overloaded' } }, chunk({ content: 'x' }, 'stop'), '[DONE]');
    expect(out.flat()).toEqual([opening]);
    expect(state).toEqual({ begun: true, ended: 'broken', problem: 'Overloaded' });
  });

  test('reports a chat stream without a finish reason as broken', () => {
    const { steps: out, state } = translate(first, chunk({ content: 'Hi' }));
    expect(out.flat()).toEqual([opening, textStart(0), text(0, 'Hi')]);
    expect(state).toEqual({ begun: true, ended: 'broken', problem: 'the vendor ended the stream early' });
  });
});
