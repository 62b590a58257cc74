/** Creates texts of a given length. */

const fillerTerms = ['the', 'quick', 'brown', 'fox', 'jumps', 'over', 'a', 'lazy', 'dog', 'and', 'goes', 'on'];

/** Returns a text that has exactly this many words. */
export function longText(count: number): string {
  return Array.from({ length: count }, (_, index) => fillerTerms[index % fillerTerms.length]).join(' ');
}

/** Returns an ASCII text that has exactly this many bytes. */
export function bigText(bytes: number): string {
  const line = `${fillerTerms.join(' ')} `;
  return line.repeat(Math.ceil(bytes / line.length)).slice(0, bytes);
}
