/** Secrets of sessions and sign-in links: 32 random bytes, of which only the SHA-256 is stored. */
import { createHash, randomBytes } from 'node:crypto';

export interface NewSecret {
  /** 43 characters of base64url. */
  readonly secret: string;
  readonly hash: Buffer;
}

export function createSecret(): NewSecret {
  const secret = randomBytes(32).toString('base64url');
  return { secret, hash: hashSecret(secret) };
}

export function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** Whether the text has the form of a secret, so that other input needs no query. */
export function isSecret(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}
