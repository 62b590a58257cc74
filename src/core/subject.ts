/** A subject: the end user whom a call or a memory is about. Opaque to the gateway. */

const longestSubject = 256;

/** 1 to 256 characters (code points), no control characters, no half surrogate pairs (specification 2). */
export function isSubject(text: string): boolean {
  // A code point is at most two units: a body's `user` of megabytes is never taken apart.
  if (text === '' || text.length > 2 * longestSubject || /[\p{Cc}\p{Cs}]/u.test(text)) return false;
  return text.length <= longestSubject || [...text].length <= longestSubject;
}
