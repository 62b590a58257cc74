/**
 * The browser of a key holder stores a pass instead of the key. The pass contains the key's prefix and an expiry time,
 * signed with the stored hash of the key. You need the key to get a pass, and you can't call the API with it. We don't
 * have to store passes, because every process can verify them.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

export interface Pass {
  readonly prefix: string;
  readonly endsAt: number;
}

export function signPass(pass: Pass, secretHash: Buffer): string {
  return `${pass.prefix}.${pass.endsAt}.${signatureOf(pass, secretHash).toString('base64url')}`;
}

/** Parses a pass without verifying it. Returns null if it isn't one. */
export function parsePass(text: string): Pass | null {
  const [, prefix, endsAt] = /^([a-z0-9]{8})\.(\d{1,15})\.[\w-]{43}$/.exec(text) ?? [];
  return prefix === undefined ? null : { prefix, endsAt: Number(endsAt) };
}

/** Checks in constant time whether a pass was signed with the hash of this key's secret. */
export function isSignedPass(text: string, pass: Pass, secretHash: Buffer): boolean {
  const given = Buffer.from(text.slice(text.lastIndexOf('.') + 1), 'base64url');
  const expected = signatureOf(pass, secretHash);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function signatureOf({ prefix, endsAt }: Pass, secretHash: Buffer): Buffer {
  return createHmac('sha256', secretHash).update(`key pass ${prefix} ${endsAt}`).digest();
}
