/** Tells whether two memories say the same word for word (specification 4.8 rule 7): by the column `words_sha256`. */
import { hash } from 'node:crypto';

/** The words of a text, whatever their case, the form of their letters, the spaces between them, and the full stop behind them. */
export function normalizeWords(text: string): string {
  return text
    .normalize('NFKC')
    .toLowerCase()
    .normalize('NFKC')
    .replace(/\s+/g, ' ')
    .replace(/^[ .]+|[ .。]+$/g, '');
}

/** Tells of words (`wordsOf`) whether one of the texts has three of four of them. Texts are folded once, for there may be hundreds on each side. */
export function createOverlapMatcher(texts: readonly string[]): (words: readonly string[]) => boolean {
  const termSets = texts.map((text) => new Set(splitWords(text)));
  return (words) => termSets.some((termSet) => words.filter((word) => termSet.has(word)).length >= 0.75 * words.length);
}

export function splitWords(text: string): readonly string[] {
  return normalizeWords(text).match(/[\p{L}\p{M}\p{N}]+/gu) ?? [text];
}

export function hashNormalizedText(text: string): Buffer {
  return hash('sha256', normalizeWords(text), 'buffer');
}
