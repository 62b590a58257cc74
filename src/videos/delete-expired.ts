/** Deletes expired videos that are settled. Their cost remains, because it's stored with the calls. */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { batchSize } from '../db/row-batches.ts';

/**
 * How long we keep a video after it was settled. Vendors keep operations and files for about two days, and during that
 * time the row tells us which project a video belongs to. The row also has the corrected cost, which we need until the
 * call has left the journal.
 */
const retentionDays = 30;

/** Deletes a batch and returns its size, so 0 means that there's nothing left to do. Never deletes a running video. */
export async function deleteExpiredVideos(database: Database, clock: Clock): Promise<number> {
  const rows = await database.query(
    `delete from videos where call_id in (
       select call_id from videos where settled_at < $1::timestamptz order by settled_at limit $2::integer for update skip locked)
     returning call_id`,
    [new Date(clock.now() - retentionDays * 24 * 3_600_000), batchSize],
  );
  return rows.length;
}
