/**
 * Response schemas of the provisioning routes. They allow additional fields, so that we can add some without a new API
 * version.
 */
import { z } from 'zod';
import { count, id, listSchema, text, time, usd, windowName } from '../openapi/schemas/primitives.ts';
import { callResponse, refusedCallResponse } from './call-responses.ts';

const tiers = z.record(z.string(), z.array(z.string()));
const onBudgetStoreDown = z.enum(['allow', 'refuse']).nullable();

const project = z.looseObject({
  id,
  project: z.string().describe('slug of the project'),
  name: z.string(),
  providers: z.array(z.string()).nullable(),
  tiers,
  image_tiers: tiers,
  speech_tiers: tiers,
  transcription_tiers: tiers,
  retired: z.array(z.string()),
  required_tags: z.array(z.string()),
  catalog_fill: z.boolean().nullable(),
  may_call: z.boolean(),
  monthly_cap: usd.nullable(),
  on_budget_store_down: onBudgetStoreDown,
  cache: z.looseObject({ enabled: z.boolean(), ttl_seconds: z.int() }),
  cache_sampled: z.boolean(),
  error_codes: z.enum(['gateway', 'vendor']),
  time_zone: z.string(),
  created_at: time,
  updated_at: time,
});

const warnings = z
  .array(z.looseObject({ path: z.string(), message: z.string() }))
  .describe('probable mistakes, such as a provider that is not configured');
const changedProject = project.extend({ warnings });

const keyFields = {
  prefix: z.string(),
  name: z.string(),
  models: z.array(z.string()).nullable(),
  required_tags: z.array(z.string()),
  ceilings: z.looseObject({ calls: count.nullable(), cost: usd.nullable(), rpm: count.nullable(), tpm: count.nullable() }),
  windows: z.looseObject({ calls: windowName, cost: windowName }),
  on_budget_store_down: onBudgetStoreDown,
  default_max_output_tokens: z.int().min(1).nullable(),
  expires_at: time.nullable(),
  created_at: time,
};

const key = z.looseObject({ ...keyFields, revoked_at: time.nullable() });
const issuedKey = z.looseObject({ key: z.string().describe('the key itself, which is shown only once'), ...keyFields });
const application = z.looseObject({
  source: z.string(),
  ceilings: z.looseObject({ calls: count.nullable(), cost: usd.nullable() }),
  windows: z.looseObject({ calls: windowName, cost: windowName }),
  tiers,
  image_tiers: tiers,
  speech_tiers: tiers,
  transcription_tiers: tiers,
  created_at: time.nullable(),
  updated_at: time.nullable(),
});

const sums = {
  cost: usd.describe('the sum of all known costs'),
  calls: count,
  errors: count.describe('calls that did not succeed, without those whose caller disconnected'),
  calls_of_unknown_cost: count,
};
const deploymentUsage = z.looseObject({
  month: z.string(),
  period: z.looseObject({ start: time, end: time }),
  currency: z.literal('USD'),
  spend: usd,
  calls: count,
  errors: count,
  by_project: z.array(z.looseObject({ project: z.string(), name: z.string(), ...sums, monthly_cap: usd.nullable() })),
  by_key: z.array(z.looseObject({ project: z.string(), prefix: z.string(), name: z.string(), ...sums })),
  by_model: z.array(z.looseObject({ model: text.describe('null for calls that no model answered'), ...sums })),
});

const boundedCount = z.looseObject({
  count,
  has_more: z.boolean().describe('whether there are more than `count`'),
});

const endUser = z.looseObject({
  object: z.literal('end_user'),
  project: z.string().describe('slug of the project'),
  subject_sha256: z.string(),
  first_seen_at: time.nullable().describe('when the first call or conversation started'),
  last_seen_at: time.nullable().describe('when the last call started or the last conversation went on'),
  calls: boundedCount.extend({
    errors: count,
    cost: usd.describe('of these calls; of the newest ones if there are more'),
    calls_of_unknown_cost: count,
  }),
  memories: boundedCount.describe('memories that are live'),
  pinned_memories: boundedCount.describe('the pinned ones of them'),
  closed_memories: boundedCount.describe('memories that were corrected, merged or removed'),
  conversations: boundedCount,
  facts: boundedCount.describe('facts of the graph that are valid now'),
  ended_facts: boundedCount.describe('facts that are no longer valid'),
  prompts: boundedCount.describe('calls whose prompt and response are stored'),
  profile_page_updated_at: time.nullable().describe('null if there is no profile page'),
});

const lease = z.looseObject({
  process: z.string(),
  alive: z.boolean().describe('whether the process sent a heartbeat within the last minute'),
  counters: z.int(),
  oldest_window: z.string(),
});

const quarantinedFile = z.looseObject({
  file: z.string().describe('the `.record` of a call, or a damaged `.segment` that contains several calls'),
  bytes: z.int(),
  quarantined_at: z.string(),
  projects: z.array(z.string()).describe('slugs of the projects, or an empty list if the file cannot be read'),
  oldest_call: z.string().nullable(),
});

