/** Splits and counts text: a token is four characters, a stream sends one term per event, and terms stand in for meaning. */

const maxTermwiseCharacters = 65_536;
const chunkCharacters = 1_024;

/** Returns the number of tokens: four characters each, rounded up. */
export function countTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

/** Splits a text into the deltas of a stream: terms with the white space after them; very long texts in chunks of a KiB. */
export function* splitText(text: string): Iterable<string> {
  if (text.length <= maxTermwiseCharacters) {
    yield* text.match(/\s*\S+\s*|\s+/g) ?? [];
    return;
  }
  for (let start = 0; start < text.length; start += chunkCharacters) yield text.slice(start, start + chunkCharacters);
}

/** Splits tool arguments into deltas that are not valid JSON on their own. */
export function splitArguments(text: string): readonly string[] {
  return text.match(/[\s\S]{1,9}/gu) ?? [];
}

/**
 * Returns the lower-case terms of a text without punctuation, longer ones in parts: V8 may keep four bytes per repetition, up to 64 MiB, and
 * then throws a `RangeError`.
 */
export function termsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]{1,1024}/gu) ?? [];
}

/** Computes the 32-bit FNV-1a hash over UTF-16 units; the same on every machine. */
export function hashText(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
