/**
 * Virtual keys have the format `sk-gw-<prefix>-<secret>`. The prefix (8 of `[a-z0-9]`) is public and identifies the
 * key. The secret has 43 base62 characters (256 bits), followed by a checksum with 6 characters, which is the CRC-32 of
 * everything before it. Thanks to the checksum, we can reject made-up keys without a database query, and secret
 * scanners can verify a match. We only store the SHA-256 of the key. A slow hash wouldn't add any security, because the
 * secret has 256 random bits.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { sha256 } from '../core/sha256.ts';

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const base36 = '0123456789abcdefghijklmnopqrstuvwxyz';
const secretLength = 43;
const checksumLength = 6;
const secretPattern = /^sk-gw-([a-z0-9]{8})-[0-9A-Za-z]{49}$/;

export function generateSecret(): { secret: string; prefix: string } {
  const prefix = randomText(base36, 8);
  const start = `sk-gw-${prefix}-${randomText(base62, secretLength)}`;
  return { secret: start + checksumOf(start), prefix };
}

/** Returns null if the format or the checksum is wrong. */
export function parseSecret(text: string): { prefix: string } | null {
  const prefix = secretPattern.exec(text)?.[1];
  if (prefix === undefined) return null;
  return checksumOf(text.slice(0, -checksumLength)) === text.slice(-checksumLength) ? { prefix } : null;
}

export function hashSecret(text: string): Buffer {
  return sha256(text);
}

/** Compares a key with its stored hash in constant time. */
export function matchesHash(text: string, expected: Buffer): boolean {
  const actual = hashSecret(text);
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}

/** Encodes the CRC-32 of the text in base62. Six digits are enough, since 62^6 > 2^32. */
function checksumOf(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let position = 0; position < checksumLength; position += 1) {
    digits = base62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/**
 * Returns uniformly random characters. Bytes at the end of the range are discarded, because they would favour the
 * beginning of the alphabet.
 */
function randomText(alphabet: string, length: number): string {
  const limit = 256 - (256 % alphabet.length);
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < limit && text.length < length) text += alphabet.charAt(byte % alphabet.length);
    }
  }
  return text;
}
