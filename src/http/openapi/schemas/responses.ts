/** What the routes answer with. Objects are open: members may be added without a new version. */
import { z } from 'zod';
import { memoryResponses } from './memory-responses.ts';

const time = z.string().meta({ format: 'date-time' });
const id = z.string().meta({ format: 'uuid' });
const usd = z.number().describe('USD');
const count = z.int().min(0);
const text = z.string().nullable();
const windowName = z.enum(['minute', 'day', 'month', 'total']);

const listSchema = (row: z.ZodType) => z.looseObject({ object: z.literal('list'), data: z.array(row) });

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
  demo: z.literal(true).optional().describe('the models are the demo vendor’s'),
});

const group = { cost: usd, tokens: count, calls: count };

const usage = z.looseObject({
  month: z.string().regex(/^\d{4}-\d{2}$/),
  period: z.looseObject({ start: time, end: time }),
  currency: z.literal('USD'),
  spend: usd,
  monthly_cap: usd.nullable(),
  by_model: z.array(z.looseObject({ model: z.string(), ...group })),
  by_task: z.array(z.looseObject({ task_id: z.string(), ...group })),
  by_source: z.array(z.looseObject({ source: z.string(), ...group })),
});

const model = z.looseObject({
  id: z.string(),
  object: z.literal('model'),
  created: z.int().describe('unix seconds'),
  owned_by: z.string().describe('the provider; `gateway` for tiers and `auto`'),
});

const episode = z.looseObject({
  id,
  object: z.literal('memory.episode'),
  title: text,
  subject: text,
  source: z.string(),
  state: z.enum(['stored', 'read']),
  turns: count,
  started_at: time,
  last_turn_at: time,
  read_at: time.nullable(),
  text: z.string().describe('what the memory worker reads'),
  messages: z.array(
    z.looseObject({
      role: z.enum(['user', 'assistant']),
      content: z.string(),
      tool_calls: z.array(z.looseObject({ name: z.string(), arguments: z.string() })).optional(),
      created_at: time,
    }),
  ),
});

const tiers = z.record(z.string(), z.array(z.string()));

const project = z.looseObject({
  id,
  project: z.string().describe('the slug'),
  name: z.string(),
  providers: z.array(z.string()).nullable(),
  tiers,
  image_tiers: tiers,
  speech_tiers: tiers,
  retired: z.array(z.string()),
  catalog_fill: z.boolean().nullable(),
  may_call: z.boolean(),
  monthly_cap: usd.nullable(),
  cache: z.looseObject({ enabled: z.boolean(), ttl_seconds: z.int() }),
  created_at: time,
  updated_at: time,
});

const keyFields = {
  prefix: z.string(),
  name: z.string(),
  models: z.array(z.string()).nullable(),
  ceilings: z.looseObject({ calls: count.nullable(), cost: usd.nullable(), rpm: count.nullable(), tpm: count.nullable() }),
  windows: z.looseObject({ calls: windowName, cost: windowName }),
  expires_at: time.nullable(),
  created_at: time,
};

const key = z.looseObject({ ...keyFields, revoked_at: time.nullable() });
const issuedKey = z.looseObject({ key: z.string().describe('the secret; told this once'), ...keyFields });

const application = z.looseObject({
  source: z.string(),
  ceilings: z.looseObject({ calls: count.nullable(), cost: usd.nullable() }),
  windows: z.looseObject({ calls: windowName, cost: windowName }),
  tiers,
  image_tiers: tiers,
  speech_tiers: tiers,
  created_at: time.nullable(),
  updated_at: time.nullable(),
});

const rules = z.looseObject({
  rules: z.array(z.looseObject({ class: z.string(), place: z.enum(['input', 'output']), action: z.enum(['block', 'observe']) })),
});

const outcome = z.enum(['ok', 'refused', 'failed', 'interrupted', 'client_left', 'deadline', 'unknown']);

const attempt = z.looseObject({
  n: z.int().min(1),
  provider: z.string(),
  model: z.string(),
  status: z.int().nullable(),
  outcome,
  wait_ms: count,
  started_at: time,
  first_byte_ms: count.nullable(),
  duration_ms: count,
  cost: usd.nullable().describe('null: the price is unknown'),
  price_unknown: z.boolean().describe('The model has no price in the catalog'),
});

