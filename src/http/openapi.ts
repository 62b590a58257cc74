/**
 * The API description, OpenAPI 3.1: every route with its requests and responses. Generated from zod schemas and the table of error codes;
 * a test compares `docs/api/openapi.json` with it.
 */
import { z } from 'zod';
import type { TextRoute } from '../core/call.ts';
import type { JsonObject } from '../core/json/narrow.ts';
import { describeParameters, responseHeaders } from './openapi/contract/parameters.ts';
import { describeOperations } from './openapi/describe-operation.ts';
import { responseSchemas } from './openapi/schemas/responses.ts';
import { describeInference, inferenceRoutes } from './routes/inference/operations.ts';
import { inferenceRequests } from './routes/inference/request-schemas.ts';
import { describeMedia, mediaRequests, mediaResponses } from './routes/media/operations.ts';
import { memoryOperations } from './routes/memory/operations.ts';
import { memoryRequests } from './routes/memory/request-schemas.ts';
import { provisionOperations } from './routes/provision/operations.ts';
import { provisionRequests } from './routes/provision/request-schemas.ts';
import { statusOperations } from './routes/status/operations.ts';
import { describeVideo, videoRequests, videoResponses } from './routes/video/operations.ts';

/** The document as plain JSON; deterministic. */
export function describeApi(): JsonObject {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Model gateway',
      version: '0.1.0',
      description: 'One key for all model vendors: routed inference with failover, cost records and project memory.',
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
        virtualKey: { type: 'http', scheme: 'bearer', description: 'A virtual key, which belongs to a project.' },
        messagesKey: {
          type: 'apiKey',
          in: 'header',
          name: 'x-api-key',
          description: 'A virtual key; `Authorization` takes precedence when both are sent.',
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
    ...describeOperations({ ...statusOperations, ...memoryOperations, ...provisionOperations }),
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
  const segments = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return method + segments.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

function describeSchemas(): JsonObject {
  const registry = z.registry<{ id: string }>();
  const { project, key, rotate, application, rules, catalog, reprice } = provisionRequests;
  const named: Readonly<Record<string, z.ZodType>> = {
    ...Object.fromEntries(
      Object.entries(inferenceRoutes).map(([route, { body }]) => [body, inferenceRequests[route as TextRoute]]), // Object.entries loses the key type.
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
  // OpenAPI 3.1 defines the JSON Schema dialect, and the component key is the id.
  return Object.fromEntries(Object.entries(schemas).map(([id, { $schema: _dialect, $id: _id, ...schema }]) => [id, schema]));
}
