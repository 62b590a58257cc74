/** Collects the text of a streamed response, up to a maximum length. We need it for memory and for estimates. */

/** The maximum number of characters that we collect. No model writes this much in one response. */
const maxTextLength = 8 * 1024 * 1024;

/** Appends `more`, unless the text is at its maximum length already. */
export function appendBounded(text: string, more: string): string {
  return text.length < maxTextLength ? text + more : text;
}
