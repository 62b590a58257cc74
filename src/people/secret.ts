/** Secrets for sessions and sign-in links. They have 32 random bytes, and we only store their SHA-256. */
import { createHash, randomBytes } from 'node:crypto';

export interface NewSecret {
  /** Random, with 43 characters of base64url. */
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

/** Checks the form of a secret, which saves a query for malformed ones. */
export function isSecret(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}
