/** `gateway usage …`: stored calls are charged again. */
import { type JsonObject, listOf, objectOf } from '../core/json/narrow.ts';
import { money } from './format-reports.ts';
import { CommandError, type ServiceClient } from './service-client.ts';
import { formatFacts } from './table.ts';

export interface RepriceOptions {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly project?: string | undefined;
  readonly models?: string | undefined;
  readonly prices?: string | undefined;
}

/** A month of a busy service takes minutes; the service finishes also when nobody waits any more. */
const patienceMs = 290_000;

export function repriceUsage(client: ServiceClient, { from, to, project, models, prices }: RepriceOptions): Promise<JsonObject> {
  if (from === undefined || to === undefined)
    throw new CommandError('which calls? gateway usage reprice --from <time> --to <time>, for example --from 2026-11-01 --to 2026-12-01');
  const body = { from, to, project, models: models?.split(',').map((model) => model.trim()), prices };
  return client.send('POST', '/provision/usage/reprice', body, patienceMs);
}

export function describeReprice(answer: JsonObject): string {
  const left = objectOf(answer.left);
  const difference = typeof answer.difference === 'number' ? answer.difference : 0;
  return formatFacts([
    ['calls in the window', answer.calls],
    ['calls changed', answer.calls_changed],
    ['  of unknown cost before', answer.calls_newly_priced],
    ['attempts changed', answer.attempts_changed],
    ['ceilings changed', answer.counters_changed],
    ...(answer.prices === 'now' ? [['price history corrected', listOf(answer.prices_corrected)] as const] : []),
    ['left: price unknown', left.price_unknown],
    ['left: units not kept', left.units_not_kept],
    ['left: videos', left.video],
    ['difference', `${difference < 0 ? '-' : ''}${money(Math.abs(difference))}`],
  ]);
}
