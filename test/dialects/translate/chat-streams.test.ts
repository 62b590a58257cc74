/** Translation of streams of chat vendors for messages callers. */
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
  /** The output for each chunk after the first. */
  const steps = (...datas: unknown[]): unknown[][] => run(createStreamToMessages(names), [first, ...datas], false).steps.slice(1);

  test('text: start, deltas, end of the block with the finish reason, the rest with the last event', () => {
    expect(translate(first, chunk({ content: 'Hi' }), chunk({ content: '!' }), chunk({}, 'stop'), usage, '[DONE]')).toEqual({
      steps: [[opening], [textStart(0), text(0, 'Hi')], [text(0, '!')], [stop(0)], [], closing('end_turn', counted), []],
      state: whole,
    });
  });

  test('usage in the last chunk, or in Groq’s member', () => {
    const { usage: counts } = usage;
    expect(steps(chunk({}, 'stop', { usage: counts }), '[DONE]').flat()).toEqual(closing('end_turn', counted));
    expect(steps(chunk({}, 'stop', { x_groq: { usage: counts } }), '[DONE]').flat()).toEqual(closing('end_turn', counted));
  });

  test('a stream without [DONE] is complete after its finish reason', () => {
    expect(translate(first, chunk({ content: 'Hi' }, 'length'))).toEqual({
      steps: [[opening], [textStart(0), text(0, 'Hi'), stop(0)], closing('max_tokens')],
      state: whole,
    });
  });

  test('a stream with [DONE] is complete with or without a finish reason', () => {
    expect(translate(first, chunk({ content: 'Hi' }), '[DONE]')).toMatchObject({ state: whole });
    expect(steps(call(0, { name: 'f', arguments: '{}' }, 'c0'), '[DONE]').flat()).toEqual([
      useStart(0, 'c0'),
      json(0, '{}'),
      stop(0),
      ...closing('tool_use'),
    ]);
  });

  test('sequential tool calls are forwarded at once', () => {
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

  test('deltas of a later call wait until the current call is complete', () => {
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

  test('several calls in one chunk, and text after a call', () => {
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

  test('calls without an index: a new id starts a call, no id continues the last one', () => {
    expect(
      steps(
        call(undefined, { name: 'f', arguments: '{' }, 'c0'),
        call(undefined, { arguments: '}' }),
        call(undefined, { name: 'g', arguments: '{}' }, 'c1'),
      ),
    ).toEqual([[useStart(0, 'c0'), json(0, '{')], [json(0, '}')], [stop(0), useStart(1, 'c1', 'g'), json(1, '{}')]]);
  });

  test('complete calls with the same index are separate when each has its id; other ids of a call are ignored', () => {
    expect(
      steps(
        call(0, { name: 'f', arguments: '{"a":1}' }, 'c0'),
        call(0, { name: 'g', arguments: '{"a":' }, 'c1'),
        call(0, { arguments: '2}' }, 'c2'),
        chunk({}, 'tool_calls'),
      ),
    ).toEqual([[useStart(0, 'c0'), json(0, '{"a":1}')], [stop(0), useStart(1, 'c1', 'g'), json(1, '{"a":')], [json(1, '2}')], [stop(1)]]);
  });

  test('a long call takes time in proportion to its length, with others waiting, however its deltas are cut', () => {
    const translator = createStreamToMessages(names);
    const push = (data: object): string => translator.push({ name: '', data: JSON.stringify(data), start: 0, end: 0 });
    push(first);
    push(call(0, { name: 'f', arguments: '{"a":"' }, 'c0'));
    for (let index = 1; index <= 20_000; index += 1) push(call(index, { name: 'g', arguments: '{' }, `c${index}`));
    for (let piece = 0; piece < 100_000; piece += 1) push(more(0, '}'));
    for (let index = 1; index <= 20_000; index += 1) push(more(index, '}'));
    const events = push(more(0, '"}')).split('\n\n');
    expect(events.length - 1).toBe(1 + 1 + 20_000 * 3 - 1);
  }, 30_000);

  test('a call waits for its name, is named once, and gets an id when it has none', () => {
    const made = expect.stringMatching(/^toolu_[0-9a-f]{24}$/);
    expect(steps(more(0, '{'), call(0, { name: 'f', arguments: '' }), call(0, { name: 'f', arguments: '}' }))).toEqual([
      [],
      [useStart(0, made), json(0, '{')],
      [json(0, '}')],
    ]);
    expect(steps(more(0, '{}'), chunk({}, 'tool_calls')).flat()).toEqual([useStart(0, made, ''), json(0, '{}'), stop(0)]);
  });

  test('a legacy function_call', () => {
    const old = [
      chunk({ function_call: { name: 'f', arguments: '' } }),
      chunk({ function_call: { arguments: '{}' } }),
      chunk({}, 'function_call'),
      '[DONE]',
    ];
    expect(steps(...old).flat()).toEqual([useStart(0, expect.any(String)), json(0, '{}'), stop(0), ...closing('tool_use')]);
  });

  test('a refusal is text', () => {
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
  ])('%s become a thinking block without a signature', (_name, members) => {
    expect(steps(chunk(members('H')), chunk(members('H')), chunk({ content: 'Hi' }))).toEqual([
      [thinkingStart(0), thought(0, 'H')],
      [thought(0, 'H')],
      [stop(0), textStart(1), text(1, 'Hi')],
    ]);
  });

  test('a signature ends its block, and encrypted reasoning is a separate block', () => {
    const encrypted = chunk({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'ZGF0YQ==', format: 'anthropic-claude-v1' }] });
    expect(steps(detail({ text: 'A' }), detail({ text: 'B' }), detail({ signature: 'c2ln' }), encrypted, detail({ text: 'C' }))).toEqual([
      [thinkingStart(0), thought(0, 'A')],
      [thought(0, 'B')],
      [signed(0, 'c2ln'), stop(0)],
      [blockStart(1, { type: 'redacted_thinking', data: 'ZGF0YQ==' }), stop(1)],
      [thinkingStart(2), thought(2, 'C')],
    ]);
  });

  test('an entry that repeats the streamed text adds its signature only', () => {
    expect(steps(chunk({ reasoning_content: 'A' }), chunk({ reasoning_content: 'B' }), detail({ text: 'AB', signature: 'c2ln' }))).toEqual([
      [thinkingStart(0), thought(0, 'A')],
      [thought(0, 'B')],
      [signed(0, 'c2ln'), stop(0)],
    ]);
  });

  test("signatures and encrypted reasoning of another format than the caller's are omitted", () => {
    const foreign = chunk({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'x', format: 'google-gemini-v1' }] });
    expect(steps(detail({ text: 'A', signature: 'x', format: 'google-gemini-v1' }), foreign, chunk({ content: 'Hi' })).flat()).toEqual([
      thinkingStart(0),
      thought(0, 'A'),
      stop(0),
      textStart(1),
      text(1, 'Hi'),
    ]);
  });

  test('for a caller that disabled thinking it only keeps the connection alive', () => {
    const datas = [first, chunk({ reasoning_content: 'Hm' }), chunk({ content: 'Hi' })];
    const { steps: out } = run(createStreamToMessages(names, { hidesThinking: true }), datas, false);
    expect(out.slice(1)).toEqual([[{ type: 'ping' }], [textStart(0), text(0, 'Hi')]]);
  });

  test("the vendor's comments keep the connection alive, once the response has begun", () => {
    expect(run(createStreamToMessages(names), ['', first, ''], false).steps).toEqual([[], [opening], [{ type: 'ping' }]]);
  });

  test('further choices and chunks without choices produce no output', () => {
    const { steps: out } = translate({ id: '', choices: [] }, { id: 'x', choices: [{ index: 1, delta: { content: 'B' } }] }, first);
    expect(out.flat()).toEqual([opening]);
  });

  test('members that the vendor omitted are generated', () => {
    expect(translate({ choices: [{ delta: {} }] }).steps.flat()).toEqual([
      { ...opening, message: { ...message, id: 'msg_gw-1', model: 'asked' } },
    ]);
  });

  test('there is no output before the response starts', () => {
    const { steps: out, state } = translate({ choices: [] }, '[DONE]', 'no json', { error: 'Overloaded' });
    expect(out.flat()).toEqual([]);
    expect(state).toEqual({ begun: false, ended: 'broken', problem: 'Overloaded' });
  });

  test('an error ends the stream, and later events are ignored', () => {
    const { steps: out, state } = translate(first, { error: { message: 'Overloaded' } }, chunk({ content: 'x' }, 'stop'), '[DONE]');
    expect(out.flat()).toEqual([opening]);
    expect(state).toEqual({ begun: true, ended: 'broken', problem: 'Overloaded' });
  });

  test('a stream that ends without its reason is broken', () => {
    const { steps: out, state } = translate(first, chunk({ content: 'Hi' }));
    expect(out.flat()).toEqual([opening, textStart(0), text(0, 'Hi')]);
    expect(state).toEqual({ begun: true, ended: 'broken', problem: 'the vendor ended the stream early' });
  });
});
