/**
 * Operations and schemas of the six inference routes. The request schemas only cover what the gateway itself requires.
 * We forward everything else without reading it, so the objects are open. The schemas don't validate requests, because
 * calls never parse the whole body. The codecs in `dialects` check byte ranges instead, and a property test compares
 * both.
 */
import { z } from 'zod';
import { isDialect, isPromptRoute, type TextRoute, textRoutes } from '../../../core/call.ts';
import type { ErrorCode } from '../../../core/errors.ts';
import { callCodes, keyCodes, type OperationSpec, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { requestHeadersFor } from '../../openapi/contract/parameters.ts';
import { jsonContent } from '../../openapi/describe-operation.ts';

const modelForms = 'a tier, `auto`, or `<provider>/<model>` of `GET /v1/models`';
const stream = z.boolean().optional().describe('`true`: respond with server-sent events');
const forwarded = (members: z.ZodRawShape = {}) =>
  z.looseObject({ model: z.string().min(1).describe(modelForms), ...members }).describe('Goes to the vendor unchanged, but for the model.');

export const inferenceRequests = {
  ChatBody: z
    .looseObject({
      model: z.string().nullable().optional().describe(`${modelForms}; without it \`auto\` is used`),
      messages: z.array(z.unknown()),
      stream,
      user: z.unknown().optional().describe('a string names the end user where `x-gateway-memory-subject` is not sent'),
    })
    .describe('A chat completion. `stream: true` sets `stream_options.include_usage`; all other members are forwarded unchanged.'),
  MessagesBody: z
    .looseObject({
      model: z.string().optional().describe(`${modelForms}; without it \`auto\` is used`),
      max_tokens: z.number(),
      messages: z.array(z.unknown()),
      stream,
      metadata: z.unknown().optional().describe('`user_id` names the end user where `x-gateway-memory-subject` is not sent'),
    })
    .describe('A message. All other members are forwarded unchanged.'),
  CompletionBody: z
    .looseObject({
      model: z.string().nullable().optional().describe(`${modelForms}; without it \`auto\` is used`),
      prompt: z.union([z.string(), z.array(z.string()).length(1)]).describe('becomes the message of the user'),
      stream: stream.nullable(),
      suffix: z.literal('').nullable().optional().describe('not supported'),
      echo: z.literal(false).nullable().optional().describe('not supported'),
      logprobs: z.null().optional().describe('not supported'),
    })
    .describe('A legacy completion, made by a chat model. Members that chat completions have too are forwarded.'),
  CountTokensBody: z
    .looseObject({
      model: z.string().optional().describe(`${modelForms}; without it \`auto\` is used`),
      messages: z.array(z.unknown()),
    })
    .describe('A message without `max_tokens`. All other members are forwarded unchanged.'),
  EmbeddingsBody: forwarded(),
  ModerationsBody: forwarded(),
  RerankBody: forwarded(),
  ResponsesBody: forwarded({ stream }).describe(
    'Goes unchanged, but for the model, to a vendor that has the route; translated to other vendors.',
  ),
};

const vendorResponse = (members: z.ZodRawShape = {}) => z.looseObject(members).describe('The vendor’s answer, unchanged.');

export const inferenceResponses = {
  ChatCompletion: vendorResponse({ choices: z.array(z.unknown()) }),
  Completion: z.looseObject({ object: z.literal('text_completion'), choices: z.array(z.looseObject({ text: z.string() })) }),
  TokenCount: vendorResponse({ input_tokens: z.int().min(0) }),
  Message: vendorResponse({ content: z.array(z.unknown()) }),
  Response: vendorResponse({ output: z.array(z.unknown()) }),
  VendorAnswer: vendorResponse(),
};

interface InferenceRouteSpec {
  readonly path: string;
  readonly summary: string;
  readonly details: string;
  /** A body that gets a response with the demo configuration of `npm start`. */
  readonly example: unknown;
  readonly body: keyof typeof inferenceRequests;
  readonly response: keyof typeof inferenceResponses;
  readonly streams?: true;
}

/** A record by route, so that the compiler notices if one is missing. */
export const inferenceRoutes: Readonly<Record<TextRoute, InferenceRouteSpec>> = {
  chat: {
    path: '/v1/chat/completions',
    summary: 'Chat completion',
    details:
      "OpenAI's chat completions, also at vendors of the messages dialect. For ten minutes an identical request is answered from the response cache; `cache-control: no-cache` asks a vendor again.",
    example: { model: 'standard', messages: [{ role: 'user', content: 'Hello!' }] },
    body: 'ChatBody',
    response: 'ChatCompletion',
    streams: true,
  },
  messages: {
    path: '/v1/messages',
    summary: 'Message',
    details:
      "Anthropic's messages, also at vendors of the chat dialect. For ten minutes an identical request is answered from the response cache; `cache-control: no-cache` asks a vendor again.",
    example: { model: 'standard', max_tokens: 200, messages: [{ role: 'user', content: 'Hello!' }] },
    body: 'MessagesBody',
    response: 'Message',
    streams: true,
  },
  embeddings: {
    path: '/v1/embeddings',
    summary: 'Embeddings',
    details: 'The body goes to a vendor unchanged but for the model, and its answer comes back unchanged.',
    example: { model: 'embed', input: 'Hello!' },
    body: 'EmbeddingsBody',
    response: 'VendorAnswer',
  },
  moderations: {
    path: '/v1/moderations',
    summary: 'Moderation',
    details: 'The body goes to a vendor unchanged but for the model, and its answer comes back unchanged.',
    example: { model: 'auto', input: 'Hello!' },
    body: 'ModerationsBody',
    response: 'VendorAnswer',
  },
  rerank: {
    path: '/v1/rerank',
    summary: 'Ranking of documents',
    details: 'The body goes to a vendor unchanged but for the model, and its answer comes back unchanged.',
    example: { model: 'auto', query: 'Which is a greeting?', documents: ['Hello!', 'Good night'] },
    body: 'RerankBody',
    response: 'VendorAnswer',
  },
  responses: {
    path: '/v1/responses',
    summary: 'Response',
    details: "OpenAI's responses. `auto` means the tier `standard`.",
    example: { model: 'standard', input: 'Hello!' },
    body: 'ResponsesBody',
    response: 'Response',
    streams: true,
  },
};

export const inferenceOperations: OperationSpecs = {
  ...Object.fromEntries(textRoutes.map((route) => [`post ${inferenceRoutes[route].path}`, operationOf(route)])),
  'post /v1/completions': {
    ...operationOf('chat'),
    summary: 'Legacy completion, made by a chat model',
    details: 'The prompt becomes the message of the user; the response has the shape of completions. Errors and the cache are as on chat.',
    body: { name: 'CompletionBody', example: { model: 'standard', prompt: 'Say hello.' } },
    responses: { 200: { ...jsonContent('Completion'), 'text/event-stream': {} } },
  },
  'post /v1/messages/count_tokens': {
    tag: 'inference',
    summary: 'Counts the input tokens of a message',
    details: 'Costs nothing and takes no call slot. `x-gateway-token-count` says whether the vendor counted or the gateway estimated.',
    auth: 'messages',
    parameters: ['x-gateway-source', 'x-gateway-timeout-ms', 'x-gateway-memory'],
    body: { name: 'CountTokensBody', example: { model: 'standard', messages: [{ role: 'user', content: 'Hello!' }] } },
    responses: { 200: 'TokenCount' },
    description: 'The count of the vendor; an estimate when no vendor of the plan counts tokens.',
    headers: ['x-gateway-model', 'x-gateway-token-count', 'cache-control'],
    codes: [
      ...keyCodes,
      ...(['bad_json', 'unsupported_media_type', 'invalid_memory_mode', 'no_route', 'subscription_required'] as const),
      ...(['guardrail_blocked', 'budget_unavailable', 'upstream_refused', 'internal_error'] as const),
    ],
    plain: [413],
  },
};

function operationOf(route: TextRoute): OperationSpec {
  const { summary, details, example, body, response, streams } = inferenceRoutes[route];
  return {
    tag: 'inference',
    summary,
    details,
    auth: route === 'messages' ? 'messages' : 'key',
    parameters: requestHeadersFor(route),
    body: { name: body, example },
    responses: { 200: { ...jsonContent(response), ...(streams && { 'text/event-stream': {} }) } },
    description: streams ? 'The response; with `stream: true` as server-sent events.' : 'The response.',
    headers: [
      'x-gateway-call-id',
      route === 'messages' ? 'request-id' : 'x-request-id',
      'x-gateway-model',
      ...(isDialect(route) ? (['x-gateway-cache', 'x-gateway-memory-recalled'] as const) : []),
      ...(isPromptRoute(route) ? (['x-gateway-dropped', 'x-gateway-adjusted'] as const) : []),
      'cache-control',
      ...(streams ? ['x-accel-buffering' as const] : []),
    ],
    codes: [...routeCodes(route), ...callCodes, 'invalid_memory_mode', 'upstream_refused'],
    plain: isDialect(route) ? [413] : [400, 413, 415],
  };
}

function routeCodes(route: TextRoute): readonly ErrorCode[] {
  switch (route) {
    case 'chat':
    case 'messages':
      return ['bad_json', 'invalid_memory_subject', 'unsupported_media_type'];
    case 'responses':
      return ['missing_model', 'invalid_memory_subject'];
    case 'embeddings':
    case 'moderations':
    case 'rerank':
      return ['missing_model'];
  }
}
