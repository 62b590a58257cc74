/**
 * The browser of a key holder stores a pass instead of the key. The pass contains the key's prefix and an expiry time,
 * signed with the stored hash of the key. You need the key to get a pass, and you can't call the API with it. We don't
 * have to store passes, because every process can verify them.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

export interface Pass {
  readonly prefix: string;
  /** Milliseconds since the epoch. */
  readonly endsAt: number;
}

export function signPass(pass: Pass, secretHash: Buffer): string {
  return `${pass.prefix}.${pass.endsAt}.${signatureOf(pass, secretHash).toString('base64url')}`;
}

/** Splits a pass into its parts, without verifying it. Null if it isn't a pass. */
export function parsePass(text: string): Pass | null {
  const [, prefix, endsAt] = /^([a-z0-9]{8})\.(\d{1,15})\.[\w-]{43}$/.exec(text) ?? [];
  return prefix === undefined ? null : { prefix, endsAt: Number(endsAt) };
}

/** Checks whether the pass was signed with this hash of the key's secret. The comparison takes constant time. */
export function isSignedPass(text: string, pass: Pass, secretHash: Buffer): boolean {
  const given = Buffer.from(text.slice(text.lastIndexOf('.') + 1), 'base64url');
  const expected = signatureOf(pass, secretHash);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function signatureOf({ prefix, endsAt }: Pass, secretHash: Buffer): Buffer {
  return createHmac('sha256', secretHash).update(`key pass ${prefix} ${endsAt}`).digest();
}
