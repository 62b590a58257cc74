/** Text as the demo vendor sees it: tokens are four characters, streams go word by word, meaning is which words occur. */

const maxTermwiseCharacters = 65_536;
const chunkCharacters = 1_024;

/** A token is four characters, the rest counts as one. */
export function countTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

/** The text in the pieces of a stream: words with the space behind them; very long texts in slices of a KiB. */
export function* splitText(text: string): Iterable<string> {
  if (text.length <= maxTermwiseCharacters) {
    yield* text.match(/\s*\S+\s*|\s+/g) ?? [];
    return;
  }
  for (let start = 0; start < text.length; start += chunkCharacters) yield text.slice(start, start + chunkCharacters);
}

/** Tool arguments in pieces that no JSON parser can read alone. */
export function splitArguments(text: string): readonly string[] {
  return text.match(/[\s\S]{1,9}/gu) ?? [];
}

/** Lower-case words without punctuation. */
export function termsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** FNV-1a over UTF-16 units: 32 bits that are the same on every machine. */
export function hashText(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}

const fillerTerms = ['the', 'quick', 'brown', 'fox', 'jumps', 'over', 'a', 'lazy', 'dog', 'and', 'goes', 'on'];

/** A text of exactly this many words. */
export function longText(count: number): string {
  return Array.from({ length: count }, (_, index) => fillerTerms[index % fillerTerms.length]).join(' ');
}

/** A text of exactly this many bytes, all of them ASCII. */
export function bigText(bytes: number): string {
  const line = `${fillerTerms.join(' ')} `;
  return line.repeat(Math.ceil(bytes / line.length)).slice(0, bytes);
}
