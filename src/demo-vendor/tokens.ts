/** Splits text and counts tokens. A token has four characters, and an event of a stream has one word. */

const maxTermwiseCharacters = 65_536;
const chunkCharacters = 1_024;

export function countTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

/**
 * Splits a text into the deltas of a stream. A delta is a word with the white space after it, or 1,024 characters if
 * the text is very long.
 */
export function* splitText(text: string): Iterable<string> {
  if (text.length <= maxTermwiseCharacters) {
    yield* text.match(/\s*\S+\s*|\s+/g) ?? [];
    return;
  }
  for (let start = 0; start < text.length; start += chunkCharacters) yield text.slice(start, start + chunkCharacters);
}

/**
 * Splits the arguments of a tool call into deltas of a few characters, so clients have to join them before they can
 * parse the JSON.
 */
export function splitArguments(text: string): readonly string[] {
  return text.match(/[\s\S]{1,9}/gu) ?? [];
}

/**
 * Returns the words of a text in lower case, without punctuation. We split words of more than 1,024 characters. Without
 * a limit, V8 can use four bytes per character and throws a `RangeError` when that reaches 64 MiB.
 */
export function termsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]{1,1024}/gu) ?? [];
}

/** Computes the 32-bit FNV-1a hash of the UTF-16 code units, which is the same on every machine. */
export function hashText(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
