/** Operations and schemas of the video routes (docs/api/reference.md#video). */
import { z } from 'zod';
import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import { describeErrors } from '../../openapi/contract/error-responses.ts';
import { callCodes, keyCodes } from '../../openapi/contract/operation-spec.ts';
import type { ResponseHeader } from '../../openapi/contract/parameters.ts';
import { correlationHeaders, parameterRefs, responseHeaderRefs } from '../../openapi/contract/parameters.ts';
import { vendorInteger, vendorNumber, vendorText } from '../../openapi/contract/vendor-values.ts';

export const videoRequests = {
  VideoBody: z
    .looseObject({
      model: z
        .string()
        .regex(/^([A-Za-z0-9._:-]+(\/[A-Za-z0-9._:-]+)?)?$/)
        .nullable()
        .optional()
        .describe('`<provider>/<model>`, or a model of the default video provider; without it the default video model'),
      prompt: z.string().regex(/\S/).describe('what the video shows'),
      image: z
        .looseObject({ b64_json: z.string().min(1), mime_type: z.string().min(1) })
        .nullable()
        .optional()
        .describe('the first frame'),
      aspect_ratio: vendorText.describe('such as `16:9`'),
      duration_seconds: vendorNumber.describe('length of one video'),
      resolution: vendorText.describe('such as `720p`'),
      negative_prompt: vendorText.describe('what the video must not show'),
      seed: vendorInteger,
      n: vendorInteger.describe('number of videos; default 1'),
    })
    .describe('A video. The vendor chooses omitted values; members not listed here are ignored.'),
  VideoOperationBody: z.looseObject({
    operation: z.string().min(1).describe('from the response of `/v1/video/generations`, or its URL at the vendor'),
  }),
  VideoDownloadBody: z.looseObject({ uri: z.string().min(1).describe('the `video_uri` of a finished video') }),
} as const;

const uri = z.string().describe('for `/v1/video/download`');

export const videoResponses = {
  VideoStart: z.looseObject({ operation: z.string(), done: z.literal(false), model: z.string().describe('`<provider>/<model>`') }),
  VideoOperation: z
    .looseObject({
      operation: z.string(),
      done: z.boolean(),
      video_uri: uri.optional(),
      videos: z.array(z.looseObject({ video_uri: uri })).optional(),
    })
    .describe('`video_uri` and `videos` are present when `done` is true.'),
};

/** Polling and downloading are not model calls. */
const laterCodes = [
  ...keyCodes,
  'no_route',
  'forbidden_target',
  'upstream_failed',
  'upstream_error',
  'budget_unavailable',
  'internal_error',
] as const;

export function describeVideo(): [string, string, JsonObject][] {
  return [
    describeRoute({
      path: '/v1/video/generations',
      summary: 'Starts a video',
      body: 'VideoBody',
      content: jsonContent('VideoStart'),
      codes: [...callCodes, 'bad_model', 'bad_request', 'bad_shape', 'upstream_error', 'bad_upstream_response'],
      parameters: ['x-gateway-source', ...correlationHeaders],
      headers: ['x-gateway-model'],
    }),
    describeRoute({
      path: '/v1/video/operations',
      summary: 'Gets the state of a video',
      body: 'VideoOperationBody',
      content: jsonContent('VideoOperation'),
      codes: [...laterCodes, 'missing_operation', 'video_failed'],
    }),
    describeRoute({
      path: '/v1/video/download',
      summary: 'Streams the file of a video',
      body: 'VideoDownloadBody',
      // The vendor's type, or video/mp4.
      content: { 'video/*': {} },
      codes: [...laterCodes, 'missing_uri'],
    }),
  ];
}

interface VideoRouteSpec {
  readonly path: string;
  readonly summary: string;
  readonly body: keyof typeof videoRequests;
  readonly content: JsonObject;
  readonly codes: readonly ErrorCode[];
  readonly parameters?: readonly string[];
  readonly headers?: readonly ResponseHeader[];
}

function describeRoute({
  path,
  summary,
  body,
  content,
  codes,
  parameters = [],
  headers = [],
}: VideoRouteSpec): [string, string, JsonObject] {
  return [
    path,
    'post',
    {
      tags: ['media'],
      summary,
      security: [{ virtualKey: [] }],
      ...(parameters.length > 0 && { parameters: parameterRefs(parameters) }),
      requestBody: { required: true, content: { 'application/json': { schema: { $ref: `#/components/schemas/${body}` } } } },
      responses: {
        '200': { description: summary, headers: responseHeaderRefs(['x-gateway-call-id', ...headers, 'cache-control']), content },
        ...describeErrors({ style: 'chat', codes, plain: [400, 413, 415], headers: ['x-gateway-call-id'] }),
      },
    },
  ];
}

function jsonContent(answer: keyof typeof videoResponses): JsonObject {
  return { 'application/json': { schema: { $ref: `#/components/schemas/${answer}` } } };
}
