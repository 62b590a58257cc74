/** Body of the reprice route. */
import { z } from 'zod';
import { gatewayError } from '../core/errors.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';

const instant = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], {
    error: 'must be a time in RFC 3339, for example 2026-11-01T00:00:00Z, or a day, for example 2026-11-01',
  })
  .describe('RFC 3339, or a day, which means its start in UTC');

export const repriceInput = z.strictObject({
  from: instant,
  to: instant.describe('RFC 3339, or a day; exclusive: calls that started then or later are not changed'),
  project: z.string().min(1).max(256).nullable().optional().describe('slug of a project; absent: all projects; not with `prices: now`'),
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
    .describe('only calls that these models served; null or absent: all calls'),
  prices: z
    .enum(['dated', 'now'])
    .optional()
    .describe(
      '`dated` (default): the prices in force when the calls started. `now`: the current prices, which also replace the price history of the window.',
    ),
});

/** A validated request. */
export interface RepriceInput {
  /** Start of the window of call start times. */
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
  /** A slug; null for all projects. */
  readonly project: string | null;
  /** Models that served the calls, `<provider>/<model>`. Null for all. */
  readonly models: readonly string[] | null;
  /** `dated`: prices in force when calls started. `now`: current prices, which first replace the history of the window (`correctHistory`). */
  readonly prices: 'dated' | 'now';
}

/** Throws `bad_request`, naming every mistake. */
export function parseRepriceInput(body: unknown): RepriceInput {
  const { from, to, project = null, models = null, prices = 'dated' } = parseOrBadRequest(repriceInput, body);
  const window = { from: Date.parse(from), to: Date.parse(to) };
  if (window.from >= window.to) throw gatewayError('bad_request', { issues: [{ path: 'to', message: 'must be after from' }] });
  if (prices === 'now' && project !== null) {
    throw gatewayError('bad_request', {
      issues: [{ path: 'project', message: 'not allowed with prices "now", which apply to every project' }],
    });
  }
  return { ...window, project, models, prices };
}
