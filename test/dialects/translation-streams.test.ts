/** Vendor facts 8.3 and 8.4: streamed answers. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createSseParser } from '../../src/core/sse.ts';
import { chat } from '../../src/dialects/chat.ts';
import { createStreamToMessages } from '../../src/dialects/chat-to-messages-stream.ts';
import { messages } from '../../src/dialects/messages.ts';
import { createStreamToChat } from '../../src/dialects/messages-to-chat-stream.ts';
import type { RouteRules } from '../../src/dialects/route-rules.ts';
import { answerToolName } from '../../src/dialects/translate-chat-tools.ts';
import type { StreamState, StreamTranslator } from '../../src/dialects/translate-stream.ts';
import { streamOf } from './events.ts';
import { chatStream, messagesStream, said } from './translation-vendors.ts';

const names = { id: 'gw-1', model: 'asked', createdSeconds: 1700000000 };

/** What comes out for each event, and at the end: JSON, `[DONE]`, or a comment's text. */
function run(translator: StreamTranslator, datas: readonly unknown[], ends = true): { steps: unknown[][]; state: StreamState } {
  const events = createSseParser().push(Buffer.from(streamOf(...datas))).events;
  const outputs = [...events.map((event) => translator.push(event)), ...(ends ? [translator.end()] : [])];
  return { steps: outputs.map(readOut), state: translator.state() };
}

function readOut(text: string): unknown[] {
  return text
    .split('\n\n')
    .filter((block) => block !== '')
    .map((block) => {
      const data = /^(?:event: (\w+)\n)?data: (.*)$/.exec(block);
      if (!data) return block;
      const value = data[2] === '[DONE]' ? '[DONE]' : JSON.parse(data[2] ?? '');
      // The event's name and the type in its data are the same.
      if (data[1] !== undefined) expect(value.type).toBe(data[1]);
      return value;
    });
}

const whole = { begun: true, ended: 'whole', problem: null };

