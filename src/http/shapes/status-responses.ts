import { z } from 'zod';
import { count, listSchema, text, time, usd, windowName } from '../openapi/schemas/primitives.ts';

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
      provider: z.string().describe('`<provider>/<member>` for a member of a pool'),
      state: z.enum(['closed', 'open', 'half_open']),
      failures: count,
      opened_at: time.nullable(),
      retry_at: time.nullable(),
      cooling_until: time.optional().describe('set while the responding process calls it last, after a 429 of the vendor'),
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

/** The schemas allow additional fields, so that we can add some without a new API version. */
export const statusResponses = {
  Status: status,
  Usage: usageResponse,
  Root: z.looseObject({ name: z.string(), version: z.string(), links: z.record(z.string(), z.string()) }),
  Model: model,
  ModelList: listSchema(model).extend({ has_more: z.boolean(), first_id: text, last_id: text }),
  Alive: z.looseObject({ status: z.literal('ok') }),
  Readiness: z.looseObject({ status: z.enum(['ready', 'not_ready']), reasons: z.array(z.string()), degraded: z.array(z.string()) }),
};
