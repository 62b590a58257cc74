/** Computes SHA-256 hashes. We use them to look up keys and texts without storing them. */
import { hash } from 'node:crypto';

/**
 * We let Node create a binary string first, which takes 0.3 µs. Hashing to a buffer directly takes 1.1 µs (measured).
 */
export function sha256(content: string | Buffer): Buffer {
  return Buffer.from(hash('sha256', content, 'binary'), 'binary');
}
