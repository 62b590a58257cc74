/**
 * Which words are frequent in a project, so that search can leave them to rarer ones. Counted from its newest passages, once a day and only
 * where there are enough for it to matter; what is below a hundredth of them counts as rare and is not kept.
 */
import type { Clock } from '../../core/time.ts';
import type { Database } from '../../db/database.ts';

const minPassages = 1_000;
const sampleSize = 5_000;
/** Less than a day, so that the daily cleanup never comes a moment too early. */
const minIntervalMs = 20 * 3_600_000;

export async function refreshWordStatistics(database: Database, projectId: string, now: number): Promise<void> {
  const [due] = await database.query<{ count: number }>(
    `select (select count(*) from memory_passages where project_id = $1::uuid)::integer as count
       from memory_embeddings
      where project_id = $1::uuid and (counted_at is null or counted_at < $2::timestamptz)`,
    [projectId, new Date(now - minIntervalMs)],
  );
  if (!due || due.count < minPassages) return;
  await database.transaction(async (tx) => {
    // An erasure deletes what was counted before it; what it deletes at this moment must not be counted.
    await tx.query(`select pg_advisory_xact_lock_shared(hashtextextended($1::text, 0))`, [projectId]);
    await tx.query(`delete from memory_words where project_id = $1::uuid`, [projectId]);
    await tx.query(
      // ts_stat takes its query as text.
      `insert into memory_words (project_id, word, passages)
       select $1::uuid, stat.word, (stat.ndoc::float8 * $2::integer / least($2::integer, ${sampleSize}))::integer
         from ts_stat(format('select lexemes from memory_passages where project_id = %L order by id desc limit ${sampleSize}', $1::uuid)) stat
        where stat.ndoc * 100 >= least($2::integer, ${sampleSize})`,
      [projectId, due.count],
    );
    await tx.query(`update memory_embeddings set passages = $2::integer, counted_at = $3::timestamptz where project_id = $1::uuid`, [
      projectId,
      due.count,
      new Date(now),
    ]);
  });
}

/** Counts the words of all projects, as far as that is due: where nothing new is embedded, nobody else does. Always 0: it does all at once. */
export async function refreshAllWordStatistics(database: Database, clock: Clock, signal: AbortSignal): Promise<number> {
  const rows = await database.query<{ projectId: string }>(`select project_id as "projectId" from memory_embeddings order by project_id`);
  for (const { projectId } of rows) {
    signal.throwIfAborted();
    await refreshWordStatistics(database, projectId, clock.now());
  }
  return 0;
}
