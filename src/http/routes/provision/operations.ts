import type { OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { memoryProvisionOperations } from './memory-operations.ts';
import { projectRead, projectWrite, provisionRead, team } from './operation-defaults.ts';

const provisionWrite = { ...provisionRead, codes: [...provisionRead.codes, 'bad_request'], plain: [400, 413, 415] } as const;
const refusedDetails =
  'To get the next page, send the id of the last call in `before`. A process records at most 60 refused calls per minute for each key and only counts the others. `counts` therefore says how many calls were refused between `from` and `to`, which is the time that the page covers. With `source`, it only counts recorded calls.';

export const provisionOperations: OperationSpecs = {
  'get /provision/teams': {
    ...provisionRead,
    summary: 'Lists projects',
    details: 'The list includes the settings of each project.',
    responses: { 200: 'ProjectList' },
  },
  [`get ${team}`]: {
    ...projectRead,
    summary: 'Gets a project',
    details: 'The response contains all settings, including defaults.',
    responses: { 200: 'Project' },
  },
  [`put ${team}`]: {
    ...projectWrite,
    summary: 'Creates or updates a project',
    details:
      'Omitted members keep their values. A new project has the defaults. If the change may break routing, it is saved nevertheless, and `warnings` says why.',
    body: { name: 'ProjectBody', optional: true, example: { name: 'Acme', monthly_cap: 500, cache: { enabled: false, ttl_seconds: 600 } } },
    responses: { 200: 'ChangedProject', 201: 'ChangedProject' },
  },
  [`get ${team}/keys`]: {
    ...projectRead,
    summary: 'Lists the keys of a project',
    details: 'The list starts with the newest key, and does not contain secrets.',
    responses: { 200: 'KeyList' },
  },
  [`post ${team}/keys`]: {
    ...projectWrite,
    summary: 'Issues a key',
    details: 'Only this response contains the key itself. Unknown models are saved nevertheless, and `warnings` names them.',
    body: { name: 'KeyBody', example: { name: 'server', ceilings: { rpm: 60, cost: 50 }, windows: { cost: 'day' } } },
    responses: { 201: 'NewKey' },
  },
  [`patch ${team}/keys/{prefix}`]: {
    ...projectWrite,
    summary: 'Changes the name, models, ceilings or expiry of a key',
    details:
      'Omitted members keep their values. Keys that were rotated share their ceilings, so the new ceilings also apply to the keys that this one replaced. Every process uses the new settings within a second.',
    body: { name: 'KeyChangeBody', example: { ceilings: { cost: 100 }, expires_at: null } },
    responses: { 200: 'ChangedKey' },
    codes: [...projectWrite.codes, 'conflict'],
  },
  [`delete ${team}/keys/{prefix}`]: {
    ...projectWrite,
    summary: 'Revokes a key',
    details: 'Every process refuses the key within a second.',
    responses: { 200: 'Key' },
  },
  [`post ${team}/keys/{prefix}/rotate`]: {
    ...projectWrite,
    summary: 'Replaces a key with a new one that has the same settings',
    details: 'The new key continues the counters of the old key. The old key stays valid for the grace period.',
    body: { name: 'RotateBody', optional: true },
    responses: { 201: 'IssuedKey' },
    codes: [...projectWrite.codes, 'conflict'],
  },
  [`get ${team}/applications`]: {
    ...projectRead,
    summary: 'Lists the applications that have settings',
    details: 'An application does not need settings to make calls.',
    responses: { 200: 'ApplicationList' },
  },
  [`get ${team}/applications/{source}`]: {
    ...projectRead,
    summary: 'Gets an application',
    details: 'If an application has no settings, the response contains the defaults.',
    responses: { 200: 'Application' },
  },
  [`put ${team}/applications/{source}`]: {
    ...projectWrite,
    summary: 'Updates the settings of an application',
    details: 'Omitted members keep their values. Chains are replaced as a whole.',
    body: { name: 'ApplicationBody', optional: true, example: { ceilings: { cost: 20 }, windows: { cost: 'day' } } },
    responses: { 200: 'ChangedApplication' },
    codes: [...projectWrite.codes, 'conflict'],
  },
  [`delete ${team}/applications/{source}`]: {
    ...projectWrite,
    summary: 'Removes the settings of an application, so that the defaults apply',
    details: 'Calls of the application and their cost are kept.',
    responses: { 200: 'Application' },
  },
  [`get ${team}/rules`]: {
    ...projectRead,
    summary: 'Gets the content rules of a project',
    details: 'The rules are in the order in which they were set.',
    responses: { 200: 'Rules' },
  },
  [`get ${team}/rules/hits`]: {
    ...projectRead,
    summary: 'Counts the calls in which each content rule matched in the last seven days',
    details: 'For each rule, the response lists the ids of the newest 20 calls.',
    responses: { 200: 'RuleHitsList' },
  },
  [`put ${team}/rules`]: {
    ...projectWrite,
    summary: 'Replaces the content rules of a project',
    details: 'The rules apply from the next call on.',
    body: { name: 'RulesBody', example: { rules: [{ class: 'credential', place: 'input', action: 'block' }] } },
    responses: { 200: 'Rules' },
  },
  ...memoryProvisionOperations,
  [`get ${team}/calls`]: {
    ...projectRead,
    summary: 'Lists calls with their attempts, newest first',
    details: 'To get the next page, send the id of the last call in `before`.',
    parameters: ['limit', 'before', 'task_id', 'source_only', 'request_only', 'subject_only', 'hide_own', 'failed_only'],
    responses: { 200: 'CallList' },
  },
  'get /provision/calls': {
    ...projectRead,
    summary: 'Lists the calls of all projects with their attempts, newest first',
    details: 'To get the next page, send the id of the last call in `before`.',
    parameters: ['limit', 'before', 'task_id', 'source_only', 'request_only', 'subject_only', 'hide_own', 'failed_only'],
    responses: { 200: 'CallList' },
  },
  [`get ${team}/calls/{id}`]: {
    ...projectRead,
    summary: 'Gets a call with its attempts',
    details: 'A refused call has no row here. It is under `refused-calls`.',
    parameters: ['call'],
    responses: { 200: 'Call' },
  },
  [`get ${team}/refused-calls`]: {
    ...projectRead,
    summary: 'Lists the calls that the gateway refused, newest first',
    details: refusedDetails,
    parameters: ['limit', 'before', 'refusal_reason', 'key_only', 'source_only'],
    responses: { 200: 'RefusedCallList' },
  },
  'get /provision/refused-calls': {
    ...projectRead,
    summary: 'Lists the refused calls of all projects, newest first',
    details: refusedDetails,
    parameters: ['limit', 'before', 'refusal_reason', 'key_only', 'source_only'],
    responses: { 200: 'RefusedCallList' },
  },
  [`get ${team}/refused-calls/{id}`]: {
    ...projectRead,
    summary: 'Gets a refused call',
    details: 'The response says which rule or ceiling refused the call, and what to do about it. It contains no text of the call.',
    parameters: ['call'],
    responses: { 200: 'RefusedCall' },
  },
  [`get ${team}/end-users/{subject}`]: {
    ...projectRead,
    summary: 'Says how much is stored about an end user',
    details: 'Counting stops at some point, and then `has_more` is true. The response contains no texts.',
    responses: { 200: 'EndUser' },
  },
  [`get ${team}/usage`]: {
    ...projectRead,
    summary: 'Gets the usage of a project in the current calendar month',
    details: 'The report is the same as in `GET /usage/me`.',
    responses: { 200: 'Usage' },
  },
  'get /provision/status': {
    ...provisionRead,
    summary: 'Shows whether the service is ready, and what work is waiting',
    details: '`reasons` and `degraded` are those of `/readyz`, and `work` is null while the database does not respond.',
    responses: { 200: 'ServiceStatus' },
  },
  'get /provision/usage': {
    ...provisionRead,
    summary: 'Gets the usage of all projects in the current calendar month',
    details: 'The report contains the cost, calls and errors by project, key and model.',
    responses: { 200: 'DeploymentUsage' },
  },
  'get /provision/leases': {
    ...provisionRead,
    summary: 'Lists the ceiling leases of processes',
    details: 'A lease is the part of a ceiling that a process may admit without asking the database.',
    responses: { 200: 'LeaseList' },
  },
  'delete /provision/leases/{process}': {
    ...provisionWrite,
    summary: 'Releases the leases of a dead process whose journal is lost',
    details: 'The request is refused while the process sends heartbeats.',
    responses: { 200: 'ReleasedLeases' },
    codes: [...provisionWrite.codes, 'not_found', 'conflict'],
  },
  'get /provision/quarantine': {
    ...provisionRead,
    summary: 'Lists the records that the database rejected',
    details:
      'The list only includes records on the host of the process that responds, and does not contain any text. The files are in `journal/quarantine` in its data directory.',
    responses: { 200: 'QuarantineList' },
  },
  'get /provision/catalog': {
    ...provisionRead,
    summary: 'Lists the active models with their prices',
    details: 'The response also lists the providers that serve them.',
    responses: { 200: 'Catalog' },
  },
  'put /provision/catalog': {
    ...provisionWrite,
    summary: 'Imports models and prices over the built-in ones',
    details: 'Rows in the configuration file take precedence over imported rows.',
    body: { name: 'CatalogBody', example: { models: { 'demo/echo': { input: 1, output: 2 } } } },
    responses: { 200: 'CatalogImport' },
  },
  'post /provision/usage/reprice': {
    ...provisionWrite,
    summary: 'Recalculates the cost of stored calls in a time window',
    details: 'This also corrects the counters of ceilings and the spend of projects.',
    body: { name: 'RepriceBody', example: { from: '2026-11-01', to: '2026-12-01' } },
    responses: { 200: 'Reprice' },
    codes: [...provisionWrite.codes, 'not_found'],
  },
};
