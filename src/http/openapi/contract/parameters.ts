/**
 * Describes request headers, path and query parameters, and the gateway's response headers
 * (docs/api/reference.md#request-headers).
 */

import { isDialect, isPromptRoute, type TextRoute } from '../../../core/call.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import { refusalReasons } from '../../../core/refusal.ts';

const text = { type: 'string' };
const integer = { type: 'integer' };
/** The gateway ignores invalid values of this header, so the schema allows any string. */
const lenientInteger = { type: ['integer', 'string'] };
const uuid = { type: 'string', format: 'uuid' };
const boundedName = { type: 'string', minLength: 1, maxLength: 256 };

interface Header {
  readonly schema: JsonObject;
  readonly description: string;
}

/** Correlation headers are recorded with a call. All routes that call a model accept them. */
const correlation: Readonly<Record<string, Header>> = {
  'x-gateway-task-id': { schema: text, description: 'Recorded with the call. `GET /usage/me` groups the cost by it.' },
  'x-gateway-turn-id': { schema: text, description: 'Recorded with the call.' },
  'x-gateway-agent-id': { schema: text, description: 'Recorded with the call.' },
  'x-gateway-trigger-kind': { schema: text, description: 'Recorded with the call.' },
  'x-gateway-trigger-detail': { schema: text, description: 'Recorded with the call.' },
  'x-gateway-iteration': { schema: lenientInteger, description: 'Recorded with the call. Ignored if it is not an integer.' },
  'x-gateway-distil-saved': {
    schema: lenientInteger,
    description: 'How many tokens the client removed from the prompt. Recorded with the call. Ignored if it is not an integer.',
  },
};

export const correlationHeaders: readonly string[] = Object.keys(correlation);

const requestHeaders: Readonly<Record<string, Header>> = {
  'x-gateway-source': {
    schema: text,
    description:
      'The application that makes the call. Routing, ceilings and cost reports use it. Default: the slug of the project, also for the names of the gateway’s own calls (`gateway-memory`, `gateway-playground`).',
  },
  'x-gateway-timeout-ms': {
    schema: lenientInteger,
    description: 'The timeout for all attempts together, in milliseconds, at most 120000. Ignored if it is not a positive integer.',
  },
  'x-gateway-first-content-timeout-ms': {
    schema: { type: 'integer', minimum: 1, maximum: 3_600_000 },
    description:
      'How many milliseconds each attempt may take until it returns text, a tool call or reasoning. After that, the gateway calls the next model. Default: as configured.',
  },
  'x-gateway-memory': {
    schema: { type: 'string', pattern: '^([Ww][Rr][Ii][Tt][Ee]|[Rr][Ee][Cc][Aa][Ll][Ll]|[Oo][Ff][Ff])?$', default: 'write' },
    description:
      'With `write`, the gateway records the call if memory is on. With `recall`, it also inserts relevant memories (chat and messages). With `off`, it does not record the call. Case does not matter.',
  },
  'x-gateway-memory-subject': {
    schema: { type: 'string', maxLength: 256 },
    description: 'The end user that the call is about, in UTF-8 without control characters. Default: the end user that the body names.',
  },
  'cache-control': {
    schema: text,
    description:
      '`no-cache` bypasses the response cache, but stores the response in it. `no-store` bypasses the cache and stores nothing. `max-age=<seconds>` limits the age of a cached response.',
  },
  'x-gateway-error-codes': {
    schema: text,
    description:
      "With `vendor`, the `code` of an error is the vendor's code if there is one, for example `context_length_exceeded`. If the prompt is too long, the message also says so in the words of the route's vendor. With `gateway`, it is the gateway's code. Default: the setting of the project. Any other value is ignored.",
  },
  ...correlation,
};

