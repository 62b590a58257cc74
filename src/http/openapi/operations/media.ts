/** The image and speech routes (specification 4.6). */
import { z } from 'zod';
import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import { describeErrors } from '../contract/error-responses.ts';
import { callCodes } from '../contract/operation-spec.ts';
import { correlationHeaders, parameterRefs, responseHeaderRefs } from '../contract/parameters.ts';
import { vendorInteger, vendorNumber, vendorText } from '../contract/vendor-values.ts';

const modelForms = '`<provider>/<model>`, a tier of the route, or a model of its default provider';

/** All other members are ignored. */
export const mediaRequests = {
  ImageBody: z
    .looseObject({
      model: z
        .string()
        .regex(/^[A-Za-z0-9._:-]+(\/[A-Za-z0-9._:-]+)?$/)
        .describe(modelForms),
      prompt: vendorText.describe('what is to be seen'),
      n: vendorInteger.describe('how many images; default 1; standard shape alone'),
      size: vendorText.describe('`<width>x<height>`; default `1024x1024`'),
      steps: vendorInteger.describe('default 4; artifacts shape alone'),
      seed: vendorInteger.describe('artifacts shape alone'),
      cfg_scale: vendorNumber.describe('artifacts shape alone'),
    })
    .describe('An image. Members that are not named here are ignored.'),
  SpeechBody: z
    .looseObject({
      model: z.string().min(1).describe(`${modelForms}; of a vendor whose models are voices \`<provider>/<voice>\``),
      input: vendorText.describe('the text to speak'),
      voice: vendorText.describe('default `alloy`; standard shape alone'),
      response_format: vendorText.describe('default `mp3`; standard shape alone'),
    })
    .describe('Speech. Members that are not named here are ignored.'),
} as const;

export const mediaResponses = {
  ImageResult: z
    .object({ created: z.int(), data: z.array(z.object({ b64_json: z.string().min(1) })).min(1) })
    .describe('One entry an image, in base64, whatever the vendor answers with.'),
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
  // A type is that of the provider's row, of the vendor, or audio/mpeg.
  const audio = { 'audio/*': {} };
  return [
    ['/v1/images/generations', 'post', describeRoute('Images', 'ImageBody', images)],
    ['/v1/audio/speech', 'post', describeRoute('Speech, as it comes', 'SpeechBody', audio)],
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
