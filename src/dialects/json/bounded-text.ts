/** Collects the text of a streamed response, up to a maximum length. We need it for memory and for estimates. */

/** The maximum number of characters to collect. No model writes this much in one response. */
export const maxTextLength = 8 * 1024 * 1024;

export function appendBounded(text: string, more: string): string {
  return text.length < maxTextLength ? text + more : text;
}
