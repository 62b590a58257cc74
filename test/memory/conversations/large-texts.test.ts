/** Tests that the thread finds the same things in a large body as the event loop would. */
import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { expect, test } from '@jest/globals';
import type { PromptRoute } from '../../../src/core/call.ts';
import { factsOf } from '../../../src/dialects/json/body-facts.ts';
import { inspectBody } from '../../../src/dialects/routes/inspect-body.ts';
import { findLargePrompt, readLargePrompts, receiveLargeBody } from '../../../src/memory/conversations/large-texts.ts';
import { addResponse, readPrompt, toPlainPrompt } from '../../../src/memory/conversations/masked-prompt.ts';
import { createCredentialMasker } from '../../../src/memory/text/credential-masker.ts';
import { settledCall } from '../../journal/calls.ts';

const masker = createCredentialMasker();
const image = randomBytes(900_000).toString('base64');
const secret = `ghp_${'a1B2'.repeat(9)}`;
const text = `the token is ${secret}. `.repeat(10) + 'an ordinary sentence. '.repeat(60_000);
const response = { text: ' and more', toolCalls: [] };

const bodies: readonly [string, PromptRoute, object][] = [
  [
    'text with credentials',
    'chat',
    {
      user: 'ada',
      messages: [
        { role: 'system', content: 'be kind' },
        { role: 'user', content: text },
      ],
    },
  ],
  [
    'an image and a file by reference',
    'messages',
    {
      max_tokens: 9,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: `iVBORw0KGgo${image}` } },
            { type: 'document', source: { type: 'url', url: 'https://files.example/a.pdf' }, cache_control: { type: 'ephemeral' } },
            { type: 'text', text: 'what is this?' },
          ],
        },
        { role: 'assistant', content: `It is ${secret}` },
      ],
    },
  ],
  ['items', 'responses', { input: [{ role: 'user', content: [{ type: 'input_text', text }] }, { id: 'msg_1' }] }],
];

test.each(bodies)('parses a large body with %s the same way as a small one', async (_title, route, value) => {
  const json = JSON.stringify(value);
  const use = { route, isCached: true, hasRules: true };
  const { body, spans } = await receiveLargeBody('project', Buffer.from(json), { ...use, isCompletion: false });
  expect(body.toString() === json).toBe(true);
  const expected = inspectBody(Buffer.from(json), use);
  expect(spans).toEqual(expected.spans);
  expect(isDeepStrictEqual(factsOf(body), expected.facts)).toBe(true);
  const prompt = findLargePrompt({ request: body, response });
  const expectedPrompt = toPlainPrompt(readPrompt(route, value, masker));
  expect(isDeepStrictEqual(prompt, expectedPrompt)).toBe(true);
  expect(JSON.stringify(prompt?.parts)).not.toContain(secret);

  // A call that was read from the journal, e.g. because its process died.
  const { metadata, ...settled } = settledCall();
  const content = { request: Buffer.from(json), response };
  await readLargePrompts([{ ...settled, metadata: { ...metadata, route }, content }]);
  expect(isDeepStrictEqual(findLargePrompt(content), expectedPrompt)).toBe(true);
  expect(content.request.toString() === json).toBe(true);
});

test('appends the response to the assistant message that it continues', () => {
  const messages = [
    { role: 'user', content: 'continue' },
    { role: 'assistant', content: 'once' },
  ];
  const read = addResponse(readPrompt('messages', { messages }, masker), response, masker);
  expect(read.parts.map(({ message }) => message.text)).toEqual(['continue', 'once and more']);
  const whole = readPrompt('messages', { messages: [messages[0], { role: 'assistant', content: 'once and more' }] }, masker);
  expect(read.parts.at(-1)?.hash).toBe(whole.parts.at(-1)?.hash);
});
