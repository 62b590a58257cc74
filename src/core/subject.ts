/** A subject is the end user whom a call or a memory is about. The gateway treats it as an opaque string. */
import { sha256 } from './sha256.ts';

const maxSubjectLength = 256;

/**
 * Reports whether `text` is a valid subject, i.e. 1 to 256 code points without control characters and lone surrogates.
 */
export function isSubject(text: string): boolean {
  // A code point has at most two code units, so this keeps us from splitting a `user` of several megabytes into code
  // points.
  if (text === '' || text.length > 2 * maxSubjectLength || /[\p{Cc}\p{Cs}]/u.test(text)) return false;
  return text.length <= maxSubjectLength || [...text].length <= maxSubjectLength;
}

/**
 * Returns the SHA-256 of the subject. Tables use it to refer to a subject if its text was deleted or must not be
 * readable.
 */
export function hashSubject(subject: string): Buffer {
  return sha256(subject);
}

/** Returns `hashSubject` in lower-case hexadecimal. */
export function hashSubjectHex(subject: string): string {
  return hashSubject(subject).toString('hex');
}
