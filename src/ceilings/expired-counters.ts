/**
 * Deletes counters whose window has ended, together with their leases. If such a counter is needed again, we compute it
 * from the call rows. A thousand keys with `rpm` and `tpm` ceilings leave behind two thousand counters per minute. If
 * we deleted them all at once, it would block the database, so we do it in small batches.
 */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const batchSize = 100;
/** Keep minute and day counters for an hour, because calls that started in the window may still be running. */
const shortRetentionMs = 3_600_000;
/** Keep month counters for a day. No call runs longer than that. */
const monthRetentionMs = 86_400_000;

export async function deleteExpiredCounters(database: Database, clock: Clock): Promise<void> {
  const condition = `window_kind in ('minute', 'day')`;
  while ((await deleteBatch(database, { condition, clock, retentionMs: shortRetentionMs, maxRows: batchSize })) === batchSize);
}

/**
 * For the daily cleanup. Deletes a batch of counters of any kind whose window ended at least a day ago, and returns how
 * many.
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
 * Only deletes counters whose window has ended by the clocks of both this host and the database. Otherwise a host whose
 * clock is ahead could delete counters that are still in use.
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
