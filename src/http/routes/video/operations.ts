import { z } from 'zod';
import { callCodes, keyCodes, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { correlationHeaders } from '../../openapi/contract/parameters.ts';
import { vendorInteger, vendorNumber, vendorText } from '../../openapi/schemas/primitives.ts';

export const videoRequests = {
  VideoBody: z
    .looseObject({
      model: z
        .string()
        .regex(/^([A-Za-z0-9._:-]+(\/[A-Za-z0-9._:-]+)?)?$/)
        .nullable()
        .optional()
        .describe('a `<provider>/<model>`, or a model of the default video provider; if you omit it, the default video model is used'),
      prompt: z.string().regex(/\S/).describe('what the video shows'),
      image: z
        .looseObject({ b64_json: z.string().min(1), mime_type: z.string().min(1) })
        .nullable()
        .optional()
        .describe('the first frame'),
      aspect_ratio: vendorText.describe('such as `16:9`'),
      duration_seconds: vendorNumber.describe('length of one video'),
      resolution: vendorText.describe('such as `720p`'),
      negative_prompt: vendorText.describe('what the video should not show'),
      seed: vendorInteger,
      n: z.int().min(1).nullable().optional().describe('number of videos, by default 1'),
    })
    .describe('A video. The vendor chooses the values that you omit. The gateway ignores members that are not listed here.'),
  VideoOperationBody: z.looseObject({
    operation: z.string().min(1).describe('the operation from the response of `/v1/video/generations`, or its URL at the vendor'),
  }),
  VideoDownloadBody: z.looseObject({ uri: z.string().min(1).describe('the `video_uri` of a finished video') }),
} as const;

const uri = z.string().describe('the value to send to `/v1/video/download`');

export const videoResponses = {
  VideoStart: z.looseObject({ operation: z.string(), done: z.literal(false), model: z.string().describe('`<provider>/<model>`') }),
  VideoOperation: z
    .looseObject({
      operation: z.string(),
      done: z.boolean(),
      video_uri: uri.optional(),
      videos: z.array(z.looseObject({ video_uri: uri })).optional(),
    })
    .describe('If `done` is true, `video_uri` and `videos` are present.'),
};

/** The error codes of polls and downloads. They don't call a model, so they have fewer error codes than calls. */
const laterCodes = [
  ...keyCodes,
  'no_route',
  'forbidden_target',
  'upstream_failed',
  'upstream_error',
  'subscription_required',
  'tenant_capped',
  'source_capped',
  'credits_exhausted',
  'budget_unavailable',
  'internal_error',
] as const;

const base = {
  tag: 'media',
  auth: 'key',
  headers: ['x-gateway-call-id', 'x-request-id', 'cache-control'],
  plain: [400, 413, 415],
} as const;

export const videoOperations: OperationSpecs = {
  'post /v1/video/generations': {
    ...base,
    summary: 'Starts a video',
    details: 'The gateway charges an estimated cost, and corrects it when the video is finished.',
    parameters: ['x-gateway-source', ...correlationHeaders],
    body: { name: 'VideoBody', example: { prompt: 'a lighthouse at night' } },
    responses: { 200: 'VideoStart' },
    headers: ['x-gateway-call-id', 'x-request-id', 'x-gateway-model', 'cache-control'],
    codes: [...callCodes, 'bad_model', 'bad_request', 'bad_shape', 'upstream_error', 'bad_upstream_response'],
  },
  'post /v1/video/operations': {
    ...base,
    summary: 'Gets the state of a video',
    details: 'For videos of other projects, the response is the same as for unknown videos.',
    body: { name: 'VideoOperationBody' },
    responses: { 200: 'VideoOperation' },
    codes: [...laterCodes, 'missing_operation', 'video_failed'],
  },
  'post /v1/video/download': {
    ...base,
    summary: 'Downloads a video',
    details: "The gateway only accepts addresses on the video vendor's host.",
    body: { name: 'VideoDownloadBody' },
    // The response has the vendor's content type, or `video/mp4` if the vendor didn't send one.
    responses: { 200: { 'video/*': {} } },
    codes: [...laterCodes, 'missing_uri'],
  },
};
