/**
 * The most input tokens that vendors charge for one image, by family of models (docs/vendors.md#image-tokens). The name is enough, because
 * resellers serve the same models under other hosts: `openrouter/openai/gpt-4o-mini`. The first family that matches decides.
 */
const families: readonly (readonly [name: RegExp, tokens: number])[] = [
  // Eight tiles of 512 pixels at 5,667 tokens each and a base of 2,833.
  [/gpt-4o-mini/, 48_169],
  // 1,536 patches of 32 pixels times the factor of the model.
  [/(?:gpt-4\.1|gpt-5(?:\.\d)?)-nano/, 3_779],
  [/(?:gpt-4\.1|gpt-5(?:\.\d)?)-mini|o4-mini|codex-mini/, 2_642],
  // With `detail: original` up to 10,000 patches.
  [/gpt-(?:5\.[4-9]|[6-9])/, 10_000],
  // Eight tiles of 512 pixels at 129 to 170 tokens each and a base of 65 to 85.
  [/gpt-4o|gpt-4\.[15]|gpt-4-turbo|gpt-5|(?:^|\/)o[13](?:$|-)|computer-use/, 1_536],
  // From Opus 4.7 on images keep up to 2,576 pixels on their longer side.
  [/claude-opus-4[.-][7-9]|claude-(?:[a-z]+-)?[5-9]/, 4_784],
  [/claude/, 1_600],
  // With `media_resolution: ultra_high`.
  [/gemini-[3-9]/, 2_240],
  // Sixteen tiles of 768 pixels at 258 tokens each.
  [/gemini/, 4_128],
  // Patches of 16 pixels of an image of 1,024 by 1,024, and a token for the end of each row.
  [/mistral|ministral|magistral|pixtral|voxtral/, 4_160],
  [/qwen|qvq/, 16_384],
  [/grok/, 1_792],
];

/** Null for a family that we don't know. */
export function findImageTokens(model: string): number | null {
  const name = model.toLowerCase();
  return families.find(([family]) => family.test(name))?.[1] ?? null;
}
