/**
 * Tokenizes texts for full-text search. Texts and queries are normalized here because PostgreSQL depends on the locale
 * (with C, it only folds the case of ASCII letters), and because its parser takes `tea/coffee` for a file name and
 * `我喜欢茶` for a single token.
 */
import { limitMarks } from '../../core/combining-marks.ts';
import { trim } from '../../core/trim.ts';
import { hasForms, toForms } from './word-forms.ts';

/**
 * The version of `tokenizeForIndex`, `lexemesSql` and `lexemeSetSql`. If you change one of these, increase the version,
 * and add a migration that recreates the indexes from migration 0026 with it.
 */
export const tokenizerVersion = 3;

export function foldName(text: string): string {
  return limitMarks(text).normalize('NFC').toLowerCase();
}

/** Returns a relation name in snake case, so `works at` becomes `works_at`. */
export function foldRelation(text: string): string {
  return trim(foldName(text).replace(/[^\p{L}\p{N}]+/gu, '_'), '_');
}

/**
 * Returns the tokens of a text that we store, separated by spaces. Unless the text is in English, we add the forms of
 * its words. In scripts without spaces, every letter and every pair of adjacent letters is a token.
 */
export function tokenizeForIndex(text: string): string {
  const tokens = splitIntoTokens(text);
  if (!hasForms(text)) return tokens;
  const forms = new Set(tokens.split(' ').flatMap(toForms));
  return [tokens, ...forms].join(' ');
}

export function splitIntoTokens(text: string): string {
  return tokenize(text, (run) => {
    const letters = toLetters(run);
    return [...letters, ...toBigrams(letters)];
  });
}

/**
 * Returns the distinct terms of a query, one per line. If a term has other forms, they follow after a tab.
 *
 * In scripts without spaces, we use a segmenter to find words, and each word is a term. A text matches if it contains
 * every pair of adjacent letters of the word. Single letters match nearly everything, so we only use them if there's
 * nothing else.
 */
export function tokenizeForQuery(text: string): string {
  const terms = new Set(tokenize(text, toTerms).split(' '));
  return [...terms]
    .map((term) => {
      const forms = toForms(term);
      return forms.length > 0 ? `${term}\t${forms.join(' | ')}` : term.replaceAll(joiner, ' ');
    })
    .join('\n');
}

/** While we split a query into terms, we put this character between the tokens of a term. Tokens never contain it. */
const joiner = '+';
const words = new Intl.Segmenter('en', { granularity: 'word' });

function toTerms(run: string): readonly string[] {
  const letters = toLetters(run);
  if (letters.length === 1) return letters;
  const terms: string[] = [];
  /** Consecutive words of a single letter, which is often how the segmenter splits foreign names. */
  let singles: string[] = [];
  const endSingles = (): void => {
    terms.push(...toBigrams(singles));
    singles = [];
  };
  for (const { segment } of words.segment(run)) {
    const ofWord = toLetters(segment);
    if (ofWord.length === 1) {
      singles.push(segment);
      continue;
    }
    endSingles();
    const pairs = toBigrams(ofWord);
    terms.push(...(koreanLetter.test(segment) ? pairs : [pairs.join(joiner)]));
  }
  endSingles();
  return terms.length > 0 ? terms : toBigrams(letters);
}

function toLetters(run: string): readonly string[] {
  return run.match(/\P{M}\p{M}*/gu) ?? [];
}

/**
 * Scripts that are written without spaces between words. Korean does have spaces, but its words have endings, so we'd
 * miss the ones that have a different ending in the query. We treat it like the other scripts, except that a Korean
 * word already matches if the text contains any of its letter pairs.
 */
const unspacedLetters =
  'ー\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}';