const otherParameters: Readonly<Record<string, JsonObject>> = {
  project: pathParameter('project', { type: 'string', pattern: '^[a-z0-9][a-z0-9-]{0,62}$' }, 'slug of the project'),
  prefix: pathParameter('prefix', { type: 'string', minLength: 1 }, 'prefix of the key'),
  process: pathParameter('process', uuid, 'id of the process, from the list'),
  source: pathParameter('source', boundedName, 'name of the application, in which a slash is written as `%2F`'),
  id: pathParameter('id', uuid, 'id of the conversation'),
  erasure: pathParameter('id', uuid, 'id of the erasure'),
  subject: pathParameter(
    'subject',
    { ...boundedName, pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]+$' },
    'the end user, without control characters, in which a slash is written as `%2F`',
  ),
  dot_subject: { ...queryParameter('subject', { type: 'string', enum: ['.', '..'] }, 'the end user'), required: true },
  item: pathParameter('id', uuid, 'id of the memory'),
  batch: pathParameter('id', uuid, 'id of the batch'),
  batch_project: queryParameter('project', { type: 'string', minLength: 1 }, 'only batches of the project with this slug'),
  batch_state: queryParameter(
    'state',
    { type: 'string', enum: ['running', 'waiting', 'retrying', 'failing', 'done', 'failed', 'stopped'] },
    'only batches in this state: a `waiting` batch needs a model, needs memory to be turned on, or will rebuild a page within half a minute; a `retrying` batch has failed and is tried again; a `failing` batch has got several unusable responses; a `stopped` batch was given up by an operator, or its run was ended in Temporal',
  ),
  limit: queryParameter('limit', { type: 'integer', minimum: 1, maximum: 1_000, default: 100 }, 'maximum number of rows'),
  export_subject: queryParameter('subject', boundedName, 'only the data of this end user, including the prompts of their calls'),
  import_format: queryParameter(
    'format',
    { type: 'string', enum: ['gateway', 'mem0', 'list'], default: 'gateway' },
    'format of the file: `gateway` is an export from a gateway, `mem0` is the response of `get_all` in mem0, and `list` contains texts or objects with `text`',
  ),
  dry_run: queryParameter('dry_run', { type: 'boolean', default: false }, 'only count what the import would do, and write nothing'),
  restore_erased: queryParameter(
    'restore_erased',
    { type: 'boolean', default: false },
    'also import data that was erased after the records or the export were created',
  ),
  model: pathParameter('id', { type: 'string', minLength: 1 }, 'id of the model, in which a slash may be written as `%2F`'),
  model_limit: queryParameter('limit', { type: 'integer', minimum: 1, maximum: 1_000 }, 'maximum number of models; default: all'),
  after_id: queryParameter('after_id', { type: 'string', minLength: 1 }, 'only the models after this one'),
  before_id: queryParameter('before_id', { type: 'string', minLength: 1 }, 'only the models before this one'),
  anthropic_version: {
    ...{ name: 'anthropic-version', in: 'header', required: false, schema: text },
    description: "If it is sent, the response and its errors have the format of Anthropic's API.",
  },
  before: queryParameter('before', uuid, 'only calls older than the one with this id'),
  task_id: queryParameter('task_id', boundedName, 'only calls of this task'),
  email: pathParameter('email', boundedName, 'e-mail address of the person; case does not matter'),
  session: pathParameter('id', uuid, 'id of the session'),
  personal_token: pathParameter('id', uuid, 'id of the personal token'),
  unconfirmed_people: queryParameter(
    'unconfirmed',
    { type: 'boolean' },
    'list the newest unconfirmed addresses instead, at most 1,000; owners have added them to their projects, and creating the person confirms an address',
  ),
  after_email: queryParameter(
    'after',
    { type: 'string', minLength: 1, maxLength: 254 },
    'only people whose address comes after this one in the list',
  ),
  before_entry: queryParameter('before', { type: 'integer', minimum: 1 }, 'only entries older than the one with this id'),
  audit_project: queryParameter('project', { type: 'string', minLength: 1 }, 'only changes to the project with this slug'),
  audit_person: queryParameter(
    'person',
    { anyOf: [uuid, { type: 'string', maxLength: 254, pattern: '@' }] },
    'only changes by the person with this e-mail address or id',
  ),
  audit_action: queryParameter(
    'action',
    { type: 'string', minLength: 1, maxLength: 100 },
    'only changes with this action, such as `key.issue`',
  ),
  audit_from: queryParameter('from', { type: 'string', format: 'date-time' }, 'only changes at or after this time'),
  audit_to: queryParameter('to', { type: 'string', format: 'date-time' }, 'only changes before this time'),
  failed_only: queryParameter(
    'failed',
    { type: 'boolean', default: false },
    'only calls in which an attempt failed, even if another model then served the call; older calls whose reasons were deleted are not found',
  ),
  source_only: queryParameter('source', boundedName, 'only calls of this application'),
  request_only: queryParameter(
    'request_id',
    { type: 'string', minLength: 1, maxLength: 128 },
    'only the calls for which a vendor received a request that it gave this id',
  ),
  subject_only: queryParameter('subject', boundedName, 'only calls about this end user'),
  hide_own: queryParameter('hide_own', { type: 'boolean', default: false }, 'leaves out the calls that the gateway made for memory'),
  call: pathParameter('id', uuid, 'id of the call, from the response header `x-gateway-call-id`'),
  refusal_reason: queryParameter('reason', { type: 'string', enum: [...refusalReasons] }, 'only calls that were refused for this reason'),
  key_only: queryParameter('key', { type: 'string', minLength: 1, maxLength: 64 }, 'only calls of the key with this prefix'),
};

