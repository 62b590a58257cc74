/** Secrets for sessions and sign-in links. They have 32 random bytes, and we only store their SHA-256. */
import { randomBytes } from 'node:crypto';
import { sha256 } from '../core/sha256.ts';

/** The secret has 43 characters of base64url. */
export function createSecret(): { readonly secret: string; readonly hash: Buffer } {
  const secret = randomBytes(32).toString('base64url');
  return { secret, hash: sha256(secret) };
}

/** Checks the form of a secret, which saves a query for malformed ones. */
export function isSecret(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}
