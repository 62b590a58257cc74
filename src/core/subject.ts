/** A subject is the end user that a call or a memory is about. The gateway treats it as an opaque string. */
import { sha256 } from './sha256.ts';

const maxSubjectLength = 256;

/** Valid subjects have 1 to 256 code points, and contain neither control characters nor lone surrogates. */
export function isSubject(text: string): boolean {
  // Check the number of code units first, because splitting into code points is slow for a `user` field of several
  // megabytes. A code point has at most two code units.
  if (text === '' || text.length > 2 * maxSubjectLength || /[\p{Cc}\p{Cs}]/u.test(text)) return false;
  return text.length <= maxSubjectLength || [...text].length <= maxSubjectLength;
}

/**
 * Returns the SHA-256 hash of the subject. We store it in tables from which the subject's text has been deleted, or
 * where it shouldn't be readable.
 */
export function hashSubject(subject: string): Buffer {
  return sha256(subject);
}

export function hashSubjectHex(subject: string): string {
  return hashSubject(subject).toString('hex');
}
