/**
 * Detects characters that hide text from readers, such as Unicode tags, runs of variation selectors, direction
 * overrides, and zero-width characters between letters. Their legitimate uses in scripts and emoji are allowed.
 */

/**
 * Matches tag characters, which encode ASCII text invisibly. Only the flags of regions use them legitimately, in a
 * sequence of a black flag, tags and a cancel tag (Unicode emoji).
 */
const tags = /[\u{e0001}-\u{e007f}]/u;
const regionFlags = /\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{2,7}\u{e007f}/gu;
/** A character has at most one variation selector. Several of them in a row could encode hidden bytes. */
const selectorRun = /[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]{2}/u;
/**
 * Direction overrides have no legitimate use. Embeddings and isolates are normal in right-to-left text, so we allow
 * those.
 */
const override = /[\u202d\u202e]/;
const embedding = /[\u202a\u202b\u2066-\u2068]/;
const rightToLeft = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
/**
 * Matches zero-width characters inside a word. Other scripts need these characters to join letters, so they aren't
 * included.
 */
const splitWord =
  /(?<=[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}])[\u200b-\u200d\u2060-\u2064\ufeff\u180e]+(?=[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}])/gu;
/**
 * Text that was copied from a web page can contain one or two words split by zero-width characters, which is harmless.
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
