/** Normalizes a text in several ways so that we can compare it with phrases. Each step is a single pass. */
import { limitMarks } from '../core/combining-marks.ts';

/**
 * Matches zero-width and direction characters, variation selectors and tags, which don't change the meaning of a text.
 */
export const ignorable = /\p{Default_Ignorable_Code_Point}+/gu;

/**
 * Converts the text to lower case and single spaces, and removes compatibility forms (e.g. full-width or mathematical
 * letters) and the accents of Latin, Greek and Arabic letters. Paragraphs stay as they are.
 */
export function normalizeText(text: string): string {
  return limitMarks(text.replace(ignorable, ''))
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

/** Each entry is a Latin letter, followed by the letters of other scripts, digits and signs that look like it. */
const imitations = 'a4аӓαɑ@ bвβ cсϲ dԁδ e3еёҽεѐ gԍɡց hһнհ i1іїιıɩɪ!| jјȷ kкκ lӏ mм nηɴո o0оӧοσօ pрρ qԛ rгʀ s5ѕꜱ$ t7тτ uμυս vѵν wԝω xхχ yу';
const imitatedLetters = new Map(imitations.split(' ').flatMap(([letter = '', ...signs]) => signs.map((sign) => [sign, letter] as const)));

/** Matches words that we may have to fold. We only fold those that mix Latin letters with similar characters. */
const mixedWord = /[\p{L}\d@$!|]+/gu;

export function foldLookalikes(text: string): string {
  return text.replace(mixedWord, (word) => {
    const isMixed = /\p{Script=Latin}/u.test(word) && /[^a-z]/.test(word);
    return isMixed ? word.replace(/[^a-z]/gu, (sign) => imitatedLetters.get(sign) ?? sign) : word;
  });
}

/** Removes Markdown marks and HTML tags, and replaces signs between letters with a space. */
export function joinMarked(text: string): string {
  return text
    .replace(/<\/?[a-z][^<>]{0,100}>/g, '')
    .replace(/[*~`]{1,3}(?=\p{L})|(?<=\p{L})[*~`]{1,3}/gu, '')
    .replace(/(?<=\p{L})[._/+-]{1,3}(?=\p{L})/gu, ' ')
    .replace(/ {2,}/g, ' ');
}

/** Returns each run of at least eight single letters that are separated by spaces or signs, without the separators. */
export function joinSpaced(text: string): string[] {
  return Array.from(text.matchAll(/(?<![\p{L}\d])(?:\p{L}[ ._*~-]{1,3}){7,}\p{L}(?![\p{L}\d])/gu), ([run]) =>
    run.replace(/[^\p{L}]/gu, ''),
  );
}
