/**
 * A pass is what the browser of a key holder keeps instead of the key. It contains the prefix of the key and an expiry
 * time, signed with the stored hash of the key. Only somebody with the key can get a pass, and it can't be used to call
 * the API. Passes don't need storage, since every process can verify them.
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

/** Parses a pass without verifying it. Returns null if the text isn't a pass. */
export function parsePass(text: string): Pass | null {
  const [, prefix, endsAt] = /^([a-z0-9]{8})\.(\d{1,15})\.[\w-]{43}$/.exec(text) ?? [];
  return prefix === undefined ? null : { prefix, endsAt: Number(endsAt) };
}

/** Reports in constant time whether the pass was signed with this hash. */
export function isSignedPass(text: string, pass: Pass, secretHash: Buffer): boolean {
  const given = Buffer.from(text.slice(text.lastIndexOf('.') + 1), 'base64url');
  const expected = signatureOf(pass, secretHash);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function signatureOf({ prefix, endsAt }: Pass, secretHash: Buffer): Buffer {
  return createHmac('sha256', secretHash).update(`key pass ${prefix} ${endsAt}`).digest();
}
