/** `gateway usage …`: recalculates the cost of stored calls. */
import { asArray, asObject, type JsonObject } from '../core/json/narrow.ts';
import { formatUsd } from './format-reports.ts';
import { CommandError, type ServiceClient } from './service-client.ts';
import { formatFacts } from './table.ts';

export interface RepriceOptions {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly project?: string | undefined;
  readonly models?: string | undefined;
  readonly prices?: string | undefined;
}

/** A busy month takes minutes. The service finishes even after the client has timed out. */
const timeoutMs = 290_000;

export function repriceUsage(client: ServiceClient, { from, to, project, models, prices }: RepriceOptions): Promise<JsonObject> {
  if (from === undefined || to === undefined)
    throw new CommandError('which calls? gateway usage reprice --from <time> --to <time>, for example --from 2026-11-01 --to 2026-12-01');
  const body = { from, to, project, models: models?.split(',').map((model) => model.trim()), prices };
  return client.send('POST', '/provision/usage/reprice', body, timeoutMs);
}

export function formatReprice(response: JsonObject): string {
  const skipped = asObject(response.left);
  const difference = typeof response.difference === 'number' ? response.difference : 0;
  return formatFacts([
    ['calls in the window', response.calls],
    ['calls changed', response.calls_changed],
    ['  of unknown cost before', response.calls_newly_priced],
    ['attempts changed', response.attempts_changed],
    ['ceilings changed', response.counters_changed],
    ...(response.prices === 'now' ? [['price history corrected', asArray(response.prices_corrected)] as const] : []),
    ['left: price unknown', skipped.price_unknown],
    ['left: units not kept', skipped.units_not_kept],
    ['left: videos', skipped.video],
    ['difference', `${difference < 0 ? '-' : ''}${formatUsd(Math.abs(difference))}`],
  ]);
}
