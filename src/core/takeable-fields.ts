/**
 * Request fields that some image and speech models accept and others reject. A model's `takes` lists those that are forwarded; the others are
 * ignored (docs/api/reference.md#media-fields). `response_format` of images is sent as `b64_json`, whatever the caller's value.
 */
export const takeableFields = {
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

export type TakeableField = (typeof takeableFields)['images' | 'speech'][number];
