/** Normalized forms of a text for the comparison with phrases. Each step is one pass. */
import { limitMarks } from '../core/combining-marks.ts';

/** Zero-width and direction characters, variation selectors, tags: they do not change the meaning of a text. */
export const ignorable = /\p{Default_Ignorable_Code_Point}+/gu;

/** Lower case, without compatibility forms (full width, mathematical letters), without accents on Latin, Greek and Arabic letters, single spaces, same paragraphs. */
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

/** Letters of other scripts, digits and signs by the Latin letter that they resemble. */
const imitations: Readonly<Record<string, string>> = {
  a: '4аӓαɑ@',
  b: 'вβ',
  c: 'сϲ',
  d: 'ԁδ',
  e: '3еёҽεѐ',
  g: 'ԍɡց',
  h: 'һнհ',
  i: '1іїιıɩɪ!|',
  j: 'јȷ',
  k: 'кκ',
  l: 'ӏ',
  m: 'м',
  n: 'ηɴո',
  o: '0оӧοσօ',
  p: 'рρ',
  q: 'ԛ',
  r: 'гʀ',
  s: '5ѕꜱ$',
  t: '7тτ',
  u: 'μυս',
  v: 'ѵν',
  w: 'ԝω',
  x: 'хχ',
  y: 'у',
};
const imitatedLetters = new Map(
  Object.entries(imitations).flatMap(([letter, signs]) => Array.from(signs, (sign) => [sign, letter] as const)),
);

/** Candidates for folding: only those that mix Latin letters with similar characters are folded. */
const mixedWord = /[\p{L}\d@$!|]+/gu;

export function foldLookalikes(text: string): string {
  return text.replace(mixedWord, (word) => {
    const isMixed = /\p{Script=Latin}/u.test(word) && /[^a-z]/.test(word);
    return isMixed ? word.replace(/[^a-z]/gu, (sign) => imitatedLetters.get(sign) ?? sign) : word;
  });
}

/** Removes Markdown marks and HTML tags, and replaces signs between letters by a space. */
export function joinMarked(text: string): string {
  return text
    .replace(/<\/?[a-z][^<>]{0,100}>/g, '')
    .replace(/[*~`]{1,3}(?=\p{L})|(?<=\p{L})[*~`]{1,3}/gu, '')
    .replace(/(?<=\p{L})[._/+-]{1,3}(?=\p{L})/gu, ' ')
    .replace(/ {2,}/g, ' ');
}

/** Runs of at least eight single letters separated by spaces or signs, without the separators. */
export function joinSpaced(text: string): string[] {
  return Array.from(text.matchAll(/(?<![\p{L}\d])(?:\p{L}[ ._*~-]{1,3}){7,}\p{L}(?![\p{L}\d])/gu), ([run]) =>
    run.replace(/[^\p{L}]/gu, ''),
  );
}
