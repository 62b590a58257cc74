/** Operations and schemas of the image and speech routes (docs/api/reference.md#images). */
import { z } from 'zod';
import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import { describeErrors } from '../../openapi/contract/error-responses.ts';
import { callCodes } from '../../openapi/contract/operation-spec.ts';
import { correlationHeaders, parameterRefs, responseHeaderRefs } from '../../openapi/contract/parameters.ts';
import { vendorInteger, vendorNumber, vendorText } from '../../openapi/contract/vendor-values.ts';

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

const codes = [
  ...callCodes,
  'missing_model',
  'bad_model',
  'bad_shape',
  'upstream_error',
  'bad_upstream_response',
] as const satisfies readonly ErrorCode[];

export function describeMedia(): [string, string, JsonObject][] {
  const images = { 'application/json': { schema: { $ref: '#/components/schemas/ImageResult' } } };
  // The content type is that of the provider's configuration, of the vendor, or audio/mpeg.
  const audio = { 'audio/*': {} };
  return [
    ['/v1/images/generations', 'post', describeRoute('Generates images', 'ImageBody', images)],
    ['/v1/audio/speech', 'post', describeRoute('Streams speech', 'SpeechBody', audio)],
  ];
}

function describeRoute(summary: string, body: keyof typeof mediaRequests, content: JsonObject): JsonObject {
  return {
    tags: ['media'],
    summary,
    security: [{ virtualKey: [] }],
    parameters: parameterRefs(['x-gateway-source', ...correlationHeaders]),
    requestBody: { required: true, content: { 'application/json': { schema: { $ref: `#/components/schemas/${body}` } } } },
    responses: {
      '200': { description: summary, headers: responseHeaderRefs(['x-gateway-call-id', 'x-gateway-model', 'cache-control']), content },
      ...describeErrors({ style: 'chat', codes, plain: [400, 413, 415], headers: ['x-gateway-call-id'] }),
    },
  };
}
