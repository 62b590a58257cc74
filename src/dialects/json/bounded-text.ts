/** Text of a streamed answer, collected for memory and for estimates: bounded, however long the stream is. */

/** Characters; far beyond what any model writes in one answer. */
const maxTextLength = 8 * 1024 * 1024;

/** `text` with `more` behind it; what goes beyond the bound is left out. */
export function appendBounded(text: string, more: string): string {
  return text.length < maxTextLength ? text + more : text;
}
