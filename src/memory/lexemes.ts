/** The words that text is found by, in SQL. Text and query are folded alike before the database sees them. */

/** In lower case: a server with the locale C folds only ASCII letters itself. */
export function foldText(text: string): string {
  return text.normalize('NFC').toLowerCase();
}

/** Word stems (weight A), and the words as they stand (weight B), so that names and other languages are found too. */
export function lexemesOf(folded: string): string {
  return `setweight(to_tsvector('english', ${folded}), 'A') || setweight(to_tsvector('simple', ${folded}), 'B')`;
}

/** A query that matches where any of the words stands. */
export function anyWordOf(folded: string): string {
  return `replace((plainto_tsquery('english', ${folded}) || plainto_tsquery('simple', ${folded}))::text, '&', '|')::tsquery`;
}
