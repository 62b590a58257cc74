/**
 * Passes: what the browser of a key holder keeps instead of the key. A pass names a key and a time, signed with the stored hash of the key.
 * Nobody makes one without the key, it calls no route of the API, and it needs no storage: every process can check it.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

export interface Pass {
  readonly prefix: string;
  /** Epoch milliseconds. */
  readonly endsAt: number;
}

export function signPass(pass: Pass, secretHash: Buffer): string {
  return `${pass.prefix}.${pass.endsAt}.${signatureOf(pass, secretHash).toString('base64url')}`;
}

/** What the text claims. Null when it is no pass. */
export function parsePass(text: string): Pass | null {
  const [, prefix, endsAt] = /^([a-z0-9]{8})\.(\d{1,15})\.[\w-]{43}$/.exec(text) ?? [];
  return prefix === undefined ? null : { prefix, endsAt: Number(endsAt) };
}

/** Whether the pass was signed with this hash; in constant time. */
export function isSignedPass(text: string, pass: Pass, secretHash: Buffer): boolean {
  const given = Buffer.from(text.slice(text.lastIndexOf('.') + 1), 'base64url');
  const expected = signatureOf(pass, secretHash);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function signatureOf({ prefix, endsAt }: Pass, secretHash: Buffer): Buffer {
  return createHmac('sha256', secretHash).update(`key pass ${prefix} ${endsAt}`).digest();
}