describe('from messages to chat', () => {
  const start = {
    type: 'message_start',
    message: { id: 'msg_1', model: 'claude', content: [], usage: { input_tokens: 25, cache_read_input_tokens: 5, output_tokens: 1 } },
  };
  const ends = (reason: string): object[] => [
    { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 15 } },
    { type: 'message_stop' },
  ];
  const block = (index: number, content_block: object): object => ({ type: 'content_block_start', index, content_block });
  const delta = (index: number, members: object): object => ({ type: 'content_block_delta', index, delta: members });
  const stop = (index: number): object => ({ type: 'content_block_stop', index });
  const json = (index: number, text: string): object => delta(index, { type: 'input_json_delta', partial_json: text });
  const toolBlock = (index: number, members: object = {}): object =>
    block(index, { type: 'tool_use', id: `t${index}`, name: 'f', input: {}, ...members });

  const chunk = (members: object, finish_reason: string | null = null): object => ({
    id: 'msg_1',
    object: 'chat.completion.chunk',
    created: 1700000000,
    model: 'claude',
    choices: [{ index: 0, delta: members, logprobs: null, finish_reason }],
  });
  const opening = chunk({ role: 'assistant', content: '' });
  const callPiece = (index: number, text: string): object => chunk({ tool_calls: [{ index, function: { arguments: text } }] });
  const callStart = (index: number, id: unknown): object =>
    chunk({ tool_calls: [{ index, id, type: 'function', function: { name: 'f', arguments: '' } }] });
  const usage = {
    ...chunk({}),
    choices: [],
    usage: { prompt_tokens: 30, completion_tokens: 15, total_tokens: 45, prompt_tokens_details: { cached_tokens: 5 } },
  };

  const translate = (...datas: unknown[]) => run(createStreamToChat(names), datas);
  /** What comes out for the events between start and end. */
  const pieces = (...datas: object[]): unknown[] =>
    run(createStreamToChat(names), [start, ...datas], false)
      .steps.slice(1)
      .flat();

  test('text: role, pieces, reason, usage, end', () => {
    const datas = [start, block(0, { type: 'text', text: '' }), delta(0, { type: 'text_delta', text: 'Hi' }), stop(0), ...ends('end_turn')];
    expect(translate(...datas)).toEqual({
      steps: [[opening], [], [chunk({ content: 'Hi' })], [], [], [chunk({}, 'stop'), usage, '[DONE]'], []],
      state: whole,
    });
  });

  test('tool calls are counted from 0, whatever the index of their block', () => {
    const datas = [
      block(0, { type: 'text', text: '' }),
      stop(0),
      toolBlock(1),
      json(1, ''),
      json(1, '{"a"'),
      json(1, ':1}'),
      stop(1),
      toolBlock(2),
      json(2, '{"b":2}'),
      stop(2),
    ];
    expect(pieces(...datas)).toEqual([
      callStart(0, 't1'),
      callPiece(0, '{"a"'),
      callPiece(0, ':1}'),
      callStart(1, 't2'),
      callPiece(1, '{"b":2}'),
    ]);
    expect(pieces(...datas, ...ends('tool_use'))).toContainEqual(chunk({}, 'tool_calls'));
  });

  test('a tool without arguments has empty ones', () => {
    expect(pieces(toolBlock(0), json(0, ''), stop(0))).toEqual([callStart(0, 't0'), callPiece(0, '{}')]);
    expect(pieces(toolBlock(0), ...ends('tool_use'))).toContainEqual(callPiece(0, '{}'));
  });

  test('an input that comes whole with the start of its block, numbers as they are', () => {
    const datas = [
      JSON.stringify(start),
      '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t0","name":"f","input":{"z":1.0,"a":2}}}',
      stop(0),
    ];
    expect(run(createStreamToChat(names), datas, false).steps.slice(1).flat()).toEqual([
      callStart(0, 't0'),
      callPiece(0, '{"z":1.0,"a":2}'),
    ]);
  });

  test('a tool without id gets one', () => {
    expect(pieces(toolBlock(0, { id: undefined }))).toEqual([callStart(0, expect.stringMatching(/^call_[0-9a-f]{24}$/))]);
  });

  test('thinking and pings only keep the connection alive', () => {
    const thinking = delta(0, { type: 'thinking_delta', thinking: 'Hm' });
    expect(
      pieces(block(0, { type: 'thinking' }), thinking, delta(0, { type: 'signature_delta', signature: 'x' }), stop(0), { type: 'ping' }),
    ).toEqual([': keep-alive', ': keep-alive']);
  });

  test('what nobody knows says nothing', () => {
    const unknown = [{ type: 'news' }, delta(0, { type: 'citations_delta' }), block(1, { type: 'news' }), json(7, '{}')];
    expect(pieces(...unknown)).toEqual([]);
  });

  test('the tool that stands for an answer format is text', () => {
    const datas = [toolBlock(0, { name: answerToolName }), json(0, '{"a":'), json(0, '1}'), stop(0)];
    expect(pieces(...datas)).toEqual([chunk({ content: '{"a":' }), chunk({ content: '1}' })]);
    expect(pieces(...datas, ...ends('tool_use'))).toContainEqual(chunk({}, 'stop'));
    expect(pieces(toolBlock(0, { name: answerToolName }), stop(0))).toEqual([chunk({ content: '{}' })]);
  });

  test('later counts replace earlier ones; without counts there is no usage chunk', () => {
    const counted = pieces(
      { type: 'message_delta', delta: {}, usage: { input_tokens: 7, cache_read_input_tokens: 0, output_tokens: 3 } },
      { type: 'message_stop' },
    );
    expect(counted).toContainEqual({
      ...usage,
      usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10, prompt_tokens_details: { cached_tokens: 0 } },
    });
    const bare = translate({ type: 'message_start', message: { id: 'msg_1', model: 'claude' } }, { type: 'message_stop' });
    expect(bare.steps.flat()).toEqual([opening, chunk({}, 'stop'), '[DONE]']);
  });

  test('what the vendor left out is made', () => {
    const { steps } = translate({ type: 'message_start', message: {} });
    expect(steps.flat()).toEqual([{ ...opening, id: 'gw-1', model: 'asked' }]);
    expect(translate(delta(0, { type: 'text_delta', text: 'Hi' })).steps[0]).toHaveLength(2);
  });

  test('nothing comes out before the answer begins', () => {
    const { steps, state } = translate({ type: 'ping' }, { type: 'news' }, { type: 'message_stop' }, 'no json', {
      type: 'error',
      error: { message: 'Overloaded' },
    });
    expect(steps.flat()).toEqual([]);
    expect(state).toEqual({ begun: false, ended: 'broken', problem: 'Overloaded' });
  });

  test('an error stops the stream, and nothing behind it is read', () => {
    const { steps, state } = translate(
      start,
      { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
      delta(0, { type: 'text_delta', text: 'x' }),
      ...ends('end_turn'),
    );
    expect(steps.flat()).toEqual([opening]);
    expect(state).toEqual({ begun: true, ended: 'broken', problem: 'Overloaded' });
  });

  test('a stream that ends early is broken', () => {
    const { steps, state } = translate(start, ...ends('end_turn').slice(0, 1));
    expect(steps.flat()).toEqual([opening]);
    expect(state).toEqual({ begun: true, ended: 'broken', problem: 'the vendor ended the stream early' });
  });
});

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
    id: 'chatcmpl-1',
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
  /** What comes out for each of the chunks behind the first. */
  const steps = (...datas: unknown[]): unknown[][] => run(createStreamToMessages(names), [first, ...datas], false).steps.slice(1);

  test('text: start, pieces, end of the block with the reason, the rest with the last event', () => {
    expect(translate(first, chunk({ content: 'Hi' }), chunk({ content: '!' }), chunk({}, 'stop'), usage, '[DONE]')).toEqual({
      steps: [[opening], [textStart(0), text(0, 'Hi')], [text(0, '!')], [stop(0)], [], closing('end_turn', counted), []],
      state: whole,
    });
  });

  test('usage in the finishing chunk, or where Groq has it', () => {
    const { usage: counts } = usage;
    expect(steps(chunk({}, 'stop', { usage: counts }), '[DONE]').flat()).toEqual(closing('end_turn', counted));
    expect(steps(chunk({}, 'stop', { x_groq: { usage: counts } }), '[DONE]').flat()).toEqual(closing('end_turn', counted));
  });

  test('a vendor that omits [DONE] is whole once it gave its reason', () => {
    expect(translate(first, chunk({ content: 'Hi' }, 'length'))).toEqual({
      steps: [[opening], [textStart(0), text(0, 'Hi'), stop(0)], closing('max_tokens')],
      state: whole,
    });
  });

  test('a vendor that says [DONE] is done, reason or not', () => {
    expect(translate(first, chunk({ content: 'Hi' }), '[DONE]')).toMatchObject({ state: whole });
    expect(steps(call(0, { name: 'f', arguments: '{}' }, 'c0'), '[DONE]').flat()).toEqual([
      useStart(0, 'c0'),
      json(0, '{}'),
      stop(0),
      ...closing('tool_use'),
    ]);
  });

  test('tool calls one after the other come through at once', () => {
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

  test('pieces of a later call wait until the current one is whole', () => {
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

  test('several calls in one chunk, and text behind a call', () => {
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

  test('calls without index: a new id is a new call, no id goes on with the last', () => {
    expect(
      steps(
        call(undefined, { name: 'f', arguments: '{' }, 'c0'),
        call(undefined, { arguments: '}' }),
        call(undefined, { name: 'g', arguments: '{}' }, 'c1'),
      ),
    ).toEqual([[useStart(0, 'c0'), json(0, '{')], [json(0, '}')], [stop(0), useStart(1, 'c1', 'g'), json(1, '{}')]]);
  });

  test('a call waits for its name, is named once, and gets an id where it has none', () => {
    const made = expect.stringMatching(/^toolu_[0-9a-f]{24}$/);
    expect(steps(more(0, '{'), call(0, { name: 'f', arguments: '' }), call(0, { name: 'f', arguments: '}' }))).toEqual([
      [],
      [useStart(0, made), json(0, '{')],
      [json(0, '}')],
    ]);
    expect(steps(more(0, '{}'), chunk({}, 'tool_calls')).flat()).toEqual([useStart(0, made, ''), json(0, '{}'), stop(0)]);
  });

  test('a call of the old form', () => {
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

  test('thinking only keeps the connection alive', () => {
    const thinking = [{ reasoning_content: 'Hm' }, { reasoning: 'Hm' }, { content: [{ type: 'thinking', thinking: [] }] }];
    expect(steps(...thinking.map((delta) => chunk(delta))).flat()).toEqual(thinking.map(() => ({ type: 'ping' })));
  });

  test('further choices have no place, chunks without choices say nothing', () => {
    const { steps: out } = translate({ id: '', choices: [] }, { id: 'x', choices: [{ index: 1, delta: { content: 'B' } }] }, first);
    expect(out.flat()).toEqual([opening]);
  });

  test('what the vendor left out is made', () => {
    expect(translate({ choices: [{ delta: {} }] }).steps.flat()).toEqual([
      { ...opening, message: { ...message, id: 'gw-1', model: 'asked' } },
    ]);
  });

  test('nothing comes out before the answer begins', () => {
    const { steps: out, state } = translate({ choices: [] }, '[DONE]', 'no json', { error: 'Overloaded' });
    expect(out.flat()).toEqual([]);
    expect(state).toEqual({ begun: false, ended: 'broken', problem: 'Overloaded' });
  });

  test('an error stops the stream, and nothing behind it is read', () => {
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

describe("the translator and the relay's reader of the vendor's dialect", () => {
  /** How the relay, which goes by the reader alone, sees the stream. */
  function relayed(rules: RouteRules, text: string): { begun: boolean; ended: 'whole' | 'broken' } {
    const reader = rules.createStreamReader();
    let begun = false;
    for (const event of createSseParser().push(Buffer.from(text)).events) {
      const meaning = reader.read(event);
      if (meaning === 'piece') begun = true;
      if (meaning === 'end' && begun) return { begun, ended: 'whole' };
      if (meaning === 'error') return { begun, ended: 'broken' };
    }
    return { begun, ended: reader.finished() ? 'whole' : 'broken' };
  }

  test.each([
    ['chat', chat, () => createStreamToMessages(names), chatStream, '{"error":{"message":"x"}}'],
    ['messages', messages, () => createStreamToChat(names), messagesStream, '{"type":"error","error":{"message":"x"}}'],
  ])('agree on begin and end of %s streams, wherever they are cut or fail', (_name, rules, create, streamFor, fault) => {
    fc.assert(
      fc.property(said, fc.nat(), fc.boolean(), (answer, place, fails) => {
        const events = streamFor(answer)
          .split('\n\n')
          .map((event) => `${event}\n\n`)
          .slice(0, -1);
        const kept = events.slice(0, place % (events.length + 1));
        const text = [...kept, ...(fails ? [`data: ${fault}\n\n`] : [])].join('');
        const translator = create();
        for (const event of createSseParser().push(Buffer.from(text)).events) translator.push(event);
        translator.end();
        const { begun, ended } = translator.state();
        expect({ begun, ended }).toEqual(relayed(rules, text));
      }),
      { numRuns: 300 },
    );
  });

  test('of a whole stream the last thing comes with the last event, so that it can be recorded before it leaves', () => {
    fc.assert(
      fc.property(said, (answer) => {
        for (const [translator, text] of [
          [createStreamToMessages(names), chatStream(answer)],
          [createStreamToChat(names), messagesStream(answer)],
        ] as const) {
          const outputs = createSseParser()
            .push(Buffer.from(text))
            .events.map((event) => [translator.push(event), translator.state().ended]);
          expect(outputs.slice(0, -1).every(([, ended]) => ended === null)).toBe(true);
          expect(outputs.at(-1)?.[0]).not.toBe('');
          expect(outputs.at(-1)?.[1]).toBe('whole');
          expect(translator.end()).toBe('');
        }
      }),
    );
  });
});
