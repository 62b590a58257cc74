/** Computes SHA-256 hashes. We use them to look up keys and texts without storing them. */
import { hash } from 'node:crypto';

/**
 * We get the hash as a binary string and convert that to a buffer, because it takes 0.3 µs instead of the 1.1 µs for
 * getting a buffer directly (measured).
 */
export function sha256(content: string | Buffer): Buffer {
  return Buffer.from(hash('sha256', content, 'binary'), 'binary');
}
