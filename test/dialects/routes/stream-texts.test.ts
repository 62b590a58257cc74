/** Tests that content rules see every text of a streamed response that they see in a plain one. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { TextRoute } from '../../../src/core/call.ts';
import { extractResponseTexts } from '../../../src/dialects/routes/rule-texts.ts';
import { createStreamTexts } from '../../../src/dialects/routes/stream-texts.ts';

const secret = 'ann.planted@example.com';

function textsOf(route: TextRoute, events: readonly object[]): string[] {
  const texts = createStreamTexts(route);
  for (const event of events) texts.add({ name: '', data: JSON.stringify(event), start: 0, end: 0 });
  return texts.texts();
}

/** Splits the secret in two, and returns an event for each half. */
const halves = (deltaOf: (text: string) => object): object[] => [secret.slice(0, 7), secret.slice(7)].map(deltaOf);
const ofChat = (deltaOf: (text: string) => object) => halves((text) => ({ choices: [{ index: 0, delta: deltaOf(text) }] }));
const ofBlock = (deltaOf: (text: string) => object) =>
  halves((text) => ({ type: 'content_block_delta', index: 1, delta: { type: 'x_delta', ...deltaOf(text) } }));

describe.each<[TextRoute, [string, object[]][]]>([
  [
    'chat',
    [
      ['text', ofChat((content) => ({ content }))],
      ['a list of blocks', ofChat((text) => ({ content: [{ type: 'text', text }] }))],
      ['a list of reasoning blocks', ofChat((text) => ({ content: [{ type: 'thinking', thinking: [{ type: 'text', text }] }] }))],
      ['reasoning details', ofChat((text) => ({ reasoning_details: [{ type: 'reasoning.text', text, index: 0 }] }))],
      ['a transcript', ofChat((transcript) => ({ audio: { id: 'audio_1', transcript } }))],
      ['arguments', ofChat((text) => ({ tool_calls: [{ index: 2, function: { name: 'f', arguments: text } }] }))],
      ['the input of a custom tool', ofChat((input) => ({ tool_calls: [{ index: 0, type: 'custom', custom: { name: 'f', input } }] }))],
      ['an argument of an object', [{ choices: [{ delta: { tool_calls: [{ function: { arguments: { to: secret } } }] } }] }]],
      ['an annotation', [{ choices: [{ delta: { annotations: [{ type: 'url_citation', url_citation: { title: secret } }] } }] }]],
      ['a whole message', [{ choices: [{ message: { role: 'assistant', content: secret } }] }]],
      ['a completion', [{ choices: [{ index: 0, text: secret }] }]],
      ['the role', [{ choices: [{ delta: { role: secret } }] }]],
    ],
  ],
  [
    'messages',
    [
      ['text', ofBlock((text) => ({ text }))],
      ['thinking', ofBlock((thinking) => ({ thinking }))],
      ['the input of a tool', ofBlock((json) => ({ partial_json: json }))],
      ['a summary', ofBlock((content) => ({ content }))],
      ['a citation', [{ type: 'content_block_delta', index: 0, delta: { type: 'citations_delta', citation: { cited_text: secret } } }]],
      ['a started block', [{ type: 'content_block_start', index: 0, content_block: { type: 'x', content: [{ text: secret }] } }]],
      ['a started message', [{ type: 'message_start', message: { content: [{ type: 'text', text: secret }] } }]],
      ['a stop sequence', [{ type: 'message_delta', delta: { stop_reason: 'stop_sequence', stop_sequence: secret } }]],
    ],
  ],
  [
    'responses',
    [
      ['text', halves((delta) => ({ type: 'response.output_text.delta', output_index: 0, content_index: 0, delta }))],
      ['a complete text', [{ type: 'response.output_text.done', text: secret }]],
      ['complete arguments', [{ type: 'response.function_call_arguments.done', arguments: secret }]],
      ['a part', [{ type: 'response.reasoning_summary_part.done', part: { type: 'summary_text', text: secret } }]],
      ['an item', [{ type: 'response.output_item.done', item: { type: 'mcp_call', output: secret } }]],
      ['an annotation', [{ type: 'response.output_text.annotation.added', annotation: { type: 'url_citation', title: secret } }]],
      ['the complete response', [{ type: 'response.completed', response: { output: [{ content: [{ text: secret }] }] } }]],
    ],
  ],
])('a stream of the route %s', (route, cases) => {
  test.each(cases)('contains %s', (_what, events) => {
    expect(textsOf(route, events)).toContainEqual(expect.stringContaining(secret));
  });
});

