/**
 * Deletes counters whose window is over, with their leases. A counter that is needed again is rebuilt from its call rows. In small statements:
 * a thousand keys with `rpm` and `tpm` leave two thousand counters a minute, and one large delete would block the database.
 */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const batchSize = 100;
/** Longer than any call that starts in one month can run into the next. */
const monthRetentionMs = 86_400_000;

/** Deletes all counters of minutes and days that ended before `epochMs`. */
export async function deleteExpiredCounters(database: Database, epochMs: number): Promise<void> {
  while ((await deleteBatch(database, `window_kind in ('minute', 'day')`, epochMs, batchSize)) === batchSize);
}

/** Deletes a batch of counters of any window that ended at least a day ago, and returns how many. For the daily cleanup. */
export function deleteExpiredBatch(database: Database, clock: Clock): Promise<number> {
  return deleteBatch(database, 'true', clock.now() - monthRetentionMs, 500);
}

async function deleteBatch(database: Database, condition: string, endedBefore: number, maxRows: number): Promise<number> {
  const rows = await database.query(
    `delete from limit_counters where id in (
       select id from limit_counters where ${condition} and window_end < $1::timestamptz
        order by id limit ${maxRows} for update skip locked)
     returning id`,
    [new Date(endedBefore)],
  );
  return rows.length;
}
