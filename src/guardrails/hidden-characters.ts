/**
 * Finds characters that carry text past a reader's eyes: Unicode tags, runs of variation selectors, overridden direction, letters of one
 * word set apart by characters without width. What scripts and emoji need of the same characters stays allowed.
 */

/** Tags spell ASCII that nothing shows. Behind a black flag they name a region (Unicode emoji), up to the cancel tag. */
const tags = /[\u{e0001}-\u{e007f}]/u;
const regionFlags = /\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{2,7}\u{e007f}/gu;
/** One selector follows a character; more of them in a row carry bytes. */
const selectorRun = /[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]{2}/u;
/** Nobody writes overrides by hand; embeddings and isolates belong around words that run from right to left. */
const override = /[\u202d\u202e]/;
const embedding = /[\u202a\u202b\u2066-\u2068]/;
const rightToLeft = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
/** Between letters of scripts that need no joiners. */
const splitWord =
  /(?<=[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}])[\u200b-\u200d\u2060-\u2064\ufeff\u180e]+(?=[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}])/gu;
/** One or two come with text that was copied from a web page. */
const maxSplits = 2;
/** Bits spelt in characters without width. */
const zeroWidthRun = /[\u200b-\u200d\u2060-\u2064\ufeff]{8}/;

export function containsHiddenCharacters(text: string): boolean {
  if (override.test(text) || selectorRun.test(text) || zeroWidthRun.test(text)) return true;
  if (tags.test(text) && tags.test(text.replace(regionFlags, ''))) return true;
  if (embedding.test(text) && !rightToLeft.test(text)) return true;
  let splits = 0;
  for (const _ of text.matchAll(splitWord)) {
    splits += 1;
    if (splits > maxSplits) return true;
  }
  return false;
}
