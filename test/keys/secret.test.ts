import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { generateSecret, hashSecret, matchesHash, parseSecret } from '../../src/keys/secret.ts';

describe('a virtual key', () => {
  test('generates virtual keys in the documented format', () => {
    const { secret, prefix } = generateSecret();
    expect(secret).toMatch(/^sk-gw-[a-z0-9]{8}-[0-9A-Za-z]{49}$/);
    expect(secret.slice(6, 14)).toBe(prefix);
    expect(parseSecret(secret)).toEqual({ prefix });
  });

  test('generates unique keys', () => {
    const made = Array.from({ length: 200 }, generateSecret);
    expect(new Set(made.map(({ secret }) => secret)).size).toBe(200);
    expect(new Set(made.map(({ prefix }) => prefix)).size).toBe(200);
  });

  test('the checksum of a virtual key detects a single changed character', () => {
    const { secret } = generateSecret();
    const position = fc.integer({ min: 0, max: secret.length - 1 });
    fc.assert(
      fc.property(position, fc.constantFrom(...'0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_ '), (at, character) => {
        fc.pre(secret[at] !== character);
        expect(parseSecret(secret.slice(0, at) + character + secret.slice(at + 1))).toBeNull();
      }),
    );
  });

  test.each(['', 'sk-gw-', 'sk-abc', `sk-gw-abcdefgh-${'0'.repeat(49)}`, `sk-gw-ABCDEFGH-${'0'.repeat(49)}`])(
    'rejects the malformed virtual key %j',
    (text) => {
      expect(parseSecret(text)).toBeNull();
    },
  );

  test('rejects a virtual key with leading or trailing characters', () => {
    const { secret } = generateSecret();
    for (const text of [` ${secret}`, `${secret} `, `${secret}\n`, `${secret}0`]) expect(parseSecret(text)).toBeNull();
  });

  test('a virtual key matches only its own hash', () => {
    const [one, other] = [generateSecret().secret, generateSecret().secret];
    expect(matchesHash(one, hashSecret(one))).toBe(true);
    expect(matchesHash(other, hashSecret(one))).toBe(false);
    expect(matchesHash(one, Buffer.alloc(0))).toBe(false);
    expect(hashSecret('abc').toString('hex')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  });
});
