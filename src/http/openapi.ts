/**
 * Generates the OpenAPI 3.1 description of the API from zod schemas and the table of error codes. A test compares it
 * with `docs/api/openapi.json`.
 */
import { z } from 'zod';
import { isObject, type JsonObject } from '../core/json/narrow.ts';
import { errorSchemas } from './openapi/contract/error-responses.ts';
import type { OperationSpecs } from './openapi/contract/operation-spec.ts';
import { describeParameters, responseHeaders } from './openapi/contract/parameters.ts';
import { describeOperation } from './openapi/describe-operation.ts';
import { inferenceOperations, inferenceRequests, inferenceResponses } from './routes/inference/operations.ts';
import { mediaOperations, mediaRequests, mediaResponses } from './routes/media/operations.ts';
import { memoryOperations } from './routes/memory/operations.ts';
import { provisionOperations } from './routes/provision/operations.ts';
import { peopleOperations } from './routes/provision/people-operations.ts';
import { peopleRequests, peopleResponses } from './routes/provision/people-schemas.ts';
import { provisionRequests } from './routes/provision/request-schemas.ts';
import { statusOperations } from './routes/status/operations.ts';
import { videoOperations, videoRequests, videoResponses } from './routes/video/operations.ts';
import { memoryRequests } from './shapes/memory-requests.ts';
import { memoryResponses } from './shapes/memory-responses.ts';
import { provisionResponses } from './shapes/provision-responses.ts';
import { statusResponses } from './shapes/status-responses.ts';

/** The version of the API, which is independent of the software's version. */
export const apiVersion = '0.1.0';

export function describeApi(): JsonObject {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Model gateway',
      version: apiVersion,
      description: 'Calls models of all vendors with one key, with routing, failover, cost records and project memory.',
      contact: { name: 'The operator of this deployment' },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
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
          description: 'A virtual key. If a request also has `Authorization`, that header takes precedence.',
        },
        adminToken: { type: 'http', scheme: 'bearer', description: 'The admin token of the deployment.' },
      },
    },
  };
}

const tags = {
  inference: 'Calls models, with routing, failover and ceilings. Each call is recorded.',
  media: 'Creates images, speech and videos. One provider serves each call.',
  memory: 'Manages what the project remembers, and erases it.',
  status: 'Shows what a key may still use, and what its project has spent.',
  provision: 'Manages projects, keys, people and settings. Operators need the admin token.',
  operation: 'Shows the health of a process, and this document.',
};

const operations: OperationSpecs = {
  ...inferenceOperations,
  ...mediaOperations,
  ...videoOperations,
  ...statusOperations,
  ...memoryOperations,
  ...provisionOperations,
  ...peopleOperations,
};

/**
 * All methods and paths that are open to ordinary callers (e.g. `get /v1/models`), i.e. everything but `/provision`.
 */
export const publicAddresses: readonly string[] = Object.keys(operations).filter((address) => !address.includes(' /provision'));

function describePaths(): JsonObject {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const [address, spec] of Object.entries(operations)) {
    const [method = '', path = ''] = address.split(' ');
    paths[path] = { ...paths[path], [method]: { operationId: operationId(method, path), ...describeOperation(path, spec) } };
  }
  return paths;
}

/** Derives an id such as `postV1ChatCompletions` from `post /v1/chat/completions`. */
function operationId(method: string, path: string): string {
  const segments = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return method + segments.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

const namedSchemas = mergeNamed([
  ...[inferenceRequests, provisionRequests, peopleRequests, mediaRequests, mediaResponses, videoRequests, videoResponses],
  ...[memoryRequests, statusResponses, memoryResponses, provisionResponses, peopleResponses, inferenceResponses, errorSchemas],
]);

/** Throws if two groups define a schema with the same name. */
function mergeNamed(groups: readonly Readonly<Record<string, z.ZodType>>[]): ReadonlyMap<string, z.ZodType> {
  const merged = new Map<string, z.ZodType>();
  for (const [name, schema] of groups.flatMap((group) => Object.entries(group))) {
    if (merged.has(name)) throw new Error(`two schemas have the name ${name}`);
    merged.set(name, schema);
  }
  return merged;
}

function describeSchemas(): JsonObject {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of namedSchemas) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, { io: 'input', uri: (id) => `#/components/schemas/${id}` });
  // Drop `$schema` and `$id`, because OpenAPI 3.1 defines the JSON Schema dialect, and refers to schemas by their key.
  return Object.fromEntries(Object.entries(schemas).map(([id, { $schema: _dialect, $id: _id, ...schema }]) => [id, toPortable(schema)]));
}

/** Replaces Unicode properties in a schema's patterns, because many validators don't support them. */
function toPortable(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toPortable);
  if (!isObject(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, part]) => [
      key,
      key === 'pattern' && typeof part === 'string' ? toPortablePattern(part) : toPortable(part),
    ]),
  );
}

function toPortablePattern(pattern: string): string {
  return characterClasses.reduce((text, [name, ranges]) => text.replaceAll(name, ranges), pattern);
}

const characterClasses: readonly (readonly [name: string, ranges: string])[] = [
  [String.raw`\p{Cc}`, String.raw`\u0000-\u001f\u007f-\u009f`],
  // Drop lone surrogates. Real text doesn't contain any, and regular expressions in other languages can't match them.
  [String.raw`\p{Cs}`, ''],
  [
    String.raw`\p{Default_Ignorable_Code_Point}`,
    String.raw`\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8`,
  ],
  [String.raw`\0`, String.raw`\u0000`],
];