const catalogModel = z.looseObject({
  id: z.string(),
  kind: z.string(),
  source: z.enum(['file', 'import', 'starter']),
  price: z.record(z.string(), z.unknown()).nullable().describe('null if the price is unknown'),
  max_input_tokens: z.int().nullable(),
  context_window: z.int().nullable().describe('the most tokens of input and requested output together, if the vendor checks their sum'),
  max_output_tokens: z.int().nullable(),
  supports_schema: z.boolean().optional(),
  thinking: z.enum(['budget', 'adaptive', 'none']).optional(),
  reasons: z.boolean().optional(),
  takes_reasoning: z.enum(['none', 'text', 'details']).optional(),
  serves: z
    .array(z.string())
    .optional()
    .describe('the vendor routes that the model supports; absent if it supports all routes of its provider'),
  takes: z.array(z.string()).optional().describe('the optional request fields that the model accepts; absent if they are unknown'),
});

const contentRule = z.looseObject({ class: z.string(), place: z.enum(['input', 'output']), action: z.enum(['block', 'observe']) });

const ids = z.array(z.string());
export const provisionResponses = {
  Project: project,
  ChangedProject: changedProject,
  DeploymentUsage: deploymentUsage,
  ProjectList: listSchema(project),
  Key: key,
  KeyList: listSchema(key),
  ChangedKey: key.extend({ warnings }),
  IssuedKey: issuedKey,
  NewKey: issuedKey.extend({ warnings }),
  Application: application,
  ChangedApplication: application.extend({ warnings }),
  ApplicationList: listSchema(application),
  Rules: z.looseObject({ rules: z.array(contentRule) }),
  RuleHitsList: listSchema(
    contentRule.extend({
      hits: z.int().describe('calls of the last seven days in which the rule matched'),
      calls: z.array(z.string()).describe('the ids of the newest of these calls, newest first'),
    }),
  ),
  Call: callResponse,
  CallList: listSchema(callResponse),
  RefusedCall: refusedCallResponse,
  RefusedCallList: listSchema(refusedCallResponse).extend({
    from: time,
    to: time,
    counts: z.looseObject({
      calls: count.describe('calls that were refused between `from` and `to`'),
      recorded: count.describe('how many of them were recorded'),
      not_recorded: count.describe('how many of them were only counted, because the key was refused too often in a minute'),
    }),
  }),
  EndUser: endUser,
  LeaseList: listSchema(lease),
  ServiceStatus: z.looseObject({
    object: z.literal('status'),
    version: z.string(),
    status: z.enum(['ready', 'not_ready']),
    reasons: z.array(z.string()).describe('why the process is not ready'),
    degraded: z.array(z.string()).describe('what does not work although the process is ready'),
    work: z
      .looseObject({
        outbox_due: count.describe('workflows to start or signal'),
        outbox_rejected: count.describe('how many of these Temporal has rejected'),
        outbox_lag_seconds: z.number().describe('age of the oldest one'),
        batches_running: count,
        batches_failing: count,
        batches_failed: count,
        batches_stopped: count,
        learning_lag_seconds: z.number().describe('how long the oldest message has been waiting to be learned from'),
        conversations_kept: count.describe(
          'conversations that are kept beyond the deletion period because memory has not learned from them',
        ),
        prompts_to_convert: count.describe('prompts from an older release that are still to be converted; an estimate above 10,000'),
        leases_without_owner: count,
        quarantined_records: count.describe('on the host of the process that responds'),
      })
      .nullable(),
  }),
  QuarantineList: listSchema(quarantinedFile),
  ReleasedLeases: z.looseObject({ process: z.string(), released: z.int() }),
  Catalog: z.looseObject({
    object: z.literal('list'),
    data: z.array(catalogModel),
    providers: z.array(
      z.looseObject({
        name: z.string(),
        host: z.string(),
        vendor: z.string().nullable(),
        dialect: z.string(),
        serves: z.array(z.string()),
      }),
    ),
  }),
  MemoryImport: z.looseObject({
    object: z.literal('memory.import'),
    dry_run: z.boolean(),
    records: z
      .record(z.string(), z.looseObject({ added: count, present: count, refused: count }))
      .describe('counts by the type of the record'),
    refusals: z
      .array(
        z.looseObject({
          line: z.int().describe('number of the line, or of the element if the file is an array'),
          type: z.string(),
          reason: z.string(),
        }),
      )
      .describe('the first thousand refusals'),
  }),
  CatalogImport: z.looseObject({
    object: z.literal('catalog_import'),
    added: ids,
    changed: ids,
    unchanged: ids,
    removed: ids,
    kept_by_file: ids,
  }),
  Reprice: z.looseObject({
    object: z.literal('usage_reprice'),
    from: time,
    to: time,
    prices: z.enum(['dated', 'now']),
    models: ids.nullable(),
    project: text.describe('slug of the project, or null for all projects'),
    prices_corrected: ids.describe('models whose price history was corrected (`prices: now`)'),
    calls: count.describe('calls in the time window'),
    calls_changed: count,
    calls_newly_priced: count.describe('changed calls whose cost was unknown before'),
    attempts_changed: count,
    counters_changed: count.describe('counters of ceilings that were changed'),
    left: z
      .looseObject({
        price_unknown: count.describe('calls of models that had no price at that time'),
        units_not_kept: count.describe('calls that are charged by images, characters, seconds or searches, which older rows do not store'),
        video: count.describe('videos, which keep the price from when they were started'),
      })
      .describe('calls that were not recalculated'),
    difference: z.number().describe('by how much the cost increased, in USD; unknown costs count as zero'),
  }),
};
