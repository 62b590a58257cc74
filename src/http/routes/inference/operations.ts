/**
 * The operations and schemas of the six inference routes. The request schemas only cover what the gateway itself needs,
 * and allow any other fields, because we forward those without reading them.
 *
 * We don't validate requests with these schemas, because we never parse the whole body. Instead, the codecs in
 * `dialects` check ranges of bytes, and a property test makes sure that both agree.
 */
import { z } from 'zod';
import { isDialect, isPromptRoute, type TextRoute, textRoutes } from '../../../core/call.ts';
import type { ErrorCode } from '../../../core/errors.ts';
import { callCodes, keyCodes, type OperationSpec, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { requestHeadersFor } from '../../openapi/contract/parameters.ts';
import { jsonContent } from '../../openapi/describe-operation.ts';

const modelForms = 'a tier, `auto`, or a `<provider>/<model>` from `GET /v1/models`';
const stream = z.boolean().nullish().describe('whether to respond with server-sent events');
const forwarded = (members: z.ZodRawShape = {}) =>
  z
    .looseObject({ model: z.string().min(1).describe(modelForms), ...members })
    .describe('The gateway forwards everything unchanged except for the model.');

export const inferenceRequests = {
  ChatBody: z
    .looseObject({
      model: z.string().nullable().optional().describe(`${modelForms}; by default \`auto\``),
      messages: z.array(z.unknown()),
      stream,
      user: z.unknown().optional().describe('if it is a string, the end user, unless the request has `x-gateway-memory-subject`'),
    })
    .describe(
      'A chat completion. If `stream` is true, the gateway sets `stream_options.include_usage`. It forwards all other members unchanged.',
    ),
  MessagesBody: z
    .looseObject({
      model: z.string().optional().describe(`${modelForms}; by default \`auto\``),
      max_tokens: z.number(),
      messages: z.array(z.unknown()),
      stream,
      metadata: z.unknown().optional().describe('`user_id` is the end user, unless the request has `x-gateway-memory-subject`'),
    })
    .describe('A message. The gateway forwards all other members unchanged.'),
  CompletionBody: z
    .looseObject({
      model: z.string().nullable().optional().describe(`${modelForms}; by default \`auto\``),
      prompt: z.union([z.string(), z.array(z.string()).length(1)]).describe('the text of the user message'),
      stream,
      suffix: z.literal('').nullable().optional().describe('not supported'),
      echo: z.literal(false).nullable().optional().describe('not supported'),
      logprobs: z.null().optional().describe('not supported'),
    })
    .describe('A legacy completion, which a chat model writes. The gateway forwards the members that chat completions also have.'),
  CountTokensBody: z
    .looseObject({
      model: z.string().optional().describe(`${modelForms}; by default \`auto\``),
      messages: z.array(z.unknown()),
    })
    .describe('A message without `max_tokens`. The gateway forwards all other members unchanged.'),
  EmbeddingsBody: forwarded(),
  ModerationsBody: forwarded(),
  RerankBody: forwarded(),
  ResponsesBody: forwarded({ stream }).describe(
    'If the vendor has the route, the gateway forwards everything unchanged except for the model. For other vendors, it translates the request.',
  ),
};

const vendorResponse = (members: z.ZodRawShape = {}) => z.looseObject(members).describe("The vendor's response, unchanged.");

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
  /** An example request body that works with the demo configuration of `npm start`. */
  readonly example: unknown;
  readonly body: keyof typeof inferenceRequests;
  readonly response: keyof typeof inferenceResponses;
  readonly streams?: true;
}

/** The type makes the compiler complain if a route is missing. */
export const inferenceRoutes: Readonly<Record<TextRoute, InferenceRouteSpec>> = {
  chat: {
    path: '/v1/chat/completions',
    summary: 'Creates a chat completion',
    details:
      "This is OpenAI's chat completions API, which the gateway also offers for vendors of the messages dialect. For ten minutes, it answers identical requests from the response cache. Send `cache-control: no-cache` to call a vendor again.",
    example: { model: 'standard', messages: [{ role: 'user', content: 'Hello!' }] },
    body: 'ChatBody',
    response: 'ChatCompletion',
    streams: true,
  },
  messages: {
    path: '/v1/messages',
    summary: 'Creates a message',
    details:
      "This is Anthropic's messages API, which the gateway also offers for vendors of the chat dialect. For ten minutes, it answers identical requests from the response cache. Send `cache-control: no-cache` to call a vendor again.",
    example: { model: 'standard', max_tokens: 200, messages: [{ role: 'user', content: 'Hello!' }] },
    body: 'MessagesBody',
    response: 'Message',
    streams: true,
  },
  embeddings: {
    path: '/v1/embeddings',
    summary: 'Creates embeddings',
    details: "The gateway forwards the body unchanged except for the model, and returns the vendor's response unchanged.",
    example: { model: 'embed', input: 'Hello!' },
    body: 'EmbeddingsBody',
    response: 'VendorAnswer',
  },
  moderations: {
    path: '/v1/moderations',
    summary: 'Classifies content for moderation',
    details: "The gateway forwards the body unchanged except for the model, and returns the vendor's response unchanged.",
    example: { model: 'auto', input: 'Hello!' },
    body: 'ModerationsBody',
    response: 'VendorAnswer',
  },
  rerank: {
    path: '/v1/rerank',
    summary: 'Ranks documents',
    details: "The gateway forwards the body unchanged except for the model, and returns the vendor's response unchanged.",
    example: { model: 'auto', query: 'Which is a greeting?', documents: ['Hello!', 'Good night'] },
    body: 'RerankBody',
    response: 'VendorAnswer',
  },
  responses: {
    path: '/v1/responses',
    summary: 'Creates a response',
    details: "This is OpenAI's responses API. The model `auto` stands for the `standard` tier.",
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
    summary: 'Creates a legacy completion with a chat model',
    details:
      'The prompt becomes a user message, and the response has the format of legacy completions. Errors and the cache work as they do for chat completions.',
    body: { name: 'CompletionBody', example: { model: 'standard', prompt: 'Say hello.' } },
    responses: { 200: { ...jsonContent('Completion'), 'text/event-stream': {} } },
  },
  'post /v1/messages/count_tokens': {
    tag: 'inference',
    summary: 'Counts the input tokens of a message',
    details:
      'Counting costs nothing and does not take a call slot. If the gateway had to estimate the count, the response has `x-gateway-token-count: estimated`.',
    auth: 'messages',
    parameters: ['x-gateway-source', 'x-gateway-timeout-ms', 'x-gateway-memory'],
    body: { name: 'CountTokensBody', example: { model: 'standard', messages: [{ role: 'user', content: 'Hello!' }] } },
    responses: { 200: 'TokenCount' },
    description: "The vendor's count, or an estimate if no vendor in the plan counts tokens.",
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
    description: streams ? 'The response, which is sent as server-sent events if `stream` is true.' : 'The response.',
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
