/** Every route that is not of inference, one entry each: what it takes, what it answers, and which errors it knows. */
import type { JsonObject } from '../../../core/json/narrow.ts';
import { describeErrors } from '../contract/error-responses.ts';
import { databaseCodes, keyCodes, type RouteFacts } from '../contract/operation-spec.ts';
import { parameterRefs } from '../contract/parameters.ts';
import { memoryRoutes } from './memory.ts';

const provisionRead = { tag: 'provision', door: 'admin', codes: ['missing_key', 'invalid_key', ...databaseCodes] } as const;
const projectRead = { ...provisionRead, codes: [...provisionRead.codes, 'not_found', 'bad_request'], plain: [400] } as const;

const projectWrite = { ...projectRead, codes: [...projectRead.codes, 'unsupported_media_type'], plain: [400, 413] } as const;
const team = '/provision/teams/{project}';

/** By method and path. */
const routes: Readonly<Record<string, RouteFacts>> = {
  'get /v1/models': {
    tag: 'inference',
    summary: 'Models, tiers and `auto` that the key may ask for',
    door: 'key',
    parameters: ['x-gateway-source'],
    answers: { 200: 'ModelList' },
    codes: [...keyCodes, 'internal_error'],
  },
  'get /status/peek': {
    tag: 'status',
    summary: 'Budget use of the key, credit of the project, breakers of its providers',
    door: 'key',
    answers: { 200: 'Status' },
    codes: [...keyCodes, 'internal_error'],
  },
  'get /usage/me': {
    tag: 'status',
    summary: 'Spend of the project in the current month',
    door: 'key',
    answers: { 200: 'Usage' },
    codes: [...keyCodes, ...databaseCodes],
  },
  ...memoryRoutes,
  'get /provision/teams': { ...provisionRead, summary: 'All projects', answers: { 200: 'ProjectList' } },
  [`get ${team}`]: { ...projectRead, summary: 'A project', parameters: ['project'], answers: { 200: 'Project' } },
  [`put ${team}`]: {
    ...projectWrite,
    summary: 'Makes or changes a project',
    parameters: ['project'],
    body: { name: 'ProjectBody', optional: true },
    answers: { 200: 'Project', 201: 'Project' },
  },
  [`get ${team}/keys`]: { ...projectRead, summary: 'Keys of a project', parameters: ['project'], answers: { 200: 'KeyList' } },
  [`post ${team}/keys`]: {
    ...projectWrite,
    summary: 'Issues a key',
    parameters: ['project'],
    body: { name: 'KeyBody' },
    answers: { 201: 'IssuedKey' },
  },
  [`delete ${team}/keys/{prefix}`]: {
    ...projectWrite,
    summary: 'Revokes a key',
    parameters: ['project', 'prefix'],
    answers: { 200: 'Key' },
  },
  [`post ${team}/keys/{prefix}/rotate`]: {
    ...projectWrite,
    summary: 'Issues a key with the settings of another, which ends',
    parameters: ['project', 'prefix'],
    body: { name: 'RotateBody', optional: true },
    answers: { 201: 'IssuedKey' },
    codes: [...projectWrite.codes, 'conflict'],
  },
  [`get ${team}/applications`]: {
    ...projectRead,
    summary: 'Applications for which something is set',
    parameters: ['project'],
    answers: { 200: 'ApplicationList' },
  },
  [`get ${team}/applications/{source}`]: {
    ...projectRead,
    summary: 'An application',
    parameters: ['project', 'source'],
    answers: { 200: 'Application' },
  },
  [`put ${team}/applications/{source}`]: {
    ...projectWrite,
    summary: 'Changes what an application overrides',
    parameters: ['project', 'source'],
    body: { name: 'ApplicationBody', optional: true },
    answers: { 200: 'Application' },
    codes: [...projectWrite.codes, 'conflict'],
  },
  [`get ${team}/rules`]: { ...projectRead, summary: 'Content rules of a project', parameters: ['project'], answers: { 200: 'Rules' } },
  [`put ${team}/rules`]: {
    ...projectWrite,
    summary: 'Puts content rules in the place of all that were there',
    parameters: ['project'],
    body: { name: 'RulesBody' },
    answers: { 200: 'Rules' },
  },
  [`get ${team}/memory`]: {
    ...projectRead,
    summary: 'Memory settings of a project',
    parameters: ['project'],
    answers: { 200: 'MemorySettings' },
  },
  [`put ${team}/memory`]: {
    ...projectWrite,
    summary: 'Changes memory settings',
    parameters: ['project'],
    body: { name: 'MemorySettingsBody', optional: true },
    answers: { 200: 'MemorySettings' },
  },
  [`get ${team}/erasures`]: {
    ...projectRead,
    summary: 'Erasures of subjects, newest first',
    parameters: ['project', 'limit'],
    answers: { 200: 'ProjectErasureList' },
  },
  [`get ${team}/erasures/{id}`]: {
    ...projectRead,
    summary: 'An erasure, with the counts of all processes',
    parameters: ['project', 'erasure'],
    answers: { 200: 'ProjectErasure' },
  },
  [`get ${team}/batches`]: {
    ...projectRead,
    summary: 'Batches in which the project learns, newest first',
    parameters: ['project', 'batch_state'],
    answers: { 200: 'BatchList' },
  },
  [`get ${team}/batches/{id}`]: {
    ...projectRead,
    summary: 'A batch with its groups: one for each end user, and one for calls without',
    parameters: ['project', 'batch'],
    answers: { 200: 'Batch' },
  },
  [`post ${team}/batches/{id}/replay`]: {
    ...projectRead,
    summary: 'Tries again at once what of a batch failed or waits; what is done stays',
    parameters: ['project', 'batch'],
    answers: { 202: 'Batch' },
  },
  [`get ${team}/calls`]: {
    ...projectRead,
    summary: 'Calls with their attempts, newest first',
    parameters: ['project', 'limit', 'before', 'task_id', 'source_only'],
    answers: { 200: 'CallList' },
  },
  'get /provision/leases': { ...provisionRead, summary: 'What processes hold of ceilings', answers: { 200: 'LeaseList' } },
  'delete /provision/leases/{process}': {
    ...provisionRead,
    summary: 'Writes off what a process held of ceilings whose journal nobody can reach',
    parameters: ['process'],
    answers: { 200: 'ReleasedLeases' },
    codes: [...provisionRead.codes, 'bad_request', 'not_found', 'conflict', 'unsupported_media_type'],
    plain: [400, 413],
  },
  'get /provision/catalog': { ...provisionRead, summary: 'Models in force with their prices', answers: { 200: 'Catalog' } },
  'put /provision/catalog': {
    ...provisionRead,
    summary: 'Imports models and prices over the built-in ones',
    body: { name: 'CatalogBody' },
    answers: { 200: 'CatalogImport' },
    codes: [...provisionRead.codes, 'bad_request', 'unsupported_media_type'],
    plain: [413],
  },
  'post /provision/usage/reprice': {
    ...provisionRead,
    summary: 'Charges the stored calls of a window again',
    body: { name: 'RepriceBody' },
    answers: { 200: 'Reprice' },
    codes: [...provisionRead.codes, 'bad_request', 'not_found', 'unsupported_media_type'],
    plain: [413],
  },
  'get /healthz': { tag: 'operation', summary: 'The process lives', door: 'none', answers: { 200: 'Alive' }, codes: [] },
  'get /readyz': {
    tag: 'operation',
    summary: 'Whether it can serve calls',
    door: 'none',
    answers: { 200: 'Readiness', 503: 'Readiness' },
    codes: [],
  },
};

const securityOf = { key: [{ virtualKey: [] }], admin: [{ adminToken: [] }], none: [] };

/** `[path, method, operation]` of each. */
export function describeOperations(): [string, string, JsonObject][] {
  return Object.entries(routes).map(([address, facts]) => {
    const [method = '', path = ''] = address.split(' ');
    return [path, method, describeOperation(facts)];
  });
}

function describeOperation({ tag, summary, door, parameters = [], body, answers, codes, plain = [] }: RouteFacts): JsonObject {
  const described = Object.entries(answers).map(([status, name]) => [
    status,
    { description: summary, content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } } },
  ]);
  return {
    tags: [tag],
    summary,
    security: securityOf[door],
    ...(parameters.length > 0 && { parameters: parameterRefs(parameters) }),
    ...(body && {
      requestBody: {
        required: body.optional !== true,
        content: { 'application/json': { schema: { $ref: `#/components/schemas/${body.name}` } } },
      },
    }),
    responses: { ...Object.fromEntries(described), ...describeErrors({ style: 'chat', codes, plain, headers: [] }) },
  };
}
