/** The body of "charge calls again". */
import { z } from 'zod';
import { formatIssues } from '../core/error-messages.ts';
import { gatewayError } from '../core/errors.ts';

const instant = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], {
    error: 'must be a time in RFC 3339, for example 2026-11-01T00:00:00Z, or a day, for example 2026-11-01',
  })
  .describe('RFC 3339, or a day, whose first instant in UTC is meant');

export const repriceInput = z.strictObject({
  from: instant,
  to: instant.describe('RFC 3339, or a day; calls that began then or later are not touched'),
  project: z.string().min(1).max(256).nullable().optional().describe('null or absent: all projects; not with `prices: now`'),
  models: z
    .array(
      z
        .string()
        .max(300)
        .regex(/^[^/\s]+\/\S+$/, 'must be <provider>/<model>'),
    )
    .min(1)
    .max(500)
    .nullable()
    .optional()
    .describe('Only calls that these have answered; null or absent: all'),
  prices: z
    .enum(['dated', 'now'])
    .optional()
    .describe(
      '`dated` (default): the prices in force when the calls began. `now`: the prices of now, which are put into the price history of the window too.',
    ),
});

/** What was asked for; the project by its name. */
export interface RepriceInput {
  readonly from: number;
  readonly to: number;
  readonly project: string | null;
  readonly models: readonly string[] | null;
  readonly prices: 'dated' | 'now';
}

/** Throws `bad_request` that names every fault. */
export function parseRepriceInput(body: unknown): RepriceInput {
  const parsed = repriceInput.safeParse(body);
  if (!parsed.success) throw gatewayError('bad_request', { message: formatIssues(parsed.error).join('; ') });
  const { from, to, project = null, models = null, prices = 'dated' } = parsed.data;
  const window = { from: Date.parse(from), to: Date.parse(to) };
  if (window.from >= window.to) throw gatewayError('bad_request', { message: 'to: must be after from' });
  if (prices === 'now' && project !== null) {
    throw gatewayError('bad_request', { message: 'project: the prices of now are put into the history of everybody; leave it out' });
  }
  return { ...window, project, models, prices };
}
