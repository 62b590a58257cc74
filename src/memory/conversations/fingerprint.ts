/** Fingerprints of bytes, so that we recognize prompts without keeping their text. */
import { createCipheriv, createSecretKey, hash, randomBytes } from 'node:crypto';

const key = createSecretKey(randomBytes(16));
const sameNonce = Buffer.alloc(12);

/** For inputs up to this size, SHA-256 is about as fast as the GMAC that we use for longer ones. */
const maxHashedBytes = 8_192;

/**
 * Returns a fingerprint of these bytes. It's only meaningful within this process, because it may depend on a random
 * key.
 *
 * For long inputs we use a GMAC. That takes 8 µs for 200 kB, compared to 100 µs for SHA-256. Fingerprints never leave
 * the process, so without the key nobody can construct two texts that have the same one. And because we don't
 * authenticate anything, it's fine to always use the same nonce.
 */
export function fingerprintOf(body: Buffer, start: number, end: number): string {
  const bytes = body.subarray(start, end);
  if (bytes.length <= maxHashedBytes) return hash('sha256', bytes, 'base64');
  const mac = createCipheriv('aes-128-gcm', key, sameNonce).setAAD(bytes);
  mac.final();
  return mac.getAuthTag().toString('latin1');
}
