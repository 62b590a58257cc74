/** Includes the half-width voicing marks, because normalization turns them into combining marks. */
const longRun = /([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gu;

/**
 * Keeps only the first 30 of consecutive combining marks. No language uses more (Unicode Standard Annex 15,
 * Stream-Safe Text Format), and `String.prototype.normalize` sorts them in quadratic time: 32,000 marks take three
 * seconds.
 */
export function limitMarks(text: string): string {
  return text.replace(longRun, '$1');
}
