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

/** Three of four words of `text` stand in `known`. */
export function isMostlySaidBy(known: string, text: string): boolean {
  const knownWords = new Set(wordsOf(known));
  const words = wordsOf(text);
  return words.filter((word) => knownWords.has(word)).length >= 0.75 * words.length;
}

function wordsOf(text: string): readonly string[] {
  return foldWords(text).match(/[\p{L}\p{M}\p{N}]+/gu) ?? [text];
}

export function hashWords(text: string): Buffer {
  return hash('sha256', foldWords(text), 'buffer');
}
