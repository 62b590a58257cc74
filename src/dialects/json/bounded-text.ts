/** Collects the text of a streamed response for memory and estimates, in bounded memory. */

/** Characters; more than any model writes in one response. */
const maxTextLength = 8 * 1024 * 1024;

/** Appends `more` to `text`; returns `text` unchanged once it has reached the limit. */
export function appendBounded(text: string, more: string): string {
  return text.length < maxTextLength ? text + more : text;
}
