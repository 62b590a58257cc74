/** Normalizes texts so that memories can be compared (column `words_sha256`). */
import { limitMarks } from '../../core/combining-marks.ts';
import { sha256 } from '../../core/sha256.ts';
import { trim } from '../../core/trim.ts';

/** Folds case, compatibility forms and white space. Full stops at both ends are removed. */
export function normalizeWords(text: string): string {
  const folded = limitMarks(text).normalize('NFKC').toLowerCase().normalize('NFKC').replace(/\s+/g, ' ');
  return trim(folded, ' .。');
}

/** Returns a function that checks whether any of `texts` contains at least three quarters of the given words. */
export function createOverlapMatcher(texts: readonly string[]): (terms: readonly string[]) => boolean {
  const termSets = texts.map((text) => new Set(splitWords(text)));
  return (terms) => termSets.some((set) => terms.filter((term) => set.has(term)).length >= 0.75 * terms.length);
}

export function splitWords(text: string): readonly string[] {
  return normalizeWords(text).match(/[\p{L}\p{M}\p{N}]+/gu) ?? [text];
}

export function hashNormalizedText(text: string): Buffer {
  return sha256(normalizeWords(text));
}
