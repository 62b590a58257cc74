/**
 * Deletes counters whose window has ended, together with their leases. If such a counter is needed again, it's computed
 * from the call rows. We delete in small batches. A thousand keys with `rpm` and `tpm` ceilings leave two thousand
 * counters per minute, and deleting them all at once would block the database.
 */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const batchSize = 100;
/** We keep minute and day counters for an hour, so that calls which started in the window can still finish. */
const shortRetentionMs = 3_600_000;
/** We keep month counters for a day. No call runs longer than that, so none can still need the old month. */
const monthRetentionMs = 86_400_000;

/** Deletes all minute and day counters that ended more than an hour ago. */
export async function deleteExpiredCounters(database: Database, clock: Clock): Promise<void> {
  const condition = `window_kind in ('minute', 'day')`;
  while ((await deleteBatch(database, { condition, clock, retentionMs: shortRetentionMs, maxRows: batchSize })) === batchSize);
}

/**
 * Deletes one batch of counters whose window ended at least a day ago, whatever its kind. Returns how many were
 * deleted. Used by the daily cleanup.
 */
export function deleteExpiredBatch(database: Database, clock: Clock): Promise<number> {
  return deleteBatch(database, { condition: 'true', clock, retentionMs: monthRetentionMs, maxRows: 500 });
}

interface Batch {
  readonly condition: string;
  readonly clock: Clock;
  readonly retentionMs: number;
  readonly maxRows: number;
}

/**
 * Only deletes counters whose window has ended by both this host's clock and the database's. Otherwise a host whose
 * clock is ahead could delete counters that others still use.
 */
async function deleteBatch(database: Database, { condition, clock, retentionMs, maxRows }: Batch): Promise<number> {
  const rows = await database.query(
    `delete from limit_counters where id in (
       select id from limit_counters where ${condition} and window_end < least($1::timestamptz, now()) - make_interval(secs => $2::float8)
        order by id limit ${maxRows} for update skip locked)
     returning id`,
    [new Date(clock.now()), retentionMs / 1_000],
  );
  return rows.length;
}
