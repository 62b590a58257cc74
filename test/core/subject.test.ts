import { describe, expect, test } from '@jest/globals';
import { hashSubject, hashSubjectHex, isSubject } from '../../src/core/subject.ts';

describe('isSubject', () => {
  test.each<[string, string, boolean]>([
    ['one character', 'u', true],
    ['spaces and signs', 'user 42: a/b@c', true],
    ['256 characters', 'x'.repeat(256), true],
    ['257 characters', 'x'.repeat(257), false],
    ['256 characters of two units', '😀'.repeat(256), true],
    ['257 characters of two units', '😀'.repeat(257), false],
    ['255 of two units and one of one', `${'😀'.repeat(255)}x`, true],
    ['nothing', '', false],
    ['a tab', 'a\tb', false],
    ['a line feed', 'a\n', false],
    ['U+0000', '\u0000', false],
    ['delete', 'a\u007f', false],
    ['a C1 control character', 'a\u0085', false],
    ['a lone high surrogate', 'a\ud83d', false],
    ['a lone low surrogate', '\ude00a', false],
    ['a line separator', 'a\u2028', true],
    ['a joined character', '👩‍👩‍👧', true],
    ['the replacement character', '\ufffd', true],
  ])('%s: %p is %p', (_name, text, expected) => {
    expect(isSubject(text)).toBe(expected);
  });

  test('rejects a huge subject without splitting it into characters', () => {
    expect(isSubject('😀'.repeat(8_000_000))).toBe(false);
  });
});

test('hashes the UTF-8 bytes of a subject with SHA-256', () => {
  expect(hashSubjectHex('é')).toBe('4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c');
  expect(hashSubject('é').toString('hex')).toBe(hashSubjectHex('é'));
});