export function describeParameters(): JsonObject {
  const described = Object.entries(requestHeaders).map(([name, header]) => [name, { name, in: 'header', required: false, ...header }]);
  return { ...Object.fromEntries(described), ...otherParameters };
}

export function parameterRefs(names: readonly string[]): JsonObject[] {
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }));
}

/**
 * Returns the names of the request headers that the route reads. Only chat and messages read `cache-control`, and the
 * memory subject only matters on routes that take prompts.
 */
export function requestHeadersFor(route: TextRoute): string[] {
  const isRead = (name: string): boolean =>
    name === 'cache-control' ? isDialect(route) : isPromptRoute(route) || name !== 'x-gateway-memory-subject';
  return Object.keys(requestHeaders).filter(isRead);
}

export const responseHeaders = {
  'x-gateway-call-id': { schema: uuid, description: 'id of the call' },
  'x-request-id': { schema: uuid, description: 'id of the call, under the name that OpenAI SDKs read' },
  'request-id': { schema: uuid, description: 'id of the call, under the name that Anthropic SDKs read' },
  'x-gateway-model': { schema: text, description: 'the `<provider>/<model>` that responded' },
  'x-gateway-cache': { schema: { type: 'string', enum: ['hit', 'miss'] }, description: 'whether the response came from the cache' },
  'x-gateway-memory-recalled': {
    schema: text,
    description:
      'ids of the memories that recall put into the prompt, best first, separated by commas; at most 50, or absent if there are none',
  },
  'x-gateway-token-count': {
    schema: { type: 'string', const: 'estimated' },
    description: 'sent if the gateway estimated the count',
  },
  'x-gateway-warning': {
    schema: text,
    description: 'a field of the request that the gateway ignored, although the caller may rely on it',
  },
  'x-gateway-dropped': { schema: text, description: 'fields of the request that were not sent to the model, separated by commas' },
  'x-gateway-adjusted': {
    schema: text,
    description: 'fields of the request that were sent with the nearest value that the model accepts',
  },
  'retry-after': { schema: integer, description: 'seconds to wait before the next request' },
  'x-should-retry': {
    schema: { type: 'string', const: 'false' },
    description: 'tells the SDKs of OpenAI and Anthropic not to retry, because the call would keep failing for longer than they wait',
  },
  'cache-control': { schema: text, description: '`no-cache` if the response is streamed, else `no-store`' },
  'x-accel-buffering': { schema: { type: 'string', const: 'no' }, description: 'sent if the response is streamed' },
};

export type ResponseHeader = keyof typeof responseHeaders;

export function responseHeaderRefs(names: readonly ResponseHeader[]): JsonObject {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

function pathParameter(name: string, schema: JsonObject, description: string): JsonObject {
  return { name, in: 'path', required: true, schema, description };
}

function queryParameter(name: string, schema: JsonObject, description: string): JsonObject {
  return { name, in: 'query', required: false, schema, description };
}
