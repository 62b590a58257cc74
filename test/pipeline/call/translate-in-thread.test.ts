import { expect, test } from '@jest/globals';
import { largeBytes } from '../../../src/core/low-priority-thread.ts';
import { isSlowToParse } from '../../../src/core/slow-json.ts';
import { UntranslatableError } from '../../../src/dialects/contract/untranslatable.ts';
import { translateInThread } from '../../../src/pipeline/call/translate-in-thread.ts';
import { type TranslationTarget, translateRequest } from '../../../src/pipeline/call/translate-request.ts';

const target: TranslationTarget = {
  ...{ dialect: 'messages', model: 'm', traits: { thinking: 'adaptive' }, takesReasoning: 'none' },
  ...{ maxTokensField: 'max_tokens', maxTokens: 9, stream: true },
};
const schema = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`field ${index}`, index]));
const chat = {
  messages: [{ role: 'user', content: 'h\u00e9llo \ud83d\ude00' }],
  tools: [{ type: 'function', function: { name: 'find', parameters: schema } }],
  temperature: 1.5,
  seed: 5,
};
const bytesOf = (body: object): Buffer => Buffer.from(JSON.stringify(body).replace('"field 7":7', '"field 7":1.0e2'));

test.each([
  ['chat', bytesOf(chat), target],
  [
    'messages',
    bytesOf({ max_tokens: 5, thinking: { type: 'adaptive' }, top_k: 3, ...chat, tools: [{ name: 'find', input_schema: schema }] }),
    { ...target, dialect: 'chat' as const },
  ],
])('translates a %s request in the thread as on the event loop', async (_route, bytes, to) => {
  const before = Buffer.from(bytes);
  const translated = await translateInThread('a', bytes, to);
  expect(translated).toEqual(translateRequest(bytes, to));
  expect(translated).toMatchObject({ body: expect.any(Buffer), hidesThinking: to.dialect === 'messages' });
  expect((translated as { body: Buffer }).body.toString()).toContain('"field 7":1.0e2');
  // A later attempt needs the body again.
  expect(bytes.equals(before)).toBe(true);
});

test.each([
  ['a wrong field', { ...chat, n: 2 }],
  ['no messages', { ...chat, messages: 5 }],
])('returns the error for a request with %s', async (_name, body) => {
  let expected: unknown;
  try {
    translateRequest(bytesOf(body), target);
  } catch (error) {
    expected = error;
  }
  const error = await translateInThread('a', bytesOf(body), target);
  expect(error).toBeInstanceOf(UntranslatableError);
  expect({ ...(error as UntranslatableError), message: (error as UntranslatableError).message }).toEqual({
    ...(expected as UntranslatableError),
    message: (expected as UntranslatableError).message,
  });
});

test('translates requests with many values in the thread, but long texts on the event loop', () => {
  expect(isSlowToParse(bytesOf(chat))).toBe(true);
  expect(isSlowToParse(Buffer.from(`[${'[],'.repeat(30_000)}0]`))).toBe(true);
  expect(isSlowToParse(Buffer.from('a long text, with commas. '.repeat(12_000)))).toBe(false);
  expect(isSlowToParse(Buffer.from('"a":1,'.repeat(5_000)))).toBe(false);
  expect(isSlowToParse(Buffer.alloc(largeBytes, 'a'))).toBe(true);
});
