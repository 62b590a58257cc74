/** Deletes settled videos when they've expired. What they cost remains, because that's stored with the calls. */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { batchSize } from '../db/row-batches.ts';

/**
 * A video's row says which project it belongs to, so we have to keep it for as long as vendors keep operations and
 * files, which is about two days. It also has the corrected cost of the call, which we need until the call has left the
 * journal.
 */
const retentionDays = 30;

/**
 * Deletes one batch and returns how many there were, so 0 means that there's nothing left to do. Never deletes a video
 * that's still running.
 */
export async function deleteExpiredVideos(database: Database, clock: Clock): Promise<number> {
  const rows = await database.query(
    `delete from videos where call_id in (
       select call_id from videos where settled_at < $1::timestamptz order by settled_at limit $2::integer for update skip locked)
     returning call_id`,
    [new Date(clock.now() - retentionDays * 24 * 3_600_000), batchSize],
  );
  return rows.length;
}
