/** A subject: the end user whom a call or a memory is about. Opaque to the gateway. */
import { sha256 } from './sha256.ts';

const maxSubjectLength = 256;

/** Whether `text` is a valid subject: 1 to 256 code points without control characters and lone surrogates. */
export function isSubject(text: string): boolean {
  // A code point has at most two units, so a `user` of megabytes is never split into its code points.
  if (text === '' || text.length > 2 * maxSubjectLength || /[\p{Cc}\p{Cs}]/u.test(text)) return false;
  return text.length <= maxSubjectLength || [...text].length <= maxSubjectLength;
}

/** SHA-256 of the subject, by which tables refer to a subject whose text is deleted or must not be readable. */
export function hashSubject(subject: string): Buffer {
  return sha256(subject);
}

/** `hashSubject` in lower-case hexadecimal. */
export function hashSubjectHex(subject: string): string {
  return hashSubject(subject).toString('hex');
}
