/** Tests the conversion of chat streams to legacy completions. */
import { expect, test } from '@jest/globals';
import { createSseParser } from '../../../src/core/sse.ts';
import { completionToChat, createCompletionStream } from '../../../src/dialects/translate/completions.ts';
import { streamOf } from '../events.ts';

test('keeps the choices of completion chunks that also report usage', () => {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id: 'c',
    choices: [{ index: 0, delta, finish_reason }],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  });
  const stream = createCompletionStream();
  const vendor = streamOf(chunk({ role: 'assistant', content: '' }), chunk({ content: 'A' }), chunk({}, 'stop'), {
    choices: [],
    usage: {},
  });
  const events = createSseParser().push(Buffer.from(stream.push(Buffer.from(vendor)))).events;
  const choices = events.map(({ data }) => JSON.parse(data).choices.map(({ text }: { text: string }) => text));
  expect(choices).toEqual([[''], ['A'], [''], []]);
});

test('ends a completion stream with [DONE] as the vendor does', () => {
  expect(createCompletionStream().push(Buffer.from('data: [DONE]\n\n'))).toBe('data: [DONE]\n\n');
});

test('leaves out keep-alives and chunks that are nested too deeply', () => {
  const deep = `{"choices":${'['.repeat(10_000)}${']'.repeat(10_000)}}`;
  const stream = createCompletionStream();
  expect(stream.push(Buffer.from(`\n\n: comment\n\nevent: ping\n\ndata: ${deep}\n\ndata:\n\n`)) + stream.end()).toBe('');
});

test('accepts best_of only if it equals n', () => {
  const chatOf = (members: object) =>
    JSON.parse(completionToChat(Buffer.from(JSON.stringify({ model: 'm', prompt: 'Hi', ...members }))).toString());
  const messages = [{ role: 'user', content: 'Hi' }];
  expect(chatOf({ best_of: 1 })).toEqual({ model: 'm', messages });
  expect(chatOf({ best_of: 2, n: 2 })).toEqual({ model: 'm', n: 2, messages });
  expect(() => chatOf({ best_of: 2 })).toThrow('best_of: is not supported; use n instead');
});
