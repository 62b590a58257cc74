/** Creates counter rows. A new counter starts with the usage of its window up to now. */
import { minIdAt } from '../core/ids.ts';
import type { Database } from '../db/database.ts';
import { lockCounterCreation } from '../db/locks.ts';
import type { CounterKey, CounterScope } from './counters.ts';

/**
 * Limits how long a statement waits for a locked counter. While it waits, it occupies one of the connections for
 * admission. Other statements only wait two seconds for a connection, so this timeout has to be shorter, no matter how
 * many projects have locked counters. It's set per transaction because connection poolers share connections.
 */
export const limitLockWait = `select set_config('lock_timeout', '1500ms', true)`;

/**
 * Creates a counter that already includes the usage of its window. If a ceiling is set in the middle of a month,
 * earlier calls count. We hold a lock from computing the sum to inserting the row, so that no journal drain counts
 * calls of the project in between.
 */
export async function createCounter(database: Database, counter: CounterKey): Promise<void> {
  const { projectId, scopeId, scope, start, end } = counter;
  await database.transaction(async (tx) => {
    await tx.query(limitLockWait);
    await lockCounterCreation(tx, projectId, 'exclusive');
    await tx.query(
      `insert into limit_counters (project_id, holder, holder_id, ceiling, window_kind, window_start, window_end, settled)
       select $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::timestamptz, $7::timestamptz, (${usageOf(counter)})
       on conflict do nothing`,
      [
        ...counterKeyValues(counter),
        ...[end === null ? null : new Date(end), scope === 'key' ? scopeId : null],
        ...[minIdAt(start), end === null ? null : minIdAt(end)],
      ],
    );
  });
}

/** All statements about counters begin with these parameters, which identify the counter. */
export function counterKeyValues({ projectId, scope, scopeId, ceiling, window, start }: CounterKey): unknown[] {
  return [projectId, scope, scopeId, ceiling, window, new Date(start)];
}

/**
 * Returns SQL that computes the usage of a window. Minutes are computed from call rows. Longer windows use rollups,
 * plus the call rows that aren't in them yet.
 */
function usageOf({ scope, ceiling, window }: CounterKey): string {
  const { row, rollup } = usageColumns[scope === 'key' && ceiling === 'calls' ? 'slots' : ceiling];
  const { ofRow, ofRollup } = scopeConditions[scope];
  const rows = `from calls where project_id = $1::uuid and ${ofRow} and id >= $9::uuid and ($10::uuid is null or id < $10::uuid)`;
  if (window === 'minute') return `select coalesce(sum(${row}), 0)::bigint ${rows}`;
  const inWindow = `project_id = $1::uuid and scope = $2::text and ${ofRollup} and start >= $6::timestamptz and ($7::timestamptz is null or start < $7::timestamptz)`;
  return `
    select coalesce(sum(amount), 0)::bigint from (
      select sum(${rollup}) as amount from usage_rollups where ${inWindow} and span = '${window === 'day' ? 'day' : 'month'}'
      union all
      select sum(${rollup}) from usage_increments where ${inWindow}
      union all
      select sum(${row}) ${rows} and id < (select filled_from from usage_rollup_fill) and not in_rollups
    ) as usage`;
}

const scopeConditions: Readonly<Record<CounterScope, { readonly ofRow: string; readonly ofRollup: string }>> = {
  key: {
    ofRow: 'key_id = any(array(select $8::uuid union all select id from virtual_keys where counted_as = $8::uuid))',
    ofRollup: 'name = any(array(select $8::text union all select id::text from virtual_keys where counted_as = $8::uuid))',
  },
  // PostgreSQL rejects parameters that a statement doesn't use, so these conditions mention `$8` although they don't
  // need it.
  source: { ofRow: 'source = $3::text and $8::uuid is null', ofRollup: 'name = $3::text' },
  project: { ofRow: '$8::uuid is null', ofRollup: 'true' },
};

/** SQL for the usage in call rows and rollups. Has to agree with `core/ceiling-usage.ts`. */
const usageColumns = {
  calls: { row: 'vendor_called::integer', rollup: 'vendor_calls' },
  /** Calls that count against a key's `calls` ceiling. */
  slots: { row: '(vendor_called and takes_slot)::integer', rollup: 'slots' },
  rpm: { row: 'vendor_called::integer', rollup: 'vendor_calls' },
  cost: { row: 'cost_nanos', rollup: 'cost_nanos' },
  tpm: {
    row: `case when vendor_called then tokens_input + tokens_cached_input + tokens_cache_write + tokens_cache_write_1h + tokens_output end`,
    rollup: 'vendor_tokens',
  },
};
