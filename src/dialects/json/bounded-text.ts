/** Collects the text of a streamed response for memory and estimates, in bounded memory. */

/** The limit in characters. No model writes this much in one response. */
const maxTextLength = 8 * 1024 * 1024;

/** Appends `more` to `text`, unless `text` has already reached the limit. */
export function appendBounded(text: string, more: string): string {
  return text.length < maxTextLength ? text + more : text;
}