const koreanLetter = /\p{Script=Hangul}/u;
const unspacedLetter = new RegExp(`[${unspacedLetters}]`, 'u');
const unspacedRuns = new RegExp(`[${unspacedLetters}][${unspacedLetters}\\p{M}]*`, 'gu');
/** Matches accents that people often leave out, and vowel points, which are mainly written for learners. */
const accents =
  /(?<=[\p{Script=Latin}\p{Script=Greek}\p{Script=Arabic}\p{Script=Hebrew}])\p{M}+|(?<=\p{Script=Cyrillic})[\u0300\u0301]|(?<=е)\u0308/gu;
/** Matches everything except letters, digits and the decimal point. */
const separators = /(?!(?<=\d)\.(?=\d))[^\p{L}\p{M}\p{N}]+/gu;

/**
 * Matches dashes, quotation marks, bullets and ellipses. We treat them as spaces first, because after that, most
 * English texts are plain ASCII.
 */
const typographicMarks = /[\u2010-\u2015\u2018-\u201f\u2022\u2026]/g;

function tokenize(text: string, expandRun: (run: string) => readonly string[]): string {
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
    .replace(unspacedRuns, (run) => ` ${expandRun(run).join(' ')} `)
    .replace(/\s+/g, ' ')
    .trim();
}

const space = 0x20;
const point = 0x2e;
/**
 * Maps each ASCII character to the one that the tokenizer replaces it with, i.e. a lower-case letter, a digit or a
 * space.
 */
const tokenBytes = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code).toLowerCase();
  return /[a-z\d]/.test(character) ? character.charCodeAt(0) : space;
});

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** Does the same as `tokenize` for ASCII texts, but six times as fast. */
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

/** Checks whether a token is in one of the scripts in which we index pairs of letters. */
export function isUnspaced(token: string): boolean {
  return unspacedLetter.test(token);
}

/**
 * Returns SQL for the lexemes of a token list. Stems get the weight A. The tokens themselves, which match names and
 * words of other languages, get the weight B.
 */
export function lexemesSql(tokens: string): string {
  return `setweight(to_tsvector('english', ${tokens}), 'A') || setweight(to_tsvector('simple', ${tokens}), 'B')`;
}

/**
 * Like `lexemesSql`, but without weights and positions, which take up space and aren't used to search conversations.
 * Pass the result of `hasPlainTokens` as `isPlain`. If it's true, PostgreSQL parses and stems each distinct token only
 * once, which takes a third of the time.
 */
export function lexemeSetSql(tokens: string, isPlain: string): string {
  const distinct = `array_to_tsvector(string_to_array(${tokens}, ' '))`;
  return `case when ${isPlain}
               then ${distinct} || strip(to_tsvector('english', array_to_string(tsvector_to_array(${distinct}), ' ')))
               else strip(to_tsvector('english', ${tokens}) || to_tsvector('simple', ${tokens})) end`;
}

/**
 * Checks whether PostgreSQL's parser splits these tokens at the spaces and nowhere else. We can't rely on that for
 * decimal points, exponents and other alphabets. The parser also skips words of 2 KiB, which `array_to_tsvector` would
 * reject. We only look for them at the start of a word. If we tried each letter, a passage that is one long word would
 * take 5 ms.
 */
export function hasPlainTokens(tokens: string): boolean {
  return /^[a-z\d ]*$/.test(tokens) && !/\de\d|(?:^| )[a-z\d]{2000}/.test(tokens);
}

/**
 * Returns SQL for a tsquery that matches texts with any of the terms or forms that `tokenizeForQuery` returned. We
 * treat terms and forms alike here. Stop words, i.e. words without a stem, are only used if there's nothing else.
 */
export function anyTermSql(tokens: string): string {
  return `(
    select coalesce(string_agg((stem || exact)::text, ' | ') filter (where numnode(stem) > 0), string_agg(exact::text, ' | '))::tsquery
      from (select plainto_tsquery('english', lexeme) as stem, plainto_tsquery('simple', lexeme) as exact
              from unnest(to_tsvector('simple', ${tokens}))) as terms)`;
}
