/** Every route that is not of inference, one entry each: what it takes, what it answers, and which errors it knows. */
import type { JsonObject } from '../../../core/json/narrow.ts';
import { describeErrors } from '../contract/error-responses.ts';
import { databaseCodes, keyCodes, type OperationSpec } from '../contract/operation-spec.ts';
import { parameterRefs } from '../contract/parameters.ts';
import { memoryRoutes } from './memory.ts';

const provisionRead = { tag: 'provision', auth: 'admin', codes: ['missing_key', 'invalid_key', ...databaseCodes] } as const;
const projectRead = { ...provisionRead, codes: [...provisionRead.codes, 'not_found', 'bad_request'], plain: [400] } as const;

const projectWrite = { ...projectRead, codes: [...projectRead.codes, 'unsupported_media_type'], plain: [400, 413] } as const;
const team = '/provision/teams/{project}';

/** By method and path. */
const routes: Readonly<Record<string, OperationSpec>> = {
  'get /v1/models': {
    tag: 'inference',
    summary: 'Models, tiers and `auto` that the key may ask for',
    auth: 'key',
    parameters: ['x-gateway-source'],
    responses: { 200: 'ModelList' },
    codes: [...keyCodes, 'internal_error'],
  },
  'get /status/peek': {
    tag: 'status',
    summary: 'Budget use of the key, credit of the project, breakers of its providers',
    auth: 'key',
    responses: { 200: 'Status' },
    codes: [...keyCodes, 'internal_error'],
  },
  'get /usage/me': {
    tag: 'status',
    summary: 'Spend of the project in the current month',
    auth: 'key',
    responses: { 200: 'Usage' },
    codes: [...keyCodes, ...databaseCodes],
  },
  ...memoryRoutes,
  'get /provision/teams': { ...provisionRead, summary: 'All projects', responses: { 200: 'ProjectList' } },
  [`get ${team}`]: { ...projectRead, summary: 'A project', parameters: ['project'], responses: { 200: 'Project' } },
  [`put ${team}`]: {
    ...projectWrite,
    summary: 'Makes or changes a project',
    parameters: ['project'],
    body: { name: 'ProjectBody', optional: true },
    responses: { 200: 'Project', 201: 'Project' },
  },
  [`get ${team}/keys`]: { ...projectRead, summary: 'Keys of a project', parameters: ['project'], responses: { 200: 'KeyList' } },
  [`post ${team}/keys`]: {
    ...projectWrite,
    summary: 'Issues a key',
    parameters: ['project'],
    body: { name: 'KeyBody' },
    responses: { 201: 'IssuedKey' },
  },
  [`delete ${team}/keys/{prefix}`]: {
    ...projectWrite,
    summary: 'Revokes a key',
    parameters: ['project', 'prefix'],
    responses: { 200: 'Key' },
  },
  [`post ${team}/keys/{prefix}/rotate`]: {
    ...projectWrite,
    summary: 'Issues a key with the settings of another, which ends',
    parameters: ['project', 'prefix'],
    body: { name: 'RotateBody', optional: true },
    responses: { 201: 'IssuedKey' },
    codes: [...projectWrite.codes, 'conflict'],
  },
  [`get ${team}/applications`]: {
    ...projectRead,
    summary: 'Applications for which something is set',
    parameters: ['project'],
    responses: { 200: 'ApplicationList' },
  },
  [`get ${team}/applications/{source}`]: {
    ...projectRead,
    summary: 'An application',
    parameters: ['project', 'source'],
    responses: { 200: 'Application' },
  },
  [`put ${team}/applications/{source}`]: {
    ...projectWrite,
    summary: 'Changes what an application overrides',
    parameters: ['project', 'source'],
    body: { name: 'ApplicationBody', optional: true },
    responses: { 200: 'Application' },
    codes: [...projectWrite.codes, 'conflict'],
  },
  [`get ${team}/rules`]: { ...projectRead, summary: 'Content rules of a project', parameters: ['project'], responses: { 200: 'Rules' } },
  [`put ${team}/rules`]: {
    ...projectWrite,
    summary: 'Puts content rules in the place of all that were there',
    parameters: ['project'],
    body: { name: 'RulesBody' },
    responses: { 200: 'Rules' },
  },
  [`get ${team}/memory`]: {
    ...projectRead,
    summary: 'Memory settings of a project',
    parameters: ['project'],
    responses: { 200: 'MemorySettings' },
  },
  [`put ${team}/memory`]: {
    ...projectWrite,
    summary: 'Changes memory settings',
    parameters: ['project'],
    body: { name: 'MemorySettingsBody', optional: true },
    responses: { 200: 'MemorySettings' },
  },
  [`get ${team}/erasures`]: {
    ...projectRead,
    summary: 'Erasures of subjects, newest first',
    parameters: ['project', 'limit'],
    responses: { 200: 'ProjectErasureList' },
  },
  [`get ${team}/erasures/{id}`]: {
    ...projectRead,
    summary: 'An erasure, with the counts of all processes',
    parameters: ['project', 'erasure'],
    responses: { 200: 'ProjectErasure' },
  },
  [`get ${team}/batches`]: {
    ...projectRead,
    summary: 'Batches in which the project learns, newest first',
    parameters: ['project', 'batch_state'],
    responses: { 200: 'BatchList' },
  },
  [`get ${team}/batches/{id}`]: {
    ...projectRead,
    summary: 'A batch with its groups: one for each end user, and one for calls without',
    parameters: ['project', 'batch'],
    responses: { 200: 'Batch' },
  },
  [`post ${team}/batches/{id}/replay`]: {
    ...projectRead,
    summary: 'Tries again at once what of a batch failed or waits; what is done stays',
    parameters: ['project', 'batch'],
    responses: { 202: 'Batch' },
  },
  [`get ${team}/calls`]: {
    ...projectRead,
    summary: 'Calls with their attempts, newest first',
    parameters: ['project', 'limit', 'before', 'task_id', 'source_only'],
    responses: { 200: 'CallList' },
  },
  'get /provision/leases': { ...provisionRead, summary: 'What processes hold of ceilings', responses: { 200: 'LeaseList' } },
  'delete /provision/leases/{process}': {
    ...provisionRead,
    summary: 'Writes off what a process held of ceilings whose journal nobody can reach',
    parameters: ['process'],
    responses: { 200: 'ReleasedLeases' },
    codes: [...provisionRead.codes, 'bad_request', 'not_found', 'conflict', 'unsupported_media_type'],
    plain: [400, 413],
  },
  'get /provision/catalog': { ...provisionRead, summary: 'Models in force with their prices', responses: { 200: 'Catalog' } },
  'put /provision/catalog': {
    ...provisionRead,
    summary: 'Imports models and prices over the built-in ones',
    body: { name: 'CatalogBody' },
    responses: { 200: 'CatalogImport' },
    codes: [...provisionRead.codes, 'bad_request', 'unsupported_media_type'],
    plain: [413],
  },
  'post /provision/usage/reprice': {
    ...provisionRead,
    summary: 'Charges the stored calls of a window again',
    body: { name: 'RepriceBody' },
    responses: { 200: 'Reprice' },
    codes: [...provisionRead.codes, 'bad_request', 'not_found', 'unsupported_media_type'],
    plain: [413],
  },
  'get /healthz': { tag: 'operation', summary: 'The process lives', auth: 'none', responses: { 200: 'Alive' }, codes: [] },
  'get /readyz': {
    tag: 'operation',
    summary: 'Whether it can serve calls',
    auth: 'none',
    responses: { 200: 'Readiness', 503: 'Readiness' },
    codes: [],
  },
};

const securityByAuth = { key: [{ virtualKey: [] }], admin: [{ adminToken: [] }], none: [] };

/** `[path, method, operation]` of each. */
export function describeOperations(): [string, string, JsonObject][] {
  return Object.entries(routes).map(([address, facts]) => {
    const [method = '', path = ''] = address.split(' ');
    return [path, method, describeOperation(facts)];
  });
}

function describeOperation({ tag, summary, auth, parameters = [], body, responses, codes, plain = [] }: OperationSpec): JsonObject {
  const described = Object.entries(responses).map(([status, name]) => [
    status,
    { description: summary, content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } } },
  ]);
  return {
    tags: [tag],
    summary,
    security: securityByAuth[auth],
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
