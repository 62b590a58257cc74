import { z } from 'zod';
import { gatewayError } from '../core/errors.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';

const instant = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], {
    error: 'must be a time in RFC 3339, for example 2026-11-01T00:00:00Z, or a day, for example 2026-11-01',
  })
  .describe('a time in RFC 3339, or a day, which stands for its start in UTC');

export const repriceInput = z.strictObject({
  from: instant,
  to: instant.describe('a time in RFC 3339, or a day; calls that started then or later are not changed'),
  project: z
    .string()
    .min(1)
    .max(256)
    .nullable()
    .optional()
    .describe('slug of a project, by default all projects; not allowed with `prices: now`'),
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
    .describe('only calls that these models served, by default all calls'),
  prices: z
    .enum(['dated', 'now'])
    .optional()
    .describe(
      '`dated` (the default) uses the prices that applied when the calls started; `now` uses the current prices, and also replaces the price history in the window with them',
    ),
});

export interface RepriceInput {
  /** Only calls that started in this window are repriced. `from` is inclusive and `to` is exclusive. */
  readonly from: number;
  readonly to: number;
  /** A project slug, or null for all projects. */
  readonly project: string | null;
  /** Only reprices calls that were served by one of these models (`<provider>/<model>`). Null for all models. */
  readonly models: readonly string[] | null;
  /**
   * With `dated`, each call is charged at the prices that were in force when it started. With `now`, all calls are
   * charged at the current prices, and these also go into the price history of the window (`correctHistory`).
   */
  readonly prices: 'dated' | 'now';
}

/** Validates the body of a reprice request. Throws a `bad_request` that lists all problems. */
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
