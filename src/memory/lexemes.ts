/** The words that text is found by, in SQL. Text and query are folded alike before the database sees them. */

/** In lower case: a server with the locale C folds only ASCII letters itself. */
export function foldText(text: string): string {
  return text.normalize('NFC').toLowerCase();
}

/** Word stems (weight A), and the words as they stand (weight B), so that names and other languages are found too. */
export function lexemesOf(folded: string): string {
  return `setweight(to_tsvector('english', ${folded}), 'A') || setweight(to_tsvector('simple', ${folded}), 'B')`;
}

/** A query that matches where any of the words stands; stop words (those without a stem) count only where there are no others. */
export function anyWordOf(folded: string): string {
  return `(
    select coalesce(string_agg((stem || exact)::text, ' | ') filter (where numnode(stem) > 0), string_agg(exact::text, ' | '))::tsquery
      from (select plainto_tsquery('english', lexeme) as stem, plainto_tsquery('simple', lexeme) as exact
              from unnest(to_tsvector('simple', ${folded}))) as words)`;
}
