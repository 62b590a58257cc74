/** Operations and schemas of the image and speech routes (docs/api/reference.md#images). */
import { z } from 'zod';
import { callCodes, type OperationSpec, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { correlationHeaders } from '../../openapi/contract/parameters.ts';
import { vendorInteger, vendorNumber, vendorText } from '../../openapi/schemas/primitives.ts';

const modelForms = '`<provider>/<model>`, a tier of the route, or a model of its default provider';

/** Request schemas; members not listed are ignored. */
export const mediaRequests = {
  ImageBody: z
    .looseObject({
      model: z
        .string()
        .regex(/^[A-Za-z0-9._:-]+(\/[A-Za-z0-9._:-]+)?$/)
        .describe(modelForms),
      prompt: vendorText.describe('what the image shows'),
      n: vendorInteger.describe('number of images; default 1; standard shape only'),
      size: vendorText.describe('`<width>x<height>`; default `1024x1024`'),
      steps: vendorInteger.describe('default 4; artifacts shape only'),
      seed: vendorInteger.describe('artifacts shape only'),
      cfg_scale: vendorNumber.describe('artifacts shape only'),
    })
    .describe('An image. Members not listed here are ignored.'),
  SpeechBody: z
    .looseObject({
      model: z.string().min(1).describe(`${modelForms}; of a vendor whose models are voices \`<provider>/<voice>\``),
      input: vendorText.describe('the text to speak'),
      voice: vendorText.describe('default `alloy`; standard shape only'),
      response_format: vendorText.describe('default `mp3`; standard shape only'),
    })
    .describe('Speech. Members not listed here are ignored.'),
} as const;

export const mediaResponses = {
  ImageResult: z
    .object({ created: z.int(), data: z.array(z.object({ b64_json: z.string().min(1) })).min(1) })
    .describe('One base64 entry per image, in any response format of the vendor.'),
};

const base: Pick<OperationSpec, 'tag' | 'auth' | 'parameters' | 'headers' | 'codes' | 'plain'> = {
  tag: 'media',
  auth: 'key',
  parameters: ['x-gateway-source', ...correlationHeaders],
  headers: ['x-gateway-call-id', 'x-gateway-model', 'cache-control'],
  codes: [...callCodes, 'missing_model', 'bad_model', 'bad_shape', 'upstream_error', 'bad_upstream_response'],
  plain: [400, 413, 415],
};

export const mediaOperations: OperationSpecs = {
  'post /v1/images/generations': { ...base, summary: 'Generates images', body: { name: 'ImageBody' }, responses: { 200: 'ImageResult' } },
  'post /v1/audio/speech': {
    ...base,
    summary: 'Streams speech',
    body: { name: 'SpeechBody' },
    // The content type is that of the provider's configuration, of the vendor, or audio/mpeg.
    responses: { 200: { 'audio/*': {} } },
  },
};
