/**
 * Tokenizes texts for full-text search. We normalize texts and queries ourselves, because PostgreSQL depends on the
 * locale (with C, it only folds the case of ASCII letters), and because its parser takes `tea/coffee` for a file name
 * and `我喜欢茶` for a single token.
 */
import { limitMarks } from '../../core/combining-marks.ts';

/**
 * The version of `tokenizeForIndex` and `lexemesSql`. If you change either, increase the version and add a migration
 * that recreates the indexes of 0026 with the new number.
 */
export const tokenizerVersion = 2;

/** Returns the form in which we compare entity names. */
export function foldName(text: string): string {
  return limitMarks(text).normalize('NFC').toLowerCase();
}

/** Returns a relation name in snake case, so `works at` becomes `works_at`. */
export function foldRelation(text: string): string {
  return foldName(text)
    .replace(/[^\p{L}\p{N}]+/gu, '_')
    .replace(/^_+|_+$/g, '');
}

/**
 * Returns the tokens of a stored text, separated by spaces. In scripts without spaces, each letter and each pair of
 * adjacent letters is a token.
 */
export function tokenizeForIndex(text: string): string {
  return tokenize(text, (letters) => [...letters, ...toBigrams(letters)]);
}

/**
 * Returns the tokens of a query, separated by spaces. In scripts without spaces only pairs are tokens, because single
 * letters match nearly everything.
 */
export function tokenizeForQuery(text: string): string {
  return tokenize(text, (letters) => (letters.length === 1 ? letters : toBigrams(letters)));
}

/** Korean does use spaces, but we include it because its inflected endings would hide the stem. */
const unspacedLetters =
  'ー\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}';
const unspacedRuns = new RegExp(`[${unspacedLetters}][${unspacedLetters}\\p{M}]*`, 'gu');
/** Matches accents that people often leave out, and vowel points, which are mostly used for learners. */
const accents =
  /(?<=[\p{Script=Latin}\p{Script=Greek}\p{Script=Arabic}\p{Script=Hebrew}])\p{M}+|(?<=\p{Script=Cyrillic})[\u0300\u0301]|(?<=е)\u0308/gu;
/** Matches everything except letters, digits and the decimal point. */
const separators = /(?!(?<=\d)\.(?=\d))[^\p{L}\p{M}\p{N}]+/gu;

/**
 * Matches dashes, quotation marks, bullets and ellipses, which separate tokens. Most English texts don't have any other
 * non-ASCII characters.
 */
const typographicMarks = /[\u2010-\u2015\u2018-\u201f\u2022\u2026]/g;

function tokenize(text: string, expandRun: (letters: readonly string[]) => readonly string[]): string {
  const plain = text.replace(typographicMarks, ' ');
  if (Buffer.byteLength(plain) === plain.length) return tokenizeAscii(plain);
  return limitMarks(text)
    .normalize('NFKC')
    .toLowerCase()
    .normalize('NFD')
    .replace(accents, '')
    .normalize('NFC')
    .replaceAll('ß', 'ss')
    .replaceAll('ς', 'σ')
    .replace(separators, ' ')
    .replace(unspacedRuns, (run) => ` ${expandRun(run.match(/\P{M}\p{M}*/gu) ?? []).join(' ')} `)
    .replace(/\s+/g, ' ')
    .trim();
}

const space = 0x20;
const point = 0x2e;
/** Maps ASCII letters to lower case, digits to themselves, and everything else to a space. */
const tokenBytes = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code).toLowerCase();
  return /[a-z\d]/.test(character) ? character.charCodeAt(0) : space;
});

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** Gives the same result as `tokenize` in a sixth of the time. */
function tokenizeAscii(text: string): string {
  const bytes = Buffer.from(text, 'latin1');
  let length = 0;
  let before = space;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    const token = tokenBytes[byte] ?? 0;
    const isDecimalPoint = byte === point && isDigit(before) && isDigit(bytes[at + 1] ?? 0);
    before = byte;
    if (token !== space || isDecimalPoint) bytes[length++] = isDecimalPoint ? point : token;
    else if (length > 0 && bytes[length - 1] !== space) bytes[length++] = space;
  }
  return bytes.toString('latin1', 0, bytes[length - 1] === space ? length - 1 : length);
}

function toBigrams(letters: readonly string[]): string[] {
  return letters.slice(1).map((letter, index) => `${letters[index]}${letter}`);
}

/**
 * Returns SQL for the lexemes of a token list. Stems have weight A. Unchanged tokens have weight B, and match names and
 * other languages.
 */
export function lexemesSql(tokens: string): string {
  return `setweight(to_tsvector('english', ${tokens}), 'A') || setweight(to_tsvector('simple', ${tokens}), 'B')`;
}

/**
 * Returns SQL for a tsquery that matches any of the tokens. Stop words, which have no stem, only count if there's
 * nothing else.
 */
export function anyTermSql(tokens: string): string {
  return `(
    select coalesce(string_agg((stem || exact)::text, ' | ') filter (where numnode(stem) > 0), string_agg(exact::text, ' | '))::tsquery
      from (select plainto_tsquery('english', lexeme) as stem, plainto_tsquery('simple', lexeme) as exact
              from unnest(to_tsvector('simple', ${tokens}))) as terms)`;
}
