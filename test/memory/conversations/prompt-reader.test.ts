/** Tests that a prompt gives the same result if some of its pieces are cached as if it's read as a whole. */
import { expect, test } from '@jest/globals';
import { createKnownPrompts } from '../../../src/memory/conversations/known-prompts.ts';
import { type MaskedPrompt, readPrompt } from '../../../src/memory/conversations/masked-prompt.ts';
import { createPromptReader } from '../../../src/memory/conversations/prompt-reader.ts';
import { createCredentialMasker } from '../../../src/memory/text/credential-masker.ts';
import { bodiesOf, createRandom, longJson } from './sessions.ts';

/** Returns everything that is stored, including the values of getters. */
function contentsOf({ context, extras, parts, prefill }: MaskedPrompt): unknown {
  const ofExtra = ({ role, details, textHash, text, hash, parentHash, position }: MaskedPrompt['extras'][number]) => [
    ...[role, JSON.stringify(details), textHash, text, hash, parentHash, position],
  ];
  const ofPart = ({ role, message, messageHash, hash, parentHash }: MaskedPrompt['parts'][number]) => [
    role,
    message,
    messageHash,
    hash,
    parentHash,
  ];
  return { context: context.map(ofExtra), extras: extras.map(ofExtra), parts: parts.map(ofPart), prefill };
}

test.each(['chat', 'messages', 'responses'] as const)(
  'parses %s sessions incrementally with the same result as a complete parse',
  (route) => {
    const masker = createCredentialMasker();
    for (let seed = 1; seed <= 60; seed += 1) {
      const knownPrompts = createKnownPrompts();
      const reader = createPromptReader(masker, knownPrompts, 0);
      const random = createRandom(seed);
      for (const body of bodiesOf(random, route)) {
        const json = seed % 2 === 0 ? JSON.stringify(body) : longJson(body);
        const whole = contentsOf(readPrompt(route, JSON.parse(json), masker));
        const bytes = Buffer.from(json);
        // The request scans its body before the prompt is read. After a restart, it may not have done this in this
        // process.
        if (random(3) > 0) knownPrompts.scan('p', route, bytes);
        expect([seed, contentsOf(reader.readPrompt('p', route, bytes))]).toEqual([seed, whole]);
        expect(JSON.stringify(whole)).not.toContain('very-secret-token');
      }
    }
  },
);

test('masks credentials in a repeated history only once per project', () => {
  let characters = 0;
  const masker = createCredentialMasker((masked) => {
    characters += masked.length;
    return masked;
  });
  const reader = createPromptReader(masker, undefined, 0);
  const history = Array.from({ length: 30 }, (_, n) => ({ role: n % 2 === 0 ? 'user' : 'tool', content: `https://a.example/${n} ` }));
  const read = (project: string, messages: readonly object[]) => {
    characters = 0;
    reader.readPrompt(project, 'chat', Buffer.from(JSON.stringify({ tools: [], messages })));
    return characters;
  };
  const first = read('one', history);
  expect(first).toBeGreaterThan(500);
  const added = { role: 'user', content: 'https://b.example' };
  expect(read('one', [...history, added])).toBe(added.content.length);
  expect(read('two', history)).toBe(first);
});

test.each([
  ['blocks', { messages: Array.from({ length: 40 }, () => ({ role: 'user', content: Array.from({ length: 900 }, () => ({})) })) }],
  ['tools', { tools: Array.from({ length: 90_000 }, (_, n) => n), messages: [{ role: 'user', content: 'hi' }] }],
  ['system messages', { messages: Array.from({ length: 2_500 }, () => ({ role: 'system', content: '' })) }],
])('stores only part of a prompt with too many %s', (_title, body) => {
  let masked = 0;
  const { maskExtra, maskMessage } = createCredentialMasker();
  const counting = {
    maskMessage,
    maskExtra: (extra: Parameters<typeof maskExtra>[0]) => {
      masked += 1;
      return maskExtra(extra);
    },
  };
  const bytes = Buffer.from(JSON.stringify(body));
  const whole = contentsOf(readPrompt('chat', body, createCredentialMasker()));
  expect(contentsOf(createPromptReader(counting).readPrompt('p', 'chat', bytes))).toEqual(whole);
  expect(masked).toBeLessThanOrEqual(2 * 2_000);
});
