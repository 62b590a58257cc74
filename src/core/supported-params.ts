/**
 * Request fields that some image and speech models accept and others reject. We forward the ones that are listed in a
 * model's `takes` and drop the rest (docs/api/reference.md#media-fields). For images we always request `b64_json`, no
 * matter which `response_format` the caller asked for.
 */
export const supportedParams = {
  images: [
    'response_format',
    'quality',
    'background',
    'output_format',
    'output_compression',
    'moderation',
    'style',
    'complexity',
    'negative_prompt',
    'seed',
    'steps',
    'safety_identifier',
    'user',
  ],
  speech: ['speed', 'instructions'],
} as const;

export type SupportedParam = (typeof supportedParams)['images' | 'speech'][number];
