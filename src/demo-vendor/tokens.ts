/** Splits text and counts tokens. Four characters are a token, and each event of a stream contains a word. */

const maxTermwiseCharacters = 65_536;
const chunkCharacters = 1_024;

/** Estimates one token per four characters, rounded up. */
export function countTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

/**
 * Splits a text into the deltas of a stream. A delta is a word and the white space after it. In very long texts, it's a
 * chunk of 1,024 characters.
 */
export function* splitText(text: string): Iterable<string> {
  if (text.length <= maxTermwiseCharacters) {
    yield* text.match(/\s*\S+\s*|\s+/g) ?? [];
    return;
  }
  for (let start = 0; start < text.length; start += chunkCharacters) yield text.slice(start, start + chunkCharacters);
}

/** Splits tool arguments into deltas, so that none of them is valid JSON on its own. */
export function splitArguments(text: string): readonly string[] {
  return text.match(/[\s\S]{1,9}/gu) ?? [];
}

/**
 * Returns the words of a text in lower case, without punctuation. Long words are split, because V8 can use four bytes
 * per repetition, and throws a `RangeError` at 64 MiB.
 */
export function termsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]{1,1024}/gu) ?? [];
}

/** Computes the 32-bit FNV-1a hash of the UTF-16 code units. It's the same on every machine. */
export function hashText(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