const call = z.looseObject({
  id,
  created_at: time,
  key: z.string().describe('prefix of the key'),
  source: z.string(),
  route: z.string(),
  model_asked: z.string(),
  model: text,
  status: z.int(),
  code: text,
  outcome,
  stream: z.boolean(),
  cache: z.enum(['hit', 'miss']).nullable(),
  tokens: z.looseObject({ input: count, cached_input: count, cache_write: count, output: count }),
  cost: usd.nullable().describe('null: the price is unknown'),
  price_unknown: z.boolean().describe('The model has no price in the catalog; the call is in no sum of costs'),
  estimated: z.boolean(),
  unmetered: z.boolean().describe('let through without its ceilings, whose store was down'),
  duration_ms: count,
  first_byte_ms: count.nullable(),
  task_id: text,
  turn_id: text,
  agent_id: text,
  trigger_kind: text,
  trigger_detail: text,
  iteration: z.int().nullable(),
  distil_saved: z.int().nullable(),
  subject_sha256: text,
  plan: z.array(z.looseObject({ model: z.string(), skipped: text })),
  attempts: z.array(attempt),
});

const lease = z.looseObject({
  process: z.string(),
  alive: z.boolean().describe('heard of within the last minute'),
  counters: z.int(),
  oldest_window: z.string(),
});

const catalogModel = z.looseObject({
  id: z.string(),
  kind: z.string(),
  source: z.enum(['file', 'import', 'starter']),
  price: z.record(z.string(), z.unknown()).nullable().describe('null: unknown'),
  max_input_tokens: z.int().nullable(),
  max_output_tokens: z.int().nullable(),
  supports_schema: z.boolean().optional(),
  thinking: z.enum(['budget', 'adaptive', 'none']).optional(),
  reasons: z.boolean().optional(),
  serves: z.array(z.string()).optional().describe('The routes at its vendor that the model is for; absent: all that its provider serves'),
});

const catalog = z.looseObject({
  object: z.literal('list'),
  data: z.array(catalogModel),
  providers: z.array(z.looseObject({ name: z.string(), host: z.string(), dialect: z.string(), serves: z.array(z.string()) })),
});

const ids = z.array(z.string());
const catalogImport = z.looseObject({
  object: z.literal('catalog_import'),
  added: ids,
  changed: ids,
  unchanged: ids,
  removed: ids,
  kept_by_file: ids,
});

const reprice = z.looseObject({
  object: z.literal('usage_reprice'),
  from: time,
  to: time,
  prices: z.enum(['dated', 'now']),
  models: ids.nullable(),
  project: text.describe('null: all projects'),
  prices_corrected: ids.describe('Models whose price history was corrected, with `prices: now`'),
  calls: count.describe('Calls of the window'),
  calls_changed: count,
  calls_newly_priced: count.describe('Of these, calls whose cost was unknown'),
  attempts_changed: count,
  counters_changed: count.describe('Counters of ceilings'),
  left: z
    .looseObject({
      price_unknown: count.describe('The model had no price then'),
      units_not_kept: count.describe('Charged by images, characters, seconds or searches, before call rows kept them'),
      video: count.describe('Videos have the price that they were started at'),
    })
    .describe('Calls that stay as they are'),
  difference: z.number().describe('USD by which the calls cost more than before, unknown costs counted as nothing'),
});

const chatError = z
  .looseObject({ error: z.looseObject({ message: z.string(), type: z.string(), code: z.string() }) })
  .describe('`type` and `code` hold the same value.');
const messagesError = z.looseObject({
  type: z.literal('error'),
  error: z.looseObject({ type: z.string(), message: z.string() }),
});

/** By the name they have in the document. */
export const responseSchemas = {
  Status: status,
  Usage: usage,
  ModelList: listSchema(model),
  Episode: episode,
  ...memoryResponses,
  Project: project,
  ProjectList: listSchema(project),
  Key: key,
  KeyList: listSchema(key),
  IssuedKey: issuedKey,
  Application: application,
  ApplicationList: listSchema(application),
  Rules: rules,
  CallList: listSchema(call),
  LeaseList: listSchema(lease),
  ReleasedLeases: z.looseObject({ process: z.string(), released: z.int() }),
  Catalog: catalog,
  CatalogImport: catalogImport,
  Reprice: reprice,
  Alive: z.looseObject({ status: z.literal('ok') }),
  Readiness: z.looseObject({ status: z.enum(['ready', 'not_ready']), reasons: z.array(z.string()) }),
  ChatCompletion: z.looseObject({ choices: z.array(z.unknown()) }).describe('The vendor’s answer, unchanged.'),
  Message: z.looseObject({ content: z.array(z.unknown()) }).describe('The vendor’s answer, unchanged.'),
  Response: z.looseObject({ output: z.array(z.unknown()) }).describe('The vendor’s answer, unchanged.'),
  VendorAnswer: z.looseObject({}).describe('The vendor’s answer, unchanged.'),
  ChatError: chatError,
  MessagesError: messagesError,
} satisfies Record<string, z.ZodType>;

export type ResponseName = keyof typeof responseSchemas;
