/**
 * Detects characters that hide text from readers, such as Unicode tags, runs of variation selectors, direction
 * overrides, and zero-width characters between letters. Their legitimate uses in scripts and emoji are allowed.
 */

/**
 * Matches tag characters, which encode ASCII text invisibly. In a sequence that starts with a black flag and ends with
 * a cancel tag they're legitimate, because they select the flag of a region (Unicode emoji).
 */
const tags = /[\u{e0001}-\u{e007f}]/u;
const regionFlags = /\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{2,7}\u{e007f}/gu;
/**
 * A character has at most one selector. Several of them in a row make no sense, unless somebody encodes hidden bytes
 * with them.
 */
const selectorRun = /[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]{2}/u;
/**
 * There's no good reason to write a direction override, so we always report it. Embeddings and isolates are normal in
 * right-to-left text.
 */
const override = /[\u202d\u202e]/;
const embedding = /[\u202a\u202b\u2066-\u2068]/;
const rightToLeft = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
/**
 * Zero-width characters inside of a word. We only look at these scripts, because others need such characters to join
 * letters.
 */
const splitWord =
  /(?<=[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}])[\u200b-\u200d\u2060-\u2064\ufeff\u180e]+(?=[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}])/gu;
/**
 * A text that was copied from a web page can contain one or two words that are split by zero-width characters. That's
 * harmless, so we allow it.
 */
const maxSplits = 2;
/** A run of zero-width characters this long could encode hidden text as bits. */
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
