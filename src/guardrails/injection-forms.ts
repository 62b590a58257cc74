/** Normalizes texts in several ways before we compare them with phrases. Each step is a single pass. */
import { limitMarks } from '../core/combining-marks.ts';

/** Zero-width and direction characters, variation selectors and tags, which don't change the meaning of a text. */
export const ignorable = /\p{Default_Ignorable_Code_Point}+/gu;

/**
 * Matches characters that stand for words or units, such as `ﷺ` or `㌔`. Compatibility forms would replace each of them
 * by up to 18 letters, which are never part of an injection.
 */
const wordCharacters = /[\u3300-\u3357\ufdfa\ufdfb]/g;

/**
 * Converts a text to lower case with single spaces. Replaces compatibility forms such as full-width or mathematical
 * letters, and removes accents from Latin, Greek and Arabic letters. Paragraphs are kept.
 */
export function normalizeText(text: string): string {
  return limitMarks(text.replace(ignorable, '').replace(wordCharacters, ' '))
    .normalize('NFKC')
    .toLowerCase()
    .normalize('NFD')
    .replace(/(?<=[\p{Script=Latin}\p{Script=Greek}\p{Script=Arabic}])\p{M}{1,64}/gu, '')
    .normalize('NFC')
    .replace(/[\u2018\u2019\u02bc`\u00b4]/g, "'")
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/([^\n])\n(?!\n)(?=[\p{L}\d])(?!(?:system|developer|human|assistant)\b)/gu, '$1 ');
}

/**
 * Characters that imitate Latin letters. Each entry begins with the Latin letter, followed by the digits, signs and
 * letters of other scripts that look like it.
 */
const imitations = 'a4аӓαɑ@ bвβ cсϲ dԁδ e3еёҽεѐ gԍɡց hһнհ i1іїιıɩɪ!| jјȷ kкκ lӏ mм nηɴո o0оӧοσօ pрρ qԛ rгʀ s5ѕꜱ$ t7тτ uμυս vѵν wԝω xхχ yу';
const imitatedLetters = new Map(imitations.split(' ').flatMap(([letter = '', ...signs]) => signs.map((sign) => [sign, letter] as const)));

/** Matches words that may contain lookalikes. They're only replaced in words that also contain Latin letters. */
const mixedWord = /[\p{L}\d@$!|]+/gu;

export function foldLookalikes(text: string): string {
  return text.replace(mixedWord, (word) => {
    const isMixed = /\p{Script=Latin}/u.test(word) && /[^a-z]/.test(word);
    return isMixed ? word.replace(/[^a-z]/gu, (sign) => imitatedLetters.get(sign) ?? sign) : word;
  });
}

export function joinMarked(text: string): string {
  return text
    .replace(/<\/?[a-z][^<>]{0,100}>/g, '')
    .replace(/[*~`]{1,3}(?=\p{L})|(?<=\p{L})[*~`]{1,3}/gu, '')
    .replace(/(?<=\p{L})[._/+-]{1,3}(?=\p{L})/gu, ' ')
    .replace(/ {2,}/g, ' ');
}

/**
 * Joins text that is spelled with spaces or punctuation between the letters, if there are at least eight letters in a
 * row.
 */
export function joinSpaced(text: string): string[] {
  return Array.from(text.matchAll(/(?<![\p{L}\d])(?:\p{L}[ ._*~-]{1,3}){7,}\p{L}(?![\p{L}\d])/gu), ([run]) =>
    run.replace(/[^\p{L}]/gu, ''),
  );
}
