/**
 * Matches runs of more than 30 combining marks. The two half-width voicing marks count too, because normalization turns
 * them into combining marks.
 */
const longRun = /([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu;

/**
 * Truncates each run of combining marks to 30. No language uses more (Unicode Standard Annex 15, Stream-Safe Text
 * Format), and `String.prototype.normalize` sorts them in quadratic time, so 32,000 marks take three seconds.
 */
export function limitMarks(text: string): string {
  return text.replace(longRun, '$1');
}
