/** Response schemas of the status, usage, models and health routes. Objects are open: members may be added without a new version. */
import { z } from 'zod';
import { count, listSchema, time, usd, windowName } from '../../openapi/schemas/primitives.ts';

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

export const statusResponses = {
  Status: status,
  Usage: usage,
  ModelList: listSchema(model),
  Alive: z.looseObject({ status: z.literal('ok') }),
  Readiness: z.looseObject({ status: z.enum(['ready', 'not_ready']), reasons: z.array(z.string()), degraded: z.array(z.string()) }),
};
