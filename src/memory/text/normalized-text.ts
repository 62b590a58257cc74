/** Tells whether two memories say the same word for word (specification 4.8 rule 7): by the column `words_sha256`. */
import { hash } from 'node:crypto';

/** The words of a text, whatever their case, the form of their letters, the spaces between them, and the full stop behind them. */
export function foldWords(text: string): string {
  return text
    .normalize('NFKC')
    .toLowerCase()
    .normalize('NFKC')
    .replace(/\s+/g, ' ')
    .replace(/^[ .]+|[ .。]+$/g, '');
}

/** Tells of words (`wordsOf`) whether one of the texts has three of four of them. Texts are folded once, for there may be hundreds on each side. */
export function createSaidBefore(texts: readonly string[]): (words: readonly string[]) => boolean {
  const known = texts.map((text) => new Set(wordsOf(text)));
  return (words) => known.some((said) => words.filter((word) => said.has(word)).length >= 0.75 * words.length);
}

export function wordsOf(text: string): readonly string[] {
  return foldWords(text).match(/[\p{L}\p{M}\p{N}]+/gu) ?? [text];
}

export function hashWords(text: string): Buffer {
  return hash('sha256', foldWords(text), 'buffer');
}
