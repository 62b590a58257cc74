/** A subject: the end user whom a call or a memory is about. Opaque to the gateway. */
import { createHash } from 'node:crypto';

const maxSubjectLength = 256;

/** 1 to 256 characters (code points), no control characters, no half surrogate pairs (specification 2). */
export function isSubject(text: string): boolean {
  // A code point is at most two units: a body's `user` of megabytes is never taken apart.
  if (text === '' || text.length > 2 * maxSubjectLength || /[\p{Cc}\p{Cs}]/u.test(text)) return false;
  return text.length <= maxSubjectLength || [...text].length <= maxSubjectLength;
}

/** SHA-256 of the subject, by which tables refer to a subject whose text is deleted or must not be readable. */
export function hashSubject(subject: string): Buffer {
  return createHash('sha256').update(subject, 'utf8').digest();
}

/** `hashSubject` in lower-case hexadecimal. */
export function hashSubjectHex(subject: string): string {
  return hashSubject(subject).toString('hex');
}
