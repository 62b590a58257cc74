/** Operations of the six inference routes. */
import type { TextRoute } from '../../../core/call.ts';
import type { ErrorCode } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import { describeErrors } from '../../openapi/contract/error-responses.ts';
import { callCodes } from '../../openapi/contract/operation-spec.ts';
import type { ResponseHeader } from '../../openapi/contract/parameters.ts';
import { parameterRefs, requestHeadersFor, responseHeaderRefs } from '../../openapi/contract/parameters.ts';
import type { ResponseName } from '../../openapi/schemas/responses.ts';

interface InferenceRouteSpec {
  readonly path: string;
  readonly summary: string;
  readonly body: string;
  readonly response: ResponseName;
  readonly streams?: true;
}

/** By route, so that the compiler finds a missing one; `body` is the name of the request schema. */
export const inferenceRoutes: Readonly<Record<TextRoute, InferenceRouteSpec>> = {
  chat: { path: '/v1/chat/completions', summary: 'Chat completion', body: 'ChatBody', response: 'ChatCompletion', streams: true },
  messages: { path: '/v1/messages', summary: 'Message', body: 'MessagesBody', response: 'Message', streams: true },
  embeddings: { path: '/v1/embeddings', summary: 'Embeddings', body: 'EmbeddingsBody', response: 'VendorAnswer' },
  moderations: { path: '/v1/moderations', summary: 'Moderation', body: 'ModerationsBody', response: 'VendorAnswer' },
  rerank: { path: '/v1/rerank', summary: 'Ranking of documents', body: 'RerankBody', response: 'VendorAnswer' },
  responses: { path: '/v1/responses', summary: 'Response', body: 'ResponsesBody', response: 'Response', streams: true },
};

const commonCodes = [...callCodes, 'invalid_memory_mode', 'upstream_refused'] as const satisfies readonly ErrorCode[];

export function describeInference(): [string, string, JsonObject][] {
  return textRoutes.map((route) => [inferenceRoutes[route].path, 'post', describeRoute(route)]);
}

const textRoutes: readonly TextRoute[] = ['chat', 'messages', 'embeddings', 'moderations', 'rerank', 'responses'];

function describeRoute(route: TextRoute): JsonObject {
  const { summary, body, response: responseSchema, streams } = inferenceRoutes[route];
  const isDialect = route === 'chat' || route === 'messages';
  const headers: ResponseHeader[] = [
    'x-gateway-call-id',
    'x-gateway-model',
    ...(isDialect ? ['x-gateway-cache' as const] : []),
    'cache-control',
    ...(streams ? ['x-accel-buffering' as const] : []),
  ];
  return {
    tags: ['inference'],
    summary,
    security: [{ virtualKey: [] }, ...(route === 'messages' ? [{ messagesKey: [] }] : [])],
    parameters: parameterRefs(requestHeadersFor(route)),
    requestBody: { required: true, content: { 'application/json': { schema: { $ref: `#/components/schemas/${body}` } } } },
    responses: {
      '200': {
        description: streams ? 'The response; with `stream: true` as server-sent events.' : 'The response.',
        headers: responseHeaderRefs(headers),
        content: {
          'application/json': { schema: { $ref: `#/components/schemas/${responseSchema}` } },
          ...(streams && { 'text/event-stream': {} }),
        },
      },
      ...describeErrors({
        style: route === 'messages' ? 'messages' : 'chat',
        codes: [...routeCodes(route), ...commonCodes],
        plain: isDialect ? [413] : [400, 413, 415],
        headers: ['x-gateway-call-id'],
      }),
    },
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
