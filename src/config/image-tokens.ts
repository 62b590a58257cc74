/**
 * The most input tokens that vendors charge for one image, by model family (docs/vendors.md#image-tokens). We match
 * on the model name alone, because resellers serve the same models on other hosts, e.g.
 * `openrouter/openai/gpt-4o-mini`. The first family that matches applies.
 */
const families: readonly (readonly [name: RegExp, tokens: number])[] = [
  // A base of 2,833 tokens, plus eight tiles of 512 pixels with 5,667 tokens each.
  [/gpt-4o-mini/, 48_169],
  // 1,536 patches of 32 pixels, multiplied by the model's factor.
  [/(?:gpt-4\.1|gpt-5(?:\.\d)?)-nano/, 3_779],
  [/(?:gpt-4\.1|gpt-5(?:\.\d)?)-mini|o4-mini|codex-mini/, 2_642],
  // `detail: original` allows up to 10,000 patches.
  [/gpt-(?:5\.[4-9]|[6-9])/, 10_000],
  // A base of 65 to 85 tokens, plus eight tiles of 512 pixels with 129 to 170 tokens each.
  [/gpt-4o|gpt-4\.[15]|gpt-4-turbo|gpt-5|(?:^|\/)o[13](?:$|-)|computer-use/, 1_536],
  // Since Opus 4.7, images keep up to 2,576 pixels on the longer side.
  [/claude-opus-4[.-][7-9]|claude-(?:[a-z]+-)?[5-9]/, 4_784],
  [/claude/, 1_600],
  // The maximum, which applies to `media_resolution: ultra_high`.
  [/gemini-[3-9]/, 2_240],
  // Sixteen tiles of 768 pixels, with 258 tokens each.
  [/gemini/, 4_128],
  // A 1,024 by 1,024 image has a token for each patch of 16 pixels, and one more at the end of each row.
  [/mistral|ministral|magistral|pixtral|voxtral/, 4_160],
  [/qwen|qvq/, 16_384],
  [/grok/, 1_792],
];

export function findImageTokens(model: string): number | null {
  const name = model.toLowerCase();
  return families.find(([family]) => family.test(name))?.[1] ?? null;
}
