/**
 * Request fields that some image and speech models accept and others reject. We forward the fields that a model's
 * `takes` contains and ignore the others (docs/api/reference.md#media-fields). For images we always send `b64_json` as
 * `response_format`, whatever the caller asked for.
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