test('leaves out ids, names of the API and log probabilities, which repeat in each event', () => {
  const choice = { index: 0, finish_reason: null, delta: { role: 'assistant', content: '' }, logprobs: { content: [{ token: 'a' }] } };
  const calls = { tool_calls: [{ index: 0, id: 'call_1', type: 'function' }] };
  expect(textsOf('chat', [{ id: 'c', choices: [choice] }, { choices: [{ index: 0, delta: calls, finish_reason: 'stop' }] }])).toEqual([]);
  const signature = { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'YWJjZA==' } };
  expect(textsOf('messages', [signature])).toEqual([]);
  const delta = { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, delta: 'hi', obfuscation: 'x9', logprobs: [] };
  expect(textsOf('responses', [delta])).toEqual(['hi']);
});

test.each([
  { id: 'ig_1', type: 'image_generation_call', status: 'completed', result: 'YWJj'.repeat(100) },
  { id: 'rs_1', type: 'reasoning', encrypted_content: 'YWJj'.repeat(100), summary: [{ type: 'summary_text', text: 'Hm' }] },
  { id: 'fc_1', type: 'function_call', name: 'pay', call_id: 'call_1', arguments: '{"card":"4111 1111 1111 1111","n":7}' },
  { id: 'msg_1', type: 'message', content: [{ type: 'output_text', text: 'hi', logprobs: [], annotations: [] }] },
])('takes the same texts from a streamed item as from a plain response: $type', (item) => {
  expect(textsOf('responses', [{ type: 'response.output_item.done', output_index: 0, item }])).toEqual(
    extractResponseTexts('responses', { output: [item] }),
  );
});

test('only keeps the latest version of a message that each chunk repeats', () => {
  const events = ['h', 'hi', 'hi you'].map((content) => ({ choices: [{ index: 0, delta: {}, message: { role: 'assistant', content } }] }));
  expect(textsOf('chat', events)).toEqual(['hi you']);
});

test('skips audio, containers and the results of content filters', () => {
  const choice = { index: 0, delta: { audio: { id: 'audio_1', data: 'AAAA' } }, content_filter_results: { hate: { severity: 'safe' } } };
  expect(textsOf('chat', [{ choices: [choice] }, { choices: [choice] }])).toEqual([]);
  const container = { id: 'container_1', expires_at: '2026-12-03T00:00:00Z' };
  expect(textsOf('messages', [{ type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null, container } }])).toEqual([]);
});

test('accepts an index of any type', () => {
  const index = { toString: 1, valueOf: 1 };
  expect(textsOf('chat', [{ choices: [{ index, delta: { content: [{ index, text: 'hi' }] } }] }])).toEqual(['hi']);
});

test('lists a text once if the end of the stream repeats it', () => {
  const done = { type: 'response.output_text.done', text: 'hi' };
  const events = [{ type: 'response.output_text.delta', delta: 'h' }, { type: 'response.output_text.delta', delta: 'i' }, done, done];
  expect(textsOf('responses', events)).toEqual(['hi']);
});

test('joins the texts of each choice, wherever a vendor divides them', () => {
  const pieces = fc.array(fc.record({ choice: fc.nat({ max: 2 }), text: fc.string({ minLength: 1 }) }), { maxLength: 20 });
  fc.assert(
    fc.property(pieces, (deltas) => {
      const events = deltas.map(({ choice, text }) => ({ choices: [{ index: choice, delta: { content: text } }] }));
      const whole = Map.groupBy(deltas, ({ choice }) => choice);
      const expected = [...whole.values()].map((list) => list.map(({ text }) => text).join(''));
      expect(new Set(textsOf('chat', events))).toEqual(new Set(expected));
    }),
  );
});
