/** Deletes settled videos after their retention. Their costs remain in the rows of their calls. */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { batchSize } from '../db/row-batches.ts';

/**
 * Longer than vendors keep operations and files (about two days), since the row identifies their owner, and longer than a call may wait in a
 * journal before the row corrects it.
 */
const retentionDays = 30;

/** Deletes one batch and returns its size; 0 when none remains. Running videos are kept at any age. */
export async function deleteExpiredVideos(database: Database, clock: Clock): Promise<number> {
  const rows = await database.query(
    `delete from videos where call_id in (
       select call_id from videos where settled_at < $1::timestamptz order by settled_at limit $2::integer for update skip locked)
     returning call_id`,
    [new Date(clock.now() - retentionDays * 24 * 3_600_000), batchSize],
  );
  return rows.length;
}
