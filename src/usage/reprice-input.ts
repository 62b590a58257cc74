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

export type RepriceInput = ReturnType<typeof parseRepriceInput>;

/**
 * Validates the body of a reprice request. `project` is the slug of a project or null for all projects, and `models` is
 * null for all models. Only calls from `from` (inclusive) to `to` (exclusive) are repriced. With the prices `now`, the
 * current prices also go into the price history of this window (`correctHistory`). Throws a `bad_request` that lists
 * all problems.
 */
export function parseRepriceInput(body: unknown) {
  const { from, to, project = null, models = null, prices = 'dated' } = parseOrBadRequest(repriceInput, body);
  const window = { from: Date.parse(from), to: Date.parse(to) };
  if (window.from >= window.to) throw gatewayError('bad_request', { issues: [{ path: 'to', message: 'must be after from' }] });
  if (prices === 'now' && project !== null) {
    throw gatewayError('bad_request', {
      issues: [{ path: 'project', message: 'must be left out if prices is "now", because current prices apply to every project' }],
    });
  }
  return { ...window, project, models, prices };
}
