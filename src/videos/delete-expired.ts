/** Deletes settled videos after their retention period. Their costs stay in the rows of their calls. */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { batchSize } from '../db/row-batches.ts';

/**
 * The row tells us who owns a video, so we have to keep it longer than vendors keep operations and files (about two
 * days). A call may also wait in a journal for a while before the row can correct it.
 */
const retentionDays = 30;

/** Deletes one batch and returns its size, which is 0 once there is nothing left. Running videos are never deleted. */
export async function deleteExpiredVideos(database: Database, clock: Clock): Promise<number> {
  const rows = await database.query(
    `delete from videos where call_id in (
       select call_id from videos where settled_at < $1::timestamptz order by settled_at limit $2::integer for update skip locked)
     returning call_id`,
    [new Date(clock.now() - retentionDays * 24 * 3_600_000), batchSize],
  );
  return rows.length;
}
