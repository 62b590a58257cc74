/** Operations of the status, usage, models and health routes. */
import { databaseCodes, keyCodes, type OperationSpec } from '../../openapi/contract/operation-spec.ts';

/** By method and path. */
export const statusOperations: Readonly<Record<string, OperationSpec>> = {
  'get /v1/models': {
    tag: 'inference',
    summary: 'Lists the models, tiers and `auto` that the key may use',
    auth: 'key',
    parameters: ['x-gateway-source'],
    responses: { 200: 'ModelList' },
    codes: [...keyCodes, 'internal_error'],
  },
  'get /status/peek': {
    tag: 'status',
    summary: 'Gets the ceilings of the key, the credit of the project and the circuit breakers of its providers',
    auth: 'key',
    responses: { 200: 'Status' },
    codes: [...keyCodes, 'internal_error'],
  },
  'get /usage/me': {
    tag: 'status',
    summary: 'Gets the spend of the project in the current month',
    auth: 'key',
    responses: { 200: 'Usage' },
    codes: [...keyCodes, ...databaseCodes],
  },
  'get /healthz': { tag: 'operation', summary: 'Liveness: the process runs', auth: 'none', responses: { 200: 'Alive' }, codes: [] },
  'get /readyz': {
    tag: 'operation',
    summary: 'Readiness: the process can serve calls; `degraded` says what does not work meanwhile',
    auth: 'none',
    responses: { 200: 'Readiness', 503: 'Readiness' },
    codes: [],
  },
};
