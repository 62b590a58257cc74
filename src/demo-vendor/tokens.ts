/** Splits text and counts tokens. A token is four characters, and a stream sends one word per event. */

const maxTermwiseCharacters = 65_536;
const chunkCharacters = 1_024;

/** Returns the number of tokens, at four characters each and rounded up. */
export function countTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

/**
 * Splits a text into the deltas of a stream. Each delta is a word with the white space after it, or a chunk of 1,024
 * characters if the text is very long.
 */
export function* splitText(text: string): Iterable<string> {
  if (text.length <= maxTermwiseCharacters) {
    yield* text.match(/\s*\S+\s*|\s+/g) ?? [];
    return;
  }
  for (let start = 0; start < text.length; start += chunkCharacters) yield text.slice(start, start + chunkCharacters);
}

/** Splits tool arguments into deltas that aren't valid JSON on their own. */
export function splitArguments(text: string): readonly string[] {
  return text.match(/[\s\S]{1,9}/gu) ?? [];
}

/**
 * Returns the words of a text in lower case and without punctuation. Long words are split, because V8 may use four
 * bytes per repetition, up to 64 MiB, and then throws a `RangeError`.
 */
export function termsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]{1,1024}/gu) ?? [];
}

/** Computes the 32-bit FNV-1a hash over UTF-16 code units, which is the same on every machine. */
export function hashText(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
