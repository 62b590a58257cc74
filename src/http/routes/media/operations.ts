/** Operations and schemas of the image, speech and transcription routes (docs/api/reference.md#media). */
import { z } from 'zod';
import { takeableFields } from '../../../core/takeable-fields.ts';
import { callCodes, type OperationSpec, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { correlationHeaders } from '../../openapi/contract/parameters.ts';
import { jsonContent } from '../../openapi/describe-operation.ts';
import { vendorInteger, vendorNumber, vendorText } from '../../openapi/schemas/primitives.ts';

const modelForms = '`<provider>/<model>`, a tier of the route, or a model of its default provider';

const imageModel = z
  .string()
  .regex(/^[A-Za-z0-9._:-]+(\/[A-Za-z0-9._:-]+)?$/)
  .describe(modelForms);

const file = z.string().meta({ format: 'binary' });

const optionalFields = (kind: keyof typeof takeableFields): string =>
  takeableFields[kind]
    .filter((name) => name !== 'response_format')
    .map((name) => `\`${name}\``)
    .join(', ');

/** Request schemas. Members that aren't listed are ignored. */
export const mediaRequests = {
  ImageBody: z
    .looseObject({
      model: imageModel,
      prompt: vendorText.describe('what the image shows'),
      n: vendorInteger.describe('number of images; default 1; standard shape only'),
      size: vendorText.describe('`<width>x<height>`; default `1024x1024`'),
      steps: vendorInteger.describe('default 4; artifacts shape only'),
      seed: vendorInteger.describe('artifacts shape only'),
      cfg_scale: vendorNumber.describe('artifacts shape only'),
      response_format: z.unknown().optional().describe('images are returned as `b64_json`, whatever it says'),
    })
    .describe(`An image. Sent only to models that take them: ${optionalFields('images')}. Other members are ignored.`),
  SpeechBody: z
    .looseObject({
      model: z.string().min(1).describe(`${modelForms}; of a vendor whose models are voices \`<provider>/<voice>\``),
      input: vendorText.describe('the text to speak'),
      voice: vendorText.describe('default `alloy`; standard shape only'),
      response_format: vendorText.describe('default `mp3`; standard shape only'),
    })
    .describe(`Speech. Sent only to models that take them: ${optionalFields('speech')}. Other members are ignored.`),
  ImageEditUpload: z
    .looseObject({
      model: imageModel,
      image: file.describe('the image to edit; several as `image[]`'),
      prompt: z.string().optional().describe('what the result shows'),
      n: z.string().optional().describe('number of images; default 1'),
      response_format: z.string().optional().describe('images are returned as `b64_json`, whatever it says'),
    })
    .describe('All parts are forwarded unchanged; `model` is replaced with that of the vendor.'),
  AudioUpload: z
    .looseObject({
      model: z.string().min(1).describe(modelForms),
      file: file.describe('the audio'),
      prompt: z.string().optional().describe('guides the style of the text'),
    })
    .describe('All parts are forwarded unchanged; `model` is replaced with that of the vendor.'),
} as const;

export const mediaResponses = {
  ImageResult: z
    .looseObject({ created: z.int(), data: z.array(z.looseObject({ b64_json: z.string().min(1) })).min(1) })
    .describe('One base64 entry per image, in any response format of the vendor.'),
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

/** Transcriptions and translations return whatever the vendor sends, which may be JSON, text, subtitles or events. */
const transcribed = 'The parts go to exactly one provider while they arrive; the response is what the provider sends.';
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
    details: 'Exactly one provider is called. The response has base64 in every case.',
    body: { name: 'ImageBody', example: { model: 'standard', prompt: 'a lighthouse at night' } },
    responses: { 200: 'ImageResult' },
    headers: imageHeaders,
    codes: [...base.codes, 'bad_model'],
  },
  'post /v1/images/edits': {
    ...base,
    summary: 'Edits images',
    details: 'The parts go to exactly one provider while they arrive.',
    body: { name: 'ImageEditUpload', mediaType: 'multipart/form-data' },
    responses: { 200: { ...jsonContent('ImageResult'), 'text/event-stream': {} } },
    headers: imageHeaders,
    codes: [...transcribe.codes, 'bad_model'],
  },
  'post /v1/audio/transcriptions': { ...base, ...transcribe, summary: 'Transcribes audio', details: transcribed },
  'post /v1/audio/translations': { ...base, ...transcribe, summary: 'Translates audio into English text', details: transcribed },
  'post /v1/audio/speech': {
    ...base,
    summary: 'Streams speech',
    details: 'Exactly one provider is called, and the audio is sent while it arrives.',
    body: { name: 'SpeechBody', example: { model: 'standard', input: 'Hello!' } },
    // The content type comes from the provider's configuration, or else from the vendor. The default is audio/mpeg.
    responses: { 200: { 'audio/*': {} } },
  },
};
