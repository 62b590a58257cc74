/** Response schemas of recorded calls, for the provisioning routes and MCP. They allow additional fields. */
import { z } from 'zod';
import { outcomes } from '../../core/call.ts';
import { refusalReasons } from '../../core/refusal.ts';
import { count, id, text, time, usd } from '../openapi/schemas/primitives.ts';

const outcome = z.enum(outcomes);

const attempt = z.looseObject({
  n: z.int().min(1),
  provider: z.string(),
  model: z.string(),
  member: text.describe("the member of the provider's pool; null if it has no pool"),
  status: z.int().nullable(),
  outcome,
  request_id: text.describe('the id that the vendor gave the request; null if it sent none'),
  wait_ms: count,
  started_at: time,
  first_byte_ms: count.nullable(),
  duration_ms: count,
  cost: usd.nullable().describe('null if the price is unknown'),
  price_unknown: z.boolean().describe('true if the model has no price in the catalog'),
  error: z
    .looseObject({
      reason: z.string().describe('such as `connect`, `timeout`, `status`, `unreadable`, `broken`, `deadline`, `stopped` or `lost`'),
      type: text.describe("the vendor's error type"),
      code: text.describe("the vendor's error code, or the system's, such as ECONNREFUSED"),
      message: text.describe("an excerpt of the vendor's message, in which secrets and text from the request are masked"),
    })
    .nullable()
    .describe('why the attempt failed, or null if it succeeded or the reason was deleted'),
});

export const callResponse = z.looseObject({
  id,
  created_at: time,
  project: z.string().describe('slug of the project'),
  key: z.string().describe('prefix of the key'),
  key_name: text.describe('null if the gateway itself made the call'),
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
  cost: usd.nullable().describe('null if the price is unknown'),
  price_unknown: z.boolean().describe('true if the model has no price in the catalog, so that cost totals exclude the call'),
  estimated: z.boolean(),
  unmetered: z.boolean().describe('whether the call was admitted without checking its ceilings, because the quota store was unavailable'),
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
  recalled: z.array(id).describe('memories that recall put into the prompt; also empty if the text of the call was deleted'),
  plan: z.array(
    z.looseObject({
      model: z.string(),
      skipped: text,
      lacks: z.array(z.string()).optional().describe('the required tags that the provider does not have'),
      canary: z.string().optional().describe('the model is the canary of this tier, which the call tries first'),
      control: z.string().optional().describe('the call belongs to the share of this tier that does not try the canary'),
    }),
  ),
  attempts: z.array(attempt),
});

export const refusedCallResponse = z.looseObject({
  id: id.describe('the response header `x-gateway-call-id` of the call'),
  created_at: time,
  project: z.string().describe('slug of the project'),
  key: z.string().describe('prefix of the key'),
  key_name: text.describe('null if the gateway itself made the call'),
  source: text.describe('the application; null if the key itself was refused and the call named none'),
  route: z.string(),
  model_asked: text.describe('null if the call was refused before its body was read'),
  status: z.int(),
  code: z.string(),
  reason: z.enum(refusalReasons as readonly [string, ...string[]]),
  rule: text.describe('what refused the call: a ceiling with its window such as `calls/day`, the class of a content rule, or missing tags'),
  limit: z.number().nullable().describe('the limit of the ceiling, in calls, tokens or USD'),
  explanation: z.string(),
  advice: z.string(),
});
