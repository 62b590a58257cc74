/**
 * Tokenization for full-text search. Stored texts and queries are normalized here because PostgreSQL depends on the locale (with C only ASCII
 * letters are case-folded) and its parser reads `tea/coffee` as a file name and `我喜欢茶` as one token.
 */
import { limitMarks } from '../../core/combining-marks.ts';

/** Version of `tokenizeForIndex` and `lexemesSql`. A change raises it and needs a migration with the new number for the indexes of 0026. */
export const tokenizerVersion = 2;

/** Form in which entity names are compared. */
export function foldName(text: string): string {
  return limitMarks(text).normalize('NFC').toLowerCase();
}

/** Snake-case form of a relation name: `works at` becomes `works_at`. */
export function foldRelation(text: string): string {
  return foldName(text)
    .replace(/[^\p{L}\p{N}]+/gu, '_')
    .replace(/^_+|_+$/g, '');
}

/** Space-separated tokens of a stored text; scripts without spaces give each letter and each pair of neighbours. */
export function tokenizeForIndex(text: string): string {
  return tokenize(text, (letters) => [...letters, ...toBigrams(letters)]);
}

/** Space-separated tokens of a query; scripts without spaces give pairs only, because single letters match nearly everything. */
export function tokenizeForQuery(text: string): string {
  return tokenize(text, (letters) => (letters.length === 1 ? letters : toBigrams(letters)));
}

/** Korean has spaces, but its inflected endings would hide the stem. */
const unspacedLetters =
  'ー\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}';
const unspacedRuns = new RegExp(`[${unspacedLetters}][${unspacedLetters}\\p{M}]*`, 'gu');
/** Accents that writers often leave out, and vowel points that mostly learners write. */
const accents =
  /(?<=[\p{Script=Latin}\p{Script=Greek}\p{Script=Arabic}\p{Script=Hebrew}])\p{M}+|(?<=\p{Script=Cyrillic})[\u0300\u0301]|(?<=е)\u0308/gu;
/** Everything but letters, digits and the decimal point. */
const separators = /(?!(?<=\d)\.(?=\d))[^\p{L}\p{M}\p{N}]+/gu;

/** Dashes, quotation marks, bullet and ellipsis, which separate tokens: most English text has no other characters beyond ASCII. */
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
/** Each ASCII letter in lower case, each digit, and a space for everything else. */
const tokenBytes = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code).toLowerCase();
  return /[a-z\d]/.test(character) ? character.charCodeAt(0) : space;
});

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** The result of the steps for other text, byte by byte: it takes a sixth of the time. */
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

/** SQL: lexemes of a token list, stems with weight A and unchanged tokens with weight B (names and other languages). */
export function lexemesSql(tokens: string): string {
  return `setweight(to_tsvector('english', ${tokens}), 'A') || setweight(to_tsvector('simple', ${tokens}), 'B')`;
}

/** SQL: a tsquery that matches any of the tokens; stopwords (without a stem) count only when there is nothing else. */
export function anyTermSql(tokens: string): string {
  return `(
    select coalesce(string_agg((stem || exact)::text, ' | ') filter (where numnode(stem) > 0), string_agg(exact::text, ' | '))::tsquery
      from (select plainto_tsquery('english', lexeme) as stem, plainto_tsquery('simple', lexeme) as exact
              from unnest(to_tsvector('simple', ${tokens}))) as terms)`;
}
