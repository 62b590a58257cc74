/**
 * Matches more than 30 combining marks in a row. This includes the two half-width voicing marks, because normalization
 * turns them into combining marks.
 */
const longRun = /([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu;

/**
 * Truncates each run of combining marks to 30, which is more than any language needs (Unicode Standard Annex 15,
 * Stream-Safe Text Format). `String.prototype.normalize` sorts them in quadratic time, so 32,000 marks would take three
 * seconds.
 */
export function limitMarks(text: string): string {
  return text.replace(longRun, '$1');
}
