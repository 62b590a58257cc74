/** Tests the translation of messages vendors' streams for chat callers. */
import { describe, expect, test } from '@jest/globals';
import { jsonAnswerToolName } from '../../../src/dialects/translate/json-answer-tool.ts';
import { createStreamToChat } from '../../../src/dialects/translate/messages-to-chat-stream.ts';
import { names, run, whole } from './steps.ts';

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
    id: 'chatcmpl-1',
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
  /** Returns the output for all events except the first and the last. */
  const pieces = (...datas: object[]): unknown[] =>
    run(createStreamToChat(names), [start, ...datas], false)
      .steps.slice(1)
      .flat();

  test('converts a streamed text response from messages to chat', () => {
    const datas = [start, block(0, { type: 'text', text: '' }), delta(0, { type: 'text_delta', text: 'Hi' }), stop(0), ...ends('end_turn')];
    expect(translate(...datas)).toEqual({
      steps: [[opening], [], [chunk({ content: 'Hi' })], [], [], [chunk({}, 'stop'), usage, '[DONE]'], []],
      state: { ...whole, usageEvent: `data: ${JSON.stringify(usage)}\n\n` },
    });
  });

  test('numbers tool calls from 0 regardless of the index of their content block', () => {
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

  test('sends empty arguments for a tool call without input', () => {
    expect(pieces(toolBlock(0), json(0, ''), stop(0))).toEqual([callStart(0, 't0'), callPiece(0, '{}')]);
    expect(pieces(toolBlock(0), ...ends('tool_use'))).toContainEqual(callPiece(0, '{}'));
  });

  test('keeps the spelling of numbers in a tool input that arrives in one piece', () => {
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

  test('generates an id for a tool use that has no id', () => {
    expect(pieces(toolBlock(0, { id: undefined }))).toEqual([callStart(0, expect.stringMatching(/^call_[0-9a-f]{24}$/))]);
  });

  const details = (...entries: object[]): object => chunk({ reasoning_details: entries });
  const entry = (index: number, text: string, signature: string): object => ({
    type: 'reasoning.text',
    text,
    signature,
    format: 'anthropic-claude-v1',
    index,
  });

  test('streams thinking as reasoning_content, followed by its signature', () => {
    const thought = (index: number, thinking: string): object => delta(index, { type: 'thinking_delta', thinking });
    const sign = (index: number, signature: string): object => delta(index, { type: 'signature_delta', signature });
    expect(
      pieces(
        block(0, { type: 'thinking', thinking: '', signature: '' }),
        thought(0, 'H'),
        thought(0, 'm'),
        sign(0, 'c2'),
        sign(0, 'ln'),
        stop(0),
        block(1, { type: 'redacted_thinking', data: 'ZGF0YQ==' }),
        stop(1),
        block(2, { type: 'thinking', thinking: '', signature: '' }),
        sign(2, 'x'),
        stop(2),
      ),
    ).toEqual([
      chunk({ reasoning_content: 'H' }),
      chunk({ reasoning_content: 'm' }),
      details(entry(0, 'Hm', 'c2ln')),
      details({ type: 'reasoning.encrypted', data: 'ZGF0YQ==', format: 'anthropic-claude-v1', index: 1 }),
      details(entry(2, '', 'x')),
    ]);
  });

  test('streams unsigned thinking only as reasoning_content', () => {
    const thinking = delta(0, { type: 'thinking_delta', thinking: 'Hm' });
    expect(pieces(block(0, { type: 'thinking' }), thinking, stop(0), { type: 'ping' })).toEqual([
      chunk({ reasoning_content: 'Hm' }),
      ': keep-alive',
    ]);
  });

  test('ignores unknown events from a messages vendor', () => {
    const unknown = [{ type: 'news' }, delta(0, { type: 'citations_delta' }), block(1, { type: 'news' }), json(7, '{}')];
    expect(pieces(...unknown)).toEqual([]);
  });

  test("converts a call to the gateway's JSON answer tool to text", () => {
    const datas = [toolBlock(0, { name: jsonAnswerToolName }), json(0, '{"a":'), json(0, '1}'), stop(0)];
    expect(pieces(...datas)).toEqual([chunk({ content: '{"a":' }), chunk({ content: '1}' })]);
    expect(pieces(...datas, ...ends('tool_use'))).toContainEqual(chunk({}, 'stop'));
    expect(pieces(toolBlock(0, { name: jsonAnswerToolName }), stop(0))).toEqual([chunk({ content: '{}' })]);
  });

  test('sends the latest token counts from a messages vendor', () => {
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

  test('generates the id and model of a chat stream if the vendor omitted them', () => {
    const { steps } = translate({ type: 'message_start', message: {} });
    expect(steps.flat()).toEqual([{ ...opening, id: 'chatcmpl-gw-1', model: 'asked' }]);
    expect(translate(delta(0, { type: 'text_delta', text: 'Hi' })).steps[0]).toHaveLength(2);
  });

  test("sends no chunks until the vendor's messages response begins", () => {
    const { steps, state } = translate({ type: 'ping' }, { type: 'news' }, { type: 'message_stop' }, 'no json', {
      type: 'error',
      error: { message: 'Overloaded' },
    });
    expect(steps.flat()).toEqual([]);
    expect(state).toEqual({ begun: false, ended: 'broken', problem: 'Overloaded' });
  });

  test('ignores message stream events after an error', () => {
    const { steps, state } = translate(
      start,
      { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
      delta(0, { type: 'text_delta', text: 'x' }),
      ...ends('end_turn'),
    );
    expect(steps.flat()).toEqual([opening]);
    expect(state).toEqual({ begun: true, ended: 'broken', problem: 'Overloaded' });
  });

  test('reports a message stream without message_stop as broken', () => {
    const { steps, state } = translate(start, ...ends('end_turn').slice(0, 1));
    expect(steps.flat()).toEqual([opening]);
    expect(state).toEqual({ begun: true, ended: 'broken', problem: 'the vendor ended the stream early' });
  });
});
