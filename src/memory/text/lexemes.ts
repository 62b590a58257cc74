/**
 * The words that text is found by. Text and query are folded alike before the database sees them: a server with the locale C folds only ASCII
 * letters itself, and PostgreSQL's parser takes `tea/coffee` for the name of a file and `我喜欢茶` for one word.
 */

/** Of what `wordsToIndex` and `lexemesOf` make; who changes that raises it, and gives the indexes of 0026 the new number in a migration. */
export const tokenizerVersion = 2;

/** A name as names are compared. */
export function foldName(text: string): string {
  return text.normalize('NFC').toLowerCase();
}

/** The name of a relation, as facts have it: `works at` is `works_at`. */
export function foldRelation(text: string): string {
  return foldName(text)
    .replace(/[^\p{L}\p{N}]+/gu, '_')
    .replace(/^_+|_+$/g, '');
}

/** Words of a stored text, apart from each other: of scripts without spaces each letter, and each with the next. */
export function tokenizeForIndex(text: string): string {
  return tokenize(text, (letters) => [...letters, ...toBigrams(letters)]);
}

/** Words of a query: of scripts without spaces pairs of letters, since single ones stand nearly everywhere. */
export function tokenizeForQuery(text: string): string {
  return tokenize(text, (letters) => (letters.length === 1 ? letters : toBigrams(letters)));
}

/** Korean has spaces, but ends of words that change. */
const unspacedLetters =
  'ー\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}';
const unspacedRuns = new RegExp(`[${unspacedLetters}][${unspacedLetters}\\p{M}]*`, 'gu');
/** Accents that are left out by many who write, and points that only learners write. */
const accents =
  /(?<=[\p{Script=Latin}\p{Script=Greek}\p{Script=Arabic}\p{Script=Hebrew}])\p{M}+|(?<=\p{Script=Cyrillic})[\u0300\u0301]|(?<=е)\u0308/gu;
/** What is no letter and no digit, but for the point of a number. */
const separators = /(?!(?<=\d)\.(?=\d))[^\p{L}\p{M}\p{N}]+/gu;

function tokenize(text: string, expandRun: (letters: readonly string[]) => readonly string[]): string {
  return text
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

function toBigrams(letters: readonly string[]): string[] {
  return letters.slice(1).map((letter, index) => `${letters[index]}${letter}`);
}

/** Word stems (weight A), and the words as they stand (weight B), so that names and other languages are found too. */
export function lexemesSql(words: string): string {
  return `setweight(to_tsvector('english', ${words}), 'A') || setweight(to_tsvector('simple', ${words}), 'B')`;
}

/** A query that matches where any of the words stands; stop words (those without a stem) count only where there are no others. */
export function anyTermSql(words: string): string {
  return `(
    select coalesce(string_agg((stem || exact)::text, ' | ') filter (where numnode(stem) > 0), string_agg(exact::text, ' | '))::tsquery
      from (select plainto_tsquery('english', lexeme) as stem, plainto_tsquery('simple', lexeme) as exact
              from unnest(to_tsvector('simple', ${words}))) as words)`;
}
