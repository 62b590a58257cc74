/**
 * Maintains the document frequencies of words and the sizes of projects, so that search can prefer rare words without
 * having to count. About once a day, we take a sample of the passages of each large project. Words that occur in less
 * than one percent of them count as rare, and we don't store those.
 */
import type { Clock } from '../../core/time.ts';
import type { Database } from '../../db/database.ts';
import { lockProject } from '../../db/locks.ts';
import { sampleWords } from '../records/word-sample.ts';

const minPassages = 1_000;
/**
 * The minimum interval between two refreshes. It's shorter than a day, so that the statistics are always due again when
 * the next daily cleanup runs.
 */
const minIntervalMs = 20 * 3_600_000;

export async function refreshWordStatistics(database: Database, projectId: string, now: number): Promise<void> {
  const [due] = await database.query<{ count: number; memories: number; sharedMemories: number; sharedPassages: number }>(
    `select (select count(*) from memory_passages where project_id = $1::uuid)::integer as count,
            (select count(*) from memory_passages where project_id = $1::uuid and item_id is not null)::integer as memories,
            (select count(*) from memory_passages where project_id = $1::uuid and item_id is not null and subject is null)::integer as "sharedMemories",
            (select count(*) from memory_passages where project_id = $1::uuid and subject is null)::integer as "sharedPassages"
       from memory_embeddings
      where project_id = $1::uuid and (counted_at is null or counted_at < $2::timestamptz)`,
    [projectId, new Date(now - minIntervalMs)],
  );
  if (!due || due.count < minPassages) return;
  await database.transaction(async (tx) => {
    // Take the shared lock, so that we don't sample texts that an erasure is currently deleting.
    await lockProject(tx, projectId, 'shared');
    await sampleWords(tx, projectId, { passages: due.count, memories: due.memories });
    await tx.query(
      `update memory_embeddings
          set passages = $2::integer, memories = $3::integer, shared_memories = $4::integer, shared_passages = $5::integer, counted_at = $6::timestamptz
        where project_id = $1::uuid`,
      [projectId, due.count, due.memories, due.sharedMemories, due.sharedPassages, new Date(now)],
    );
  });
}

/**
 * Refreshes the statistics of every project that's due. Projects that never embed anything new don't trigger a refresh
 * themselves, so the daily cleanup does it. Always returns 0, which means that there's nothing left to do.
 */
export async function refreshAllWordStatistics(database: Database, clock: Clock, signal: AbortSignal): Promise<number> {
  const rows = await database.query<{ projectId: string }>(`select project_id as "projectId" from memory_embeddings order by project_id`);
  for (const { projectId } of rows) {
    signal.throwIfAborted();
    await refreshWordStatistics(database, projectId, clock.now());
  }
  return 0;
}
