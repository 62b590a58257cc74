/** Half-width voicing marks become combining marks when they are normalized. */
const longRun = /([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu;

/**
 * Removes all but the first 30 of the combining marks in a row, which no language exceeds (Unicode Standard Annex 15, Stream-Safe Text Format).
 * `String.prototype.normalize` sorts them in quadratic time: 32,000 of them take three seconds.
 */
export function limitMarks(text: string): string {
  return text.replace(longRun, '$1');
}
