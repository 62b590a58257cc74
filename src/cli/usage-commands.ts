/** `gateway usage …`: the spend of a project, and the correction of the cost of stored calls. */
import { asArray, asObject, type JsonObject } from '../core/json/narrow.ts';
import type { Invocation } from './command.ts';
import { formatUsd } from './format-reports.ts';
import { CommandError } from './service-client.ts';
import { formatFacts, formatTable } from './table.ts';

/** A busy month takes minutes. The service finishes even after the client has timed out. */
const timeoutMs = 290_000;

export function repriceUsage({ send, values, members }: Invocation): Promise<JsonObject> {
  if (values.from === undefined || values.to === undefined)
    throw new CommandError('which calls? gateway usage reprice --from <time> --to <time>, for example --from 2026-11-01 --to 2026-12-01');
  return send('post /provision/usage/reprice', members, timeoutMs);
}

/** The month, then a table per group that has rows. */
export function formatUsage(usage: JsonObject): string {
  const facts = formatFacts([
    ['month (UTC)', usage.month],
    ['spend', formatUsd(usage.spend)],
    ['monthly cap', formatUsd(usage.monthly_cap)],
  ]);
  const tables = (
    [
      ['MODEL', 'model', usage.by_model],
      ['APPLICATION', 'source', usage.by_source],
      ['TASK', 'task_id', usage.by_task],
    ] as const
  ).flatMap(([title, member, rows]) => {
    const lines = asArray(rows).map(asObject);
    const cells = lines.map((row) => [row[member], formatUsd(row.cost), row.tokens, row.calls]);
    return lines.length === 0 ? [] : [`\n${formatTable([title, 'COST', 'TOKENS', 'CALLS'], cells)}`];
  });
  return facts + tables.join('');
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
