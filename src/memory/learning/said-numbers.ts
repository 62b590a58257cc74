/** Numbers of a text as whole numbers of digits: `1,500`, `1 500`, `１５００` and `١٥٠٠` are 1500, `three` and `三` are 3, `85k` is 85000. */
import { limitMarks } from '../../core/combining-marks.ts';

const numberWords: readonly (readonly string[])[] = [
  'one two three four five six seven eight nine ten eleven twelve',
  'eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf',
  'un deux trois quatre cinq six sept huit neuf dix onze douze',
  'uno dos tres cuatro cinco seis siete ocho nueve diez once doce',
].map((terms) => terms.split(' '));

const valueByWord = new Map(numberWords.flatMap((terms) => terms.map((word, index) => [word, index + 1] as const)));
/** They have another meaning, or another value in another language. */
const ambiguousWords: ReadonlySet<string> = new Set(['one', 'un', 'uno', 'eins', 'once', 'elf', 'neuf', 'sept', 'dos']);

const scaleTerms: Readonly<Record<number, string>> = {
  2: 'hundred hundert',
  3: 'k thousand tausend mil mille 千',
  4: '万 萬',
  6: 'million millions millionen millón millones mio',
  8: '億 亿',
  9: 'billion billions bn milliarde milliarden milliard milliards',
};
/** Powers of ten. */
const scales = new Map(
  Object.entries(scaleTerms).flatMap(([power, terms]) => terms.split(' ').map((term) => [term, Number(power)] as const)),
);
const number = String.raw`(?<token>\d+(?:[.,'’]\d+)*(?: \d{3}(?!\d))*)`;
const scaledNumber = new RegExp(`${number}(?: ?(?<scale>${[...scales.keys()].join('|')})(?!\\p{Ll}))?`, 'gu');

const hanDigits = '〇一二三四五六七八九';
const hanNumber = /[一二两兩三四五六七八九]?十[一二三四五六七八九]?|[二两兩三四五六七八九]/gu;

/** Each number as its digits without separators, in the order of the text. */
export interface SaidNumber {
  readonly digits: string;
  /** `3` and `5` of `3.5`. */
  readonly parts: readonly string[];
}

/** `strict` leaves out terms that are not surely numbers. */
export function findNumbers(text: string, { strict }: { readonly strict: boolean }): SaidNumber[] {
  const plain = foldDigits(limitMarks(text).normalize('NFKC')).toLowerCase();
  const numbers = Array.from(plain.matchAll(scaledNumber), ({ groups }) => {
    const { token = '', scale } = groups ?? {};
    const parts = token.split(/\D/).map(trimZeros);
    return { digits: scale === undefined ? trimZeros(token.replace(/\D/g, '')) : scaleDecimal(token, scale), parts };
  });
  const terms = (plain.match(/\p{L}+/gu) ?? []).flatMap((word, index, all) => {
    const value = strict && ambiguousWords.has(word) ? undefined : valueByWord.get(word);
    return value === undefined ? [] : [{ digits: scaleDecimal(String(value), all[index + 1] ?? ''), parts: [String(value)] }];
  });
  const inHan = (plain.match(hanNumber) ?? []).map((text) => String(parseHanNumber(text)));
  return [...numbers, ...terms, ...inHan.map((digits) => ({ digits, parts: [digits] }))];
}

/** `1.5` and `million` are 1500000, without rounding errors. A comma before three digits separates thousands. */
function scaleDecimal(token: string, scale: string): string {
  const [whole = '', fraction = ''] = token.replace(/[ '’]|,(?=\d{3}(?!\d))/g, '').split(/[.,]/);
  return trimZeros(whole + fraction.padEnd(scales.get(scale) ?? 0, '0'));
}

/** Numbers of `said` that `known` does not contain, whole or in parts. Zeros need no support: 15:00 is `at three` or `15 Uhr`. */
export function findUnsaid(said: readonly SaidNumber[], known: ReadonlySet<string>): string[] {
  return said
    .filter(({ digits, parts }) => !known.has(digits) && !parts.every((part) => part === '0' || known.has(part)))
    .flatMap(({ parts }) => parts.filter((part) => part !== '0' && !known.has(part)));
}

/** Whole numbers and their parts. */
export function toNumberSet(numbers: readonly SaidNumber[]): ReadonlySet<string> {
  return new Set(numbers.flatMap(({ digits, parts }) => [digits, ...parts]));
}

function trimZeros(digits: string): string {
  return digits.replace(/^0+(?=\d)/, '');
}

/** Digits of a script follow each other from zero to nine. */
function foldDigits(text: string): string {
  return text.replace(/[^\P{Nd}0-9]/gu, (digit) => {
    const code = digit.codePointAt(0) ?? 0;
    let before = 0;
    while (/\p{Nd}/u.test(String.fromCodePoint(code - before - 1))) before += 1;
    return String(before % 10);
  });
}

function parseHanNumber(text: string): number {
  const value = (letter: string): number => ('两兩'.includes(letter) ? 2 : hanDigits.indexOf(letter));
  const [tens, ones] = text.split('十');
  if (ones === undefined) return value(text);
  return (tens ? value(tens) : 1) * 10 + (ones ? value(ones) : 0);
}
