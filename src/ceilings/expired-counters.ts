/**
 * Deletes counters whose window is over, together with their leases. If such a counter is needed again, it's rebuilt
 * from the call rows. We delete in small batches because a thousand keys with `rpm` and `tpm` leave two thousand
 * counters a minute, and one large delete would block the database.
 */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const batchSize = 100;
/** Long enough for calls that started in the window and are still running. */
const shortRetentionMs = 3_600_000;
/** No call that starts in one month can run this long into the next one. */
const monthRetentionMs = 86_400_000;

/** Deletes all counters of minutes and days that ended more than an hour ago. */
export async function deleteExpiredCounters(database: Database, clock: Clock): Promise<void> {
  const condition = `window_kind in ('minute', 'day')`;
  while ((await deleteBatch(database, { condition, clock, retentionMs: shortRetentionMs, maxRows: batchSize })) === batchSize);
}

/**
 * Deletes a batch of counters, of any kind of window, that ended at least a day ago. Returns their number. Used by the
 * daily cleanup.
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
 * Only deletes counters whose window is over by both clocks, so that a host whose clock is ahead can't delete counters
 * that others use.
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
