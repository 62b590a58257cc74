/**
 * Deletes counters whose window is over, with their leases. A counter that is needed again is rebuilt from its call rows. In small statements:
 * a thousand keys with `rpm` and `tpm` leave two thousand counters a minute, and one large delete would block the database.
 */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const batchSize = 100;
const dailyBatchSize = 500;
/** Longer than any call that starts in one month can run into the next. */
const monthRetentionMs = 86_400_000;

/** Deletes all counters of minutes and days that ended before `epochMs`. */
export async function deleteExpiredCounters(database: Database, epochMs: number): Promise<void> {
  for (let deleted = batchSize; deleted === batchSize; ) {
    const rows = await database.query(
      `delete from limit_counters where id in (
         select id from limit_counters where window_kind in ('minute', 'day') and window_end < $1::timestamptz
          order by id limit ${batchSize} for update skip locked)
       returning id`,
      [new Date(epochMs)],
    );
    deleted = rows.length;
  }
}

/** Deletes a batch of counters of any window that ended at least a day ago, and returns how many. For the daily cleanup. */
export async function deleteExpiredBatch(database: Database, clock: Clock): Promise<number> {
  const rows = await database.query(
    `delete from limit_counters where id in (
       select id from limit_counters where window_end < $1::timestamptz order by id limit ${dailyBatchSize} for update skip locked)
     returning id`,
    [new Date(clock.now() - monthRetentionMs)],
  );
  return rows.length;
}
