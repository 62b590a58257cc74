/**
 * Detects characters that hide text from a reader: Unicode tags, runs of variation selectors, direction overrides, zero-width characters between
 * letters. Their legitimate use in scripts and emoji is allowed.
 */

/** Tags encode invisible ASCII. After a black flag, up to the cancel tag, they name a region (Unicode emoji). */
const tags = /[\u{e0001}-\u{e007f}]/u;
const regionFlags = /\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{2,7}\u{e007f}/gu;
/** A character has at most one selector; several in a row encode bytes. */
const selectorRun = /[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]{2}/u;
/** Overrides are never typed by hand; embeddings and isolates belong to text that runs from right to left. */
const override = /[\u202d\u202e]/;
const embedding = /[\u202a\u202b\u2066-\u2068]/;
const rightToLeft = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
/** Zero-width characters between letters of scripts that need no joiners. */
const splitWord =
  /(?<=[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}])[\u200b-\u200d\u2060-\u2064\ufeff\u180e]+(?=[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}])/gu;
/** One or two occur in text copied from a web page. */
const maxSplits = 2;
/** Bits encoded in zero-width characters. */
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
