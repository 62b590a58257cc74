/** A subject is the end user that a call or a memory is about. The gateway treats it as an opaque string. */
import { sha256 } from './sha256.ts';

const maxSubjectLength = 256;

/**
 * Returns true if `text` is a valid subject, which means 1 to 256 code points without control characters and lone
 * surrogates.
 */
export function isSubject(text: string): boolean {
  // Check the length in code units first. A code point has at most two of them, so a `user` field of several megabytes
  // is rejected here before we split it into code points.
  if (text === '' || text.length > 2 * maxSubjectLength || /[\p{Cc}\p{Cs}]/u.test(text)) return false;
  return text.length <= maxSubjectLength || [...text].length <= maxSubjectLength;
}

/**
 * Returns the SHA-256 hash of the subject. Tables use it where the subject's text was deleted or must not be readable.
 */
export function hashSubject(subject: string): Buffer {
  return sha256(subject);
}

/** Returns `hashSubject` as lower-case hexadecimal. */
export function hashSubjectHex(subject: string): string {
  return hashSubject(subject).toString('hex');
}
