/**
 * Deletes erasures that found nothing. Any key can request them without end, because a subject doesn't have to exist to
 * be erased. Erasures that found something are kept as evidence that the data was deleted.
 */
import { minIdAt } from '../../core/ids.ts';
import { type Clock, dayMs } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { batchSize } from '../../db/row-batches.ts';

/**
 * How long we keep an erasure that found nothing. It's also a tombstone, and the journal of a host that was down may
 * still contain calls of its subject. Calls in flight end much sooner.
 */
const retentionDays = 30;

/** Deletes a batch and returns its size, so 0 means that there's nothing left to do. */
export async function deleteEmptyErasures(database: Queries, clock: Clock): Promise<number> {
  const rows = await database.query(
    `delete from erasures where id in (
       select id from erasures
        where id < $1::uuid and state = 'done' and discarded = 0 and purged = 0 and restored_at is null
          and not jsonb_path_exists(deleted, '$.* ? (@ > 0)')
          and not exists (select 1 from erasure_processes where erasure_id = erasures.id and cache_entries + open_calls > 0)
        order by id limit $2::integer for update skip locked)
     returning 1`,
    [minIdAt(clock.now() - retentionDays * dayMs), batchSize],
  );
  return rows.length;
}
