import { zstdCompressSync } from 'node:zlib';
import { expect, test } from '@jest/globals';
import { packText, unpackText } from '../../../src/memory/conversations/packed-text.ts';

const unpack = ({ content, isCompressed }: ReturnType<typeof packText>): string =>
  unpackText({ content: Buffer.from(content, 'hex'), isCompressed });

test.each([0, 1, 255, 256, 1_000, 8_191, 8_192, 8_193, 100_000])('packs and unpacks %d characters without changing them', (length) => {
  const text = 'The kettle is on, naïve 茶. '.repeat(length).slice(0, length);
  expect(unpack(packText(text))).toBe(text);
});

test('compresses a long text only if that makes it smaller', () => {
  const words = 'a line of code; '.repeat(100);
  expect(packText(words).content.length).toBeLessThan(words.length);
  const random = Array.from({ length: 400 }, (_, n) => String.fromCodePoint(0x4e00 + ((n * 7_919) % 20_000))).join('');
  expect(packText(random).content.length).toBeLessThanOrEqual(2 * Buffer.byteLength(random));
  expect(unpack(packText(random))).toBe(random);
});

test('can still read short texts that an earlier version compressed with zstd', () => {
  const text = 'the tea is oolong '.repeat(50);
  expect(unpackText({ content: zstdCompressSync(Buffer.from(text)), isCompressed: true })).toBe(text);
});
