/** Operations and response schemas of the status, usage, models, health and description routes. */
import { z } from 'zod';
import { databaseCodes, keyCodes, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { count, listSchema, text, time, usd, windowName } from '../../openapi/schemas/primitives.ts';

export const statusOperations: OperationSpecs = {
  'get /': {
    tag: 'operation',
    summary: 'Gets the name and version of the service, with links',
    details: 'Clients call this to see whether the service responds. The response to `HEAD` has no body.',
    auth: 'none',
    responses: { 200: 'Root' },
    codes: [],
  },
  'get /v1/models': {
    tag: 'inference',
    summary: 'Lists the models, tiers and `auto` that the key may use',
    details:
      '`x-gateway-source` selects what an application sees. If the request has `anthropic-version`, the list has the format of Anthropic.',
    auth: 'messages',
    errorStyle: 'either',
    parameters: ['x-gateway-source', 'anthropic_version', 'model_limit', 'after_id', 'before_id'],
    responses: { 200: 'ModelList' },
    codes: [...keyCodes, 'bad_request', 'internal_error'],
  },
  'get /v1/models/{id}': {
    tag: 'inference',
    summary: 'Gets a model, a tier or `auto` that the key may use',
    details: 'If the key may not use the model, the response is 404.',
    auth: 'messages',
    errorStyle: 'either',
    parameters: ['x-gateway-source', 'anthropic_version', 'model'],
    responses: { 200: 'Model' },
    codes: [...keyCodes, 'not_found', 'internal_error'],
    plain: [400],
  },
  'get /status/peek': {
    tag: 'status',
    summary: 'Gets the ceilings of the key, the credit of the project and the circuit breakers of its providers',
    details: 'This does not take a call slot. The process first waits for its journal, so that callers see their own finished calls.',
    auth: 'key',
    responses: { 200: 'Status' },
    codes: [...keyCodes, 'internal_error'],
  },
  'get /usage/me': {
    tag: 'status',
    summary: 'Gets the spend of the project in the current month',
    details: 'Months are in UTC. Lists have at most 1,000 rows and start with the highest cost.',
    auth: 'key',
    responses: { 200: 'Usage' },
    codes: [...keyCodes, ...databaseCodes],
  },
  'get /healthz': {
    tag: 'operation',
    summary: 'Reports that the process is alive',
    details: 'This does not check any dependency.',
    auth: 'none',
    responses: { 200: 'Alive' },
    codes: [],
  },
  'get /metrics': {
    tag: 'operation',
    summary: 'Gets the metrics of the service for Prometheus',
    details: 'The text includes the metrics of all processes on the port.',
    auth: 'admin',
    responses: { 200: { 'text/plain': { schema: { type: 'string' } } } },
    codes: ['missing_key', 'invalid_key', 'internal_error'],
  },
  'get /readyz': {
    tag: 'operation',
    summary: 'Reports whether the process can serve calls',
    details:
      '`degraded` lists what does not work at the moment. Calls do not need Temporal, so a process that serves calls is ready without it.',
    auth: 'none',
    responses: { 200: 'Readiness', 503: 'Readiness' },
    codes: [],
  },
  'get /openapi.json': {
    tag: 'operation',
    summary: 'Gets this document',
    details: 'The document is generated from the schemas that validate requests.',
    auth: 'none',
    responses: { 200: { 'application/json': { schema: { type: 'object' } } } },
    description: 'OpenAPI 3.1',
    codes: [],
  },
};

const ceiling = z.looseObject({
  limit: z.number().nullable(),
  used: z.number(),
  reserved: z.number(),
  remaining: z.number().nullable(),
  window: windowName,
  resets_at: time.nullable(),
});

const status = z.looseObject({
  project: z.string(),
  key: z.looseObject({
    prefix: z.string(),
    expires_at: time.nullable(),
    ceilings: z.looseObject({ calls: ceiling, cost: ceiling, rpm: ceiling, tpm: ceiling }),
  }),
  credit: z.looseObject({ state: z.enum(['ok', 'near_cap', 'exhausted']), monthly_cap: usd.nullable(), spent: usd }),
  breakers: z.array(
    z.looseObject({
      provider: z.string(),
      state: z.enum(['closed', 'open', 'half_open']),
      failures: count,
      opened_at: time.nullable(),
      retry_at: time.nullable(),
    }),
  ),
  demo: z.literal(true).optional().describe('present if the models come from the demo vendor'),
});

const group = { cost: usd, tokens: count, calls: count };

export const usageResponse = z.looseObject({
  month: z.string().regex(/^\d{4}-\d{2}$/),
  period: z.looseObject({ start: time, end: time }),
  currency: z.literal('USD'),
  spend: usd,
  monthly_cap: usd.nullable(),
  by_model: z.array(z.looseObject({ model: z.string(), ...group })),
  by_task: z.array(z.looseObject({ task_id: z.string(), ...group })),
  by_source: z.array(z.looseObject({ source: z.string(), ...group })),
});

const openaiModel = z.looseObject({
  id: z.string(),
  object: z.literal('model'),
  created: z.int().describe('Unix time in seconds'),
  owned_by: z.string().describe('the provider, or `gateway` for tiers and `auto`'),
});
const anthropicModel = z.looseObject({ id: z.string(), type: z.literal('model'), display_name: z.string(), created_at: time });
const model = z.union([openaiModel, anthropicModel]).describe('The model has the second form if the request has `anthropic-version`.');

/** The objects are open, so we can add members without a new version. */
export const statusResponses = {
  Status: status,
  Usage: usageResponse,
  Root: z.looseObject({ name: z.string(), version: z.string(), links: z.record(z.string(), z.string()) }),
  Model: model,
  ModelList: listSchema(model).extend({ has_more: z.boolean(), first_id: text, last_id: text }),
  Alive: z.looseObject({ status: z.literal('ok') }),
  Readiness: z.looseObject({ status: z.enum(['ready', 'not_ready']), reasons: z.array(z.string()), degraded: z.array(z.string()) }),
};
