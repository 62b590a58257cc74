/** Operations of the provisioning routes. */
import { databaseCodes, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';

const provisionRead = { tag: 'provision', auth: 'admin', codes: ['missing_key', 'invalid_key', ...databaseCodes] } as const;
const projectRead = { ...provisionRead, codes: [...provisionRead.codes, 'not_found', 'bad_request'], plain: [400] } as const;

const projectWrite = { ...projectRead, plain: [400, 413, 415] } as const;
const team = '/provision/teams/{project}';

export const provisionOperations: OperationSpecs = {
  'get /provision/teams': { ...provisionRead, summary: 'Lists projects', responses: { 200: 'ProjectList' } },
  [`get ${team}`]: { ...projectRead, summary: 'Gets a project', parameters: ['project'], responses: { 200: 'Project' } },
  [`put ${team}`]: {
    ...projectWrite,
    summary: 'Creates or updates a project',
    parameters: ['project'],
    body: { name: 'ProjectBody', optional: true },
    responses: { 200: 'Project', 201: 'Project' },
  },
  [`get ${team}/keys`]: { ...projectRead, summary: 'Lists the keys of a project', parameters: ['project'], responses: { 200: 'KeyList' } },
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
    summary: 'Issues a key with the settings of another one, which it replaces',
    parameters: ['project', 'prefix'],
    body: { name: 'RotateBody', optional: true },
    responses: { 201: 'IssuedKey' },
    codes: [...projectWrite.codes, 'conflict'],
  },
  [`get ${team}/applications`]: {
    ...projectRead,
    summary: 'Lists applications with settings',
    parameters: ['project'],
    responses: { 200: 'ApplicationList' },
  },
  [`get ${team}/applications/{source}`]: {
    ...projectRead,
    summary: 'Gets an application',
    parameters: ['project', 'source'],
    responses: { 200: 'Application' },
  },
  [`put ${team}/applications/{source}`]: {
    ...projectWrite,
    summary: 'Updates the settings of an application',
    parameters: ['project', 'source'],
    body: { name: 'ApplicationBody', optional: true },
    responses: { 200: 'Application' },
    codes: [...projectWrite.codes, 'conflict'],
  },
  [`delete ${team}/applications/{source}`]: {
    ...projectWrite,
    summary: 'Removes the settings of an application, so that the defaults apply',
    parameters: ['project', 'source'],
    responses: { 200: 'Application' },
  },
  [`get ${team}/rules`]: {
    ...projectRead,
    summary: 'Gets the content rules of a project',
    parameters: ['project'],
    responses: { 200: 'Rules' },
  },
  [`put ${team}/rules`]: {
    ...projectWrite,
    summary: 'Replaces the content rules of a project',
    parameters: ['project'],
    body: { name: 'RulesBody' },
    responses: { 200: 'Rules' },
  },
  [`get ${team}/memory`]: {
    ...projectRead,
    summary: 'Gets the memory settings of a project',
    parameters: ['project'],
    responses: { 200: 'MemorySettings' },
  },
  [`put ${team}/memory`]: {
    ...projectWrite,
    summary: 'Updates the memory settings of a project',
    parameters: ['project'],
    body: { name: 'MemorySettingsBody', optional: true },
    responses: { 200: 'MemorySettings' },
  },
  [`get ${team}/erasures`]: {
    ...projectRead,
    summary: 'Lists erasures, newest first',
    parameters: ['project', 'limit'],
    responses: { 200: 'ProjectErasureList' },
  },
  [`get ${team}/erasures/{id}`]: {
    ...projectRead,
    summary: 'Gets an erasure with the counts of all processes',
    parameters: ['project', 'erasure'],
    responses: { 200: 'ProjectErasure' },
  },
  [`get ${team}/batches`]: {
    ...projectRead,
    summary: 'Lists the learning batches of a project, newest first',
    parameters: ['project', 'batch_state'],
    responses: { 200: 'BatchList' },
  },
  [`get ${team}/batches/{id}`]: {
    ...projectRead,
    summary: 'Gets a batch with its groups: one per end user, and one for calls without an end user',
    parameters: ['project', 'batch'],
    responses: { 200: 'Batch' },
  },
  [`post ${team}/batches/{id}/replay`]: {
    ...projectRead,
    summary: 'Retries the failed and waiting groups of a batch at once',
    parameters: ['project', 'batch'],
    responses: { 202: 'Batch' },
  },
  'get /provision/batches': {
    ...projectRead,
    summary: 'Lists the learning batches of all projects, newest first',
    parameters: ['batch_project', 'batch_state'],
    responses: { 200: 'BatchList' },
  },
  'get /provision/batches/{id}': {
    ...projectRead,
    summary: 'Gets a batch of any project with its groups',
    parameters: ['batch'],
    responses: { 200: 'Batch' },
  },
  'post /provision/batches/{id}/replay': {
    ...projectRead,
    summary: 'Retries the failed and waiting groups of a batch of any project at once',
    parameters: ['batch'],
    responses: { 202: 'Batch' },
  },
  'post /provision/batches/replay': {
    ...projectWrite,
    summary: 'Replays all failed or all stopped batches of a project',
    body: { name: 'BatchReplayBody' },
    responses: { 202: 'BatchReplay' },
  },
  [`get ${team}/calls`]: {
    ...projectRead,
    summary: 'Lists calls with their attempts, newest first',
    parameters: ['project', 'limit', 'before', 'task_id', 'source_only'],
    responses: { 200: 'CallList' },
  },
  [`get ${team}/usage`]: {
    ...projectRead,
    summary: 'Gets the usage of a project in the current calendar month',
    parameters: ['project'],
    responses: { 200: 'Usage' },
  },
  'get /provision/leases': { ...provisionRead, summary: 'Lists the ceiling leases of processes', responses: { 200: 'LeaseList' } },
  'delete /provision/leases/{process}': {
    ...provisionRead,
    summary: 'Releases the leases of a dead process whose journal is lost',
    parameters: ['process'],
    responses: { 200: 'ReleasedLeases' },
    codes: [...provisionRead.codes, 'bad_request', 'not_found', 'conflict'],
    plain: [400, 413, 415],
  },
  'get /provision/catalog': { ...provisionRead, summary: 'Lists the active models with their prices', responses: { 200: 'Catalog' } },
  'put /provision/catalog': {
    ...provisionRead,
    summary: 'Imports models and prices over the built-in ones',
    body: { name: 'CatalogBody' },
    responses: { 200: 'CatalogImport' },
    codes: [...provisionRead.codes, 'bad_request'],
    plain: [400, 413, 415],
  },
  'post /provision/usage/reprice': {
    ...provisionRead,
    summary: 'Recalculates the cost of the stored calls of a window',
    body: { name: 'RepriceBody' },
    responses: { 200: 'Reprice' },
    codes: [...provisionRead.codes, 'bad_request', 'not_found'],
    plain: [400, 413, 415],
  },
};
