/** SHA-256, which lets us find keys and texts without storing them. */
import { hash } from 'node:crypto';

/** Node takes 1.1 µs to return a digest as a buffer, and 0.3 µs as a string (measured). */
export function sha256(content: string | Buffer): Buffer {
  return Buffer.from(hash('sha256', content, 'binary'), 'binary');
}
