/**
 * The interface description, OpenAPI 3.1 (specification 9): every route that exists, with what the gateway asks of requests and promises of
 * answers. Made of zod schemas and of the table of error codes; `docs/api/openapi.json` is a copy of it that a test keeps up to date.
 */
import { z } from 'zod';
import type { TextRoute } from '../core/call.ts';
import type { JsonObject } from '../core/json/narrow.ts';
import { describeParameters, responseHeaders } from './openapi/contract/parameters.ts';
import { describeInference, inferenceRoutes } from './openapi/operations/inference.ts';
import { describeMedia, mediaRequests, mediaResponses } from './openapi/operations/media.ts';
import { describeOperations } from './openapi/operations/operations.ts';
import { describeVideo, videoRequests, videoResponses } from './openapi/operations/video.ts';
import { inferenceRequests } from './openapi/schemas/inference-requests.ts';
import { memoryRequests } from './openapi/schemas/memory-requests.ts';
import { provisionRequests } from './openapi/schemas/provision-requests.ts';
import { responseSchemas } from './openapi/schemas/responses.ts';

/** The same document each time; it is plain JSON. */
export function describeApi(): JsonObject {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Model gateway',
      version: '0.1.0',
      description: 'One key for every model vendor: routed inference with failover, cost records, project memory.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: ['inference', 'media', 'memory', 'status', 'provision', 'operation'].map((name) => ({ name })),
    paths: describePaths(),
    components: {
      schemas: describeSchemas(),
      parameters: describeParameters(),
      headers: responseHeaders,
      securitySchemes: {
        virtualKey: { type: 'http', scheme: 'bearer', description: 'A virtual key; it names the project.' },
        messagesKey: {
          type: 'apiKey',
          in: 'header',
          name: 'x-api-key',
          description: 'A virtual key; `Authorization` wins when both are sent.',
        },
        adminToken: { type: 'http', scheme: 'bearer', description: 'The admin token of the deployment.' },
      },
    },
  };
}

function describePaths(): JsonObject {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const [path, method, operation] of [
    ...describeInference(),
    ...describeMedia(),
    ...describeVideo(),
    ...describeOperations(),
    describeItself(),
  ]) {
    paths[path] = { ...paths[path], [method]: { operationId: operationId(method, path), ...operation } };
  }
  return paths;
}

function describeItself(): [string, string, JsonObject] {
  const content = { 'application/json': { schema: { type: 'object' } } };
  const operation = {
    tags: ['operation'],
    summary: 'This document',
    security: [],
    responses: { 200: { description: 'OpenAPI 3.1', content } },
  };
  return ['/openapi.json', 'get', operation];
}

/** `post /v1/chat/completions` is `postV1ChatCompletions`. */
function operationId(method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

function describeSchemas(): JsonObject {
  const registry = z.registry<{ id: string }>();
  const { project, key, rotate, application, rules, catalog, reprice } = provisionRequests;
  const named: Readonly<Record<string, z.ZodType>> = {
    ...Object.fromEntries(
      Object.entries(inferenceRoutes).map(([route, { body }]) => [body, inferenceRequests[route as TextRoute]]), // The keys of that very record.
    ),
    ProjectBody: project,
    KeyBody: key,
    RotateBody: rotate,
    ApplicationBody: application,
    RulesBody: rules,
    CatalogBody: catalog,
    RepriceBody: reprice,
    ...mediaRequests,
    ...mediaResponses,
    ...videoRequests,
    ...videoResponses,
    MemoryItemBody: memoryRequests.item,
    MemoryCorrectionBody: memoryRequests.correction,
    MemoryRatingBody: memoryRequests.rating,
    MemoryRememberBody: memoryRequests.remember,
    MemoryWakeUpBody: memoryRequests.wakeUp,
    MemorySearchBody: memoryRequests.search,
    MemoryGraphBody: memoryRequests.graph,
    MemorySettingsBody: memoryRequests.settings,
    ...responseSchemas,
  };
  for (const [id, schema] of Object.entries(named)) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, { io: 'input', uri: (id) => `#/components/schemas/${id}` });
  // Both are the document's own: its dialect is that of OpenAPI 3.1, and its place says what a schema is called.
  return Object.fromEntries(Object.entries(schemas).map(([id, { $schema: _dialect, $id: _id, ...schema }]) => [id, schema]));
}
