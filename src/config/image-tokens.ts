/**
 * The maximum number of input tokens that vendors charge for an image, by model family (docs/vendors.md#image-tokens).
 * We only match the model's name, because resellers serve the same models on other hosts, e.g.
 * `openrouter/openai/gpt-4o-mini`. The first match wins.
 */
const families: readonly (readonly [name: RegExp, tokens: number])[] = [
  // An image costs a base of 2,833 tokens. On top of that, it's split into up to eight tiles of 512 pixels, which cost
  // 5,667 tokens each.
  [/gpt-4o-mini/, 48_169],
  // An image is split into up to 1,536 patches of 32 pixels. We multiply that by a factor, which is different for each
  // model.
  [/(?:gpt-4\.1|gpt-5(?:\.\d)?)-nano/, 3_779],
  [/(?:gpt-4\.1|gpt-5(?:\.\d)?)-mini|o4-mini|codex-mini/, 2_642],
  // With `detail: original`, an image can have up to 10,000 patches.
  [/gpt-(?:5\.[4-9]|[6-9])/, 10_000],
  // An image costs a base of 65 to 85 tokens. On top of that, it's split into up to eight tiles of 512 pixels, which
  // cost 129 to 170 tokens each.
  [/gpt-4o|gpt-4\.[15]|gpt-4-turbo|gpt-5|(?:^|\/)o[13](?:$|-)|computer-use/, 1_536],
  // From Opus 4.7 on, images can have up to 2,576 pixels on the longer side.
  [/claude-opus-4[.-][7-9]|claude-(?:[a-z]+-)?[5-9]/, 4_784],
  [/claude/, 1_600],
  // This is for `media_resolution: ultra_high`, the setting that makes images most expensive.
  [/gemini-[3-9]/, 2_240],
  // An image is split into up to sixteen tiles of 768 pixels, which cost 258 tokens each.
  [/gemini/, 4_128],
  // An image of 1,024 by 1,024 pixels costs a token for each patch of 16 pixels, and another one at the end of each row
  // of patches.
  [/mistral|ministral|magistral|pixtral|voxtral/, 4_160],
  [/qwen|qvq/, 16_384],
  [/grok/, 1_792],
];

export function findImageTokens(model: string): number | null {
  const name = model.toLowerCase();
  return families.find(([family]) => family.test(name))?.[1] ?? null;
}
