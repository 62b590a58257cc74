import { z } from 'zod';
import { supportedParams } from '../../../core/supported-params.ts';
import { callCodes, type OperationSpec, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { correlationHeaders } from '../../openapi/contract/parameters.ts';
import { jsonContent } from '../../openapi/describe-operation.ts';
import { vendorInteger, vendorNumber, vendorText } from '../../openapi/schemas/primitives.ts';

const modelForms = 'a `<provider>/<model>`, a tier of the route, or a model of its default provider';

const imageModel = z
  .string()
  .regex(/^[A-Za-z0-9._:-]+(\/[A-Za-z0-9._:-]+)?$/)
  .describe(modelForms);

const file = z.string().meta({ format: 'binary' });

const optionalFields = (kind: keyof typeof supportedParams): string =>
  supportedParams[kind]
    .filter((name) => name !== 'response_format')
    .map((name) => `\`${name}\``)
    .join(', ');

export const mediaRequests = {
  ImageBody: z
    .looseObject({
      model: imageModel,
      prompt: vendorText.describe('what the image shows'),
      n: vendorInteger.describe('number of images, by default 1; only for the standard shape'),
      size: vendorText.describe('`<width>x<height>`, by default `1024x1024`'),
      steps: vendorInteger.describe('by default 4; only for the artifacts shape'),
      seed: vendorInteger.describe('only for the artifacts shape'),
      cfg_scale: vendorNumber.describe('only for the artifacts shape'),
      response_format: z.unknown().optional().describe('ignored, because images are always returned as `b64_json`'),
    })
    .describe(
      `An image. The gateway only forwards these members to models that accept them: ${optionalFields('images')}. It ignores members that are not listed here.`,
    ),
  SpeechBody: z
    .looseObject({
      model: z.string().min(1).describe(`${modelForms}; if a vendor's models are voices, \`<provider>/<voice>\``),
      input: vendorText.describe('the text to speak'),
      voice: vendorText.describe('by default `alloy`; only for the standard shape'),
      response_format: vendorText.describe('by default `mp3`; only for the standard shape'),
    })
    .describe(
      `Speech. The gateway only forwards these members to models that accept them: ${optionalFields('speech')}. It ignores members that are not listed here.`,
    ),
  ImageEditUpload: z
    .looseObject({
      model: imageModel,
      image: file.describe('the image to edit; name the parts `image[]` if there are several'),
      prompt: z.string().optional().describe('what the edited image shows'),
      n: z.string().optional().describe('number of images, by default 1'),
      response_format: z.string().optional().describe('ignored, because images are always returned as `b64_json`'),
    })
    .describe("The gateway forwards all parts unchanged, but replaces `model` with the vendor's name for it."),
  AudioUpload: z
    .looseObject({
      model: z.string().min(1).describe(modelForms),
      file: file.describe('the audio'),
      prompt: z.string().optional().describe('a text that guides the style of the transcript'),
    })
    .describe("The gateway forwards all parts unchanged, but replaces `model` with the vendor's name for it."),
} as const;

export const mediaResponses = {
  ImageResult: z
    .looseObject({ created: z.int(), data: z.array(z.looseObject({ b64_json: z.string().min(1) })).min(1) })
    .describe('One base64 entry for each image, whatever format the vendor uses.'),
};

const base = {
  tag: 'media',
  auth: 'key',
  parameters: ['x-gateway-source', ...correlationHeaders],
  headers: ['x-gateway-call-id', 'x-request-id', 'x-gateway-model', 'cache-control'],
  codes: [...callCodes, 'missing_model', 'bad_shape', 'upstream_error', 'bad_upstream_response'],
  plain: [400, 413, 415],
} as const satisfies Partial<OperationSpec>;
const imageHeaders = [...base.headers, 'x-gateway-warning'] as const;

/**
 * Vendors return transcriptions and translations as JSON, text, subtitles or events, and we pass on whatever they
 * return.
 */
const transcribed = "The gateway forwards the parts to exactly one provider while they arrive, and returns the provider's response.";
const transcript = { 'application/json': {}, 'text/plain': {}, 'text/event-stream': {} };
const transcribe: Pick<OperationSpec, 'body' | 'responses' | 'codes'> = {
  body: { name: 'AudioUpload', mediaType: 'multipart/form-data' },
  responses: { 200: transcript },
  codes: base.codes.filter((code) => code !== 'bad_shape'),
};

export const mediaOperations: OperationSpecs = {
  'post /v1/images/generations': {
    ...base,
    summary: 'Generates images',
    details: 'The gateway calls exactly one provider. The response always contains base64.',
    body: { name: 'ImageBody', example: { model: 'standard', prompt: 'a lighthouse at night' } },
    responses: { 200: 'ImageResult' },
    headers: imageHeaders,
    codes: [...base.codes, 'bad_model'],
  },
  'post /v1/images/edits': {
    ...base,
    summary: 'Edits images',
    details: 'The gateway forwards the parts to exactly one provider while they arrive.',
    body: { name: 'ImageEditUpload', mediaType: 'multipart/form-data' },
    responses: { 200: { ...jsonContent('ImageResult'), 'text/event-stream': {} } },
    headers: imageHeaders,
    codes: [...transcribe.codes, 'bad_model'],
  },
  'post /v1/audio/transcriptions': { ...base, ...transcribe, summary: 'Transcribes audio', details: transcribed },
  'post /v1/audio/translations': { ...base, ...transcribe, summary: 'Translates audio into English text', details: transcribed },
  'post /v1/audio/speech': {
    ...base,
    summary: 'Turns text into speech',
    details: 'The gateway calls exactly one provider, and forwards the audio while it arrives.',
    body: { name: 'SpeechBody', example: { model: 'standard', input: 'Hello!' } },
    // The content type comes from the provider's configuration, or else from the vendor. Defaults to audio/mpeg.
    responses: { 200: { 'audio/*': {} } },
  },
};
