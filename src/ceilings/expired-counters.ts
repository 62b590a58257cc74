/**
 * Counters whose window is over go, with what is leased of them: nobody asks for them any more, and one that is asked for again is made of its
 * call rows. In small statements (lessons 16): a thousand keys with `rpm` and `tpm` leave two thousand counters a minute.
 */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const batchSize = 100;
/** Longer than any call runs on from one month into the next. */
const monthRetentionMs = 86_400_000;

/** Those whose minute or day ended before `epochMs`; all of them. */
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

/** Some of those whose month, or shorter window, is over; returns how many. For the daily cleanup. */
export async function deleteExpiredBatch(database: Database, clock: Clock): Promise<number> {
  const rows = await database.query(
    `delete from limit_counters where id in (
       select id from limit_counters where window_end < $1::timestamptz order by id limit 500 for update skip locked)
     returning id`,
    [new Date(clock.now() - monthRetentionMs)],
  );
  return rows.length;
}
