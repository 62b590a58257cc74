/** Deletes settled videos after their retention period. Their costs are kept, because they're stored with the calls. */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { batchSize } from '../db/row-batches.ts';

/**
 * Videos have to keep their row for as long as vendors keep operations and files (about two days), because it says
 * which project they belong to. The row also has the corrected cost of the call, so it must outlive the call's stay in
 * a journal.
 */
const retentionDays = 30;

/**
 * Deletes one batch and returns its size. Returns 0 if there's nothing left to delete. Running videos are never
 * deleted.
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
