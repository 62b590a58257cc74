import { expect, test } from '@jest/globals';
import { stripSecretsFromStart } from '../../src/vendors/strip-secrets.ts';

test.each(['a', 'key-of-the-provider-', 'sk-proj-****', 'org-0123456789abcdef '])(
  'leaves no part of a secret in a text of a megabyte: %s',
  (before) => {
    const secret = 'Zq7'.repeat(100);
    const text = `${before}${secret}`.repeat(3_000);
    const stripped = stripSecretsFromStart(text, [secret]);
    expect(stripped).toContain('[key]');
    expect(stripped).not.toMatch(/Zq7|0123/);
  },
);

test('keeps the whole of a text with up to 64 Ki characters', () => {
  const text = 'x '.repeat(32 * 1024);
  expect(stripSecretsFromStart(text, ['secret'])).toBe(text);
});
