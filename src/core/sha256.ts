/** Computes SHA-256 hashes. We use them to look up keys and texts without storing them. */
import { hash } from 'node:crypto';

/** Goes through a binary string, which takes Node 0.3 µs. Hashing to a buffer takes 1.1 µs (measured). */
export function sha256(content: string | Buffer): Buffer {
  return Buffer.from(hash('sha256', content, 'binary'), 'binary');
}
