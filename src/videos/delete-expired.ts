/** What became of a video is kept as long as somebody may ask for it. Its cost stands in its call's row, which stays. */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';

/**
 * Vendors keep operations and files for about two days. As long as one does, the row says whose they are: a vendor that keeps them longer has a
 * month. It is far longer, too, than a call may wait in a journal for a database, which is when the row corrects it.
 */
const retentionDays = 30;

/** A statement on the embedded database holds up the event loop: slices of this size (decisions 1). */
const batchSize = 500;

/** Deletes some rows; returns how many, 0 when none is left. A video that still runs stays, however old. */
export async function deleteExpiredVideos(database: Database, clock: Clock): Promise<number> {
  const rows = await database.query(
    `delete from videos where call_id in (
       select call_id from videos where settled_at < $1::timestamptz order by settled_at limit $2::integer for update skip locked)
     returning call_id`,
    [new Date(clock.now() - retentionDays * 24 * 3_600_000), batchSize],
  );
  return rows.length;
}
