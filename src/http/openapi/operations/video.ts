/** The three video routes (specification 4.6, shapes 11). */
import { z } from 'zod';
import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import { describeErrors } from '../contract/error-responses.ts';
import { callCodes, keyCodes } from '../contract/operation-spec.ts';
import type { ResponseHeader } from '../contract/parameters.ts';
import { correlationHeaders, parameterRefs, responseHeaderRefs } from '../contract/parameters.ts';
import { vendorInteger, vendorNumber, vendorText } from '../contract/vendor-values.ts';

export const videoRequests = {
  VideoBody: z
    .looseObject({
      model: z
        .string()
        .regex(/^([A-Za-z0-9._:-]+(\/[A-Za-z0-9._:-]+)?)?$/)
        .nullable()
        .optional()
        .describe('`<provider>/<model>`, or a model of the default video provider; without it the default video model'),
      prompt: z.string().regex(/\S/).describe('what is to be seen'),
      image: z
        .looseObject({ b64_json: z.string().min(1), mime_type: z.string().min(1) })
        .nullable()
        .optional()
        .describe('the first frame'),
      aspect_ratio: vendorText.describe('such as `16:9`'),
      duration_seconds: vendorNumber.describe('the length of one video'),
      resolution: vendorText.describe('such as `720p`'),
      negative_prompt: vendorText.describe('what is not to be seen'),
      seed: vendorInteger,
      n: vendorInteger.describe('how many videos; default 1'),
    })
    .describe('A video. What is not given is left to the vendor; members that are not named here are ignored.'),
  VideoOperationBody: z.looseObject({
    operation: z.string().min(1).describe('of the answer of `/v1/video/generations`, or its address at the vendor'),
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
    .describe('`video_uri` and `videos` are there when it is done.'),
};

/** Asking for what was started is no call of a model. */
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
      summary: 'Whether a video is done',
      body: 'VideoOperationBody',
      content: jsonContent('VideoOperation'),
      codes: [...laterCodes, 'missing_operation', 'video_failed'],
    }),
    describeRoute({
      path: '/v1/video/download',
      summary: 'The file of a video, as it comes',
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
