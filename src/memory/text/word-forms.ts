/**
 * Creates tokens from the beginning of words, so that a search finds other forms of a word in languages that we don't
 * have a stemmer for. A form is the first five letters of a word. In Arabic and Hebrew, articles and prepositions are
 * attached to the next word, so there are also forms without the first letter and without the first two letters.
 *
 * English texts don't need this, because PostgreSQL has a stemmer for English. Therefore the index only has forms of
 * texts with at least one letter that isn't ASCII. A query always has them.
 */

const formLength = 5;
/** Forms shorter than this would often be shared by unrelated words. */
const shortestForm = 4;
/** We append this to a form to tell it apart from a complete word. Words rarely end with a digit. */
const formMark = '0';
const isPrefixed = /^[\p{Script=Arabic}\p{Script=Hebrew}]/u;
/** Matches tokens that consist of letters and marks. Others, such as numbers, don't get forms. */
const word = /^[\p{L}\p{M}]+$/u;

export function hasForms(text: string): boolean {
  // Check first if the text is ASCII, i.e. if it has as many bytes as characters. Most texts are, and this check is
  // much faster than the regular expression.
  return Buffer.byteLength(text) !== text.length && /(?!\p{ASCII})\p{L}/u.test(text);
}

export function toForms(token: string): readonly string[] {
  if (!word.test(token)) return [];
  const letters = token.match(/\P{M}\p{M}*/gu) ?? [];
  const starts = isPrefixed.test(token) ? [0, 1, 2] : [0];
  const shortest = isPrefixed.test(token) ? shortestForm : formLength;
  return starts
    .filter((start) => letters.length - start >= shortest)
    .map((start) => `${letters.slice(start, start + formLength).join('')}${formMark}`);
}
