/**
 * Creates tokens from the beginning of words, so that a search finds other forms of a word in languages that we don't
 * have a stemmer for. A form is the first five letters of a word. In Arabic and Hebrew, articles and prepositions are
 * attached to the next word, so there are also forms without the first letter and without the first two letters.
 *
 * English texts don't need this, because PostgreSQL has a stemmer for English. Therefore the index only has forms of
 * texts with at least one letter that isn't ASCII. A query always has them.
 */

const formLength = 5;
/** The minimum length of a form. If it were shorter, unrelated words would often have the same one. */
const shortestForm = 4;
/** We append this to a token that is a form, because words rarely end with a digit. */
const formMark = '0';
const isPrefixed = /^[\p{Script=Arabic}\p{Script=Hebrew}]/u;
/** Matches tokens that consist of letters and marks only. We don't create forms of other tokens, such as numbers. */
const word = /^[\p{L}\p{M}]+$/u;

export function hasForms(text: string): boolean {
  // Comparing the lengths is much faster than the regular expression, and enough for most texts, because they're ASCII.
  return Buffer.byteLength(text) !== text.length && /(?!\p{ASCII})\p{L}/u.test(text);
}

/** Returns the forms of a token. Short words and numbers don't have any. */
export function toForms(token: string): readonly string[] {
  if (!word.test(token)) return [];
  const letters = token.match(/\P{M}\p{M}*/gu) ?? [];
  const starts = isPrefixed.test(token) ? [0, 1, 2] : [0];
  const shortest = isPrefixed.test(token) ? shortestForm : formLength;
  return starts
    .filter((start) => letters.length - start >= shortest)
    .map((start) => `${letters.slice(start, start + formLength).join('')}${formMark}`);
}
