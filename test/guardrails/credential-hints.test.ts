/** Hints miss no credential: with them the search finds what it finds in every text without them. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type CredentialHints, findHints } from '../../src/guardrails/credential-hints.ts';
import { passwordNames, prefixed, tokenNames } from '../../src/guardrails/credential-kinds.ts';
import { findCredentials } from '../../src/guardrails/credentials.ts';
import { isExhaustive } from '../support/exhaustive.ts';

const allHints = (text: string): CredentialHints => ({
  terms: [[0, text.length]],
  ...{ authorization: true, assigned: true, connection: true, option: true, address: true, signature: true, privateKey: true },
});

function expectSameResult(text: string): void {
  expect({ text, found: findCredentials(text) }).toEqual({ text, found: findCredentials(text, allHints(text)) });
}

const numRuns = isExhaustive ? 50_000 : 200;
const surrounding = fc.constantFrom(
  '',
  ' ',
  '\n',
  '\\n',
  '\\u0041',
  '"',
  '-',
  '_',
  'a',
  '7',
  '/',
  '.',
  '=',
  ':',
  'é',
  '是',
  '[credential]',
);

test.each(Object.entries(prefixed))('every credential of kind %s has its hint, between any characters', (_kind, pattern) => {
  // Assertions are about the next character, which fast-check does not generate.
  const credential = fc.stringMatching(new RegExp(`^${pattern.replaceAll(/\(\?![^)]*\)/g, '').replaceAll(/\{(\d+),\}/g, '{$1,80}')}$`));
  fc.assert(
    fc.property(surrounding, credential, surrounding, (before, secret, after) => expectSameResult(before + secret + after)),
    { numRuns: isExhaustive ? 5_000 : 30 },
  );
});

const names = [...passwordNames, ...tokenNames].map((name) => name.replaceAll(/\[.*?\]\?/g, '-'));

test('texts of names, separators, values and frames give the same credentials with and without hints', () => {
  const name = fc.tuple(fc.constantFrom(...names), fc.constantFrom('lower', 'upper', 'folded')).map(([text, form]) => {
    if (form === 'upper') return text.toUpperCase();
    // Letters that a search without regard to case takes for s and k.
    return form === 'folded' ? text.replaceAll('s', 'ſ').replaceAll('k', '\u212a') : text;
  });
  const frame = fc.constantFrom(
    ...[
      ': ',
      '=',
      '==',
      '=>',
      ' := ',
      '：',
      '＝',
      '%3D',
      '%3a',
      '是',
      'は',
      '는',
      ' is ',
      ' ist ',
      ' lautet ',
      ' è ',
      ' É ',
      ' ',
      '\t',
      '\n',
    ],
    ...[
      '"',
      "'",
      '`',
      '\\"',
      '\\\\',
      ']',
      '[',
      ';',
      ',',
      '&',
      '?',
      '@',
      '/',
      '-',
      '--',
      '-u ada:',
      '--user=ada:',
      ' --db-password ',
      '--token ',
      'Bearer ',
      'basic\t',
    ],
    ...['://', 'https://', 'https://hooks.slack.com/services/', '://ada:', '?sig=', '&sig=', 'a=b ', 'a=b;', 'pwd=', 'Password='],
    ...['-----BEGIN PRIVATE KEY-----', '-----END PRIVATE KEY-----', 'sk-', 'sk-ant-', 'ghp_', 'xoxb-', 'AKIA', 'eyJ'],
  );
  const value = fc.constantFrom(
    ...[
      'hunter2',
      'hunter2x9',
      'abcdefgh',
      'correct horse 1',
      'a1b2c3d4e5f6g7h8',
      'a1b2c3d4'.repeat(6),
      'abcdefghij'.repeat(5),
      '🔑',
      'ключ',
    ],
    ...['A7gQXLh2HdVugxvEWeq3vEzN', 'wJalrXUtnFEMIKAMDENGbPxRfiCYabcdefghEKEY', '<key>', '****', 'x', '1', 'a+b/c~d', 'Tr0ub4dor&3'],
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(name, frame, frame, value, fc.string({ maxLength: 3 })), { maxLength: 12 }), (pieces) =>
      expectSameResult(pieces.join('')),
    ),
    { numRuns: numRuns * 10 },
  );
});

test('a name is recognised by its end in every form that a search without regard to case accepts', () => {
  for (const name of names) {
    for (const at of [name.length - 2, name.length - 1]) {
      const same = new RegExp(`^${name.charAt(at)}$`, 'iu');
      for (let code = 0; code <= 0xffff; code += 1) {
        const character = String.fromCharCode(code);
        if (same.test(character)) expectSameResult(`the ${name.slice(0, at)}${character}${name.slice(at + 1)}: "hunter2x9"`);
      }
    }
  }
});

test('ordinary text has no hints', () => {
  const prose =
    'The key is in the box, which is what the token of 2026-11-22 (see page 12) says: nothing secret — or “so they say”. '.repeat(20);
  expect(findHints(prose)).toBeNull();
  expect(findHints(`${prose}The token: abc123def`)).toMatchObject({ assigned: true, option: false, terms: [] });
});

test('many names before values without secrets cost no more than the search, which then decides', () => {
  const names = '密码是什么？'.repeat(2_000);
  expect(findHints(names)).toMatchObject({ assigned: true });
  expect(findCredentials(`${names}密码是hunter22x`)).toHaveLength(1);
});
