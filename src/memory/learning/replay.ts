/**
 * Replay of failed and stopped batches: by an operator through the API, by the signal `replay`, and by a reset of a batch's run. All of them
 * lock the batch's row first, so concurrent replays are one.
 */
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { signalBatch, triggerLearning } from '../triggers/learning-triggers.ts';

/** A batch and the Temporal run that executes an activity for it. */
export interface BatchRun {
  readonly batchId: string;
  readonly runId: string;
}

/** Opens all groups that are not done, for immediate retries; lock the batch's row first. False when all are done. */
export async function reopenBatch(tx: Queries, batchId: string): Promise<boolean> {
  const open = await tx.query(
    `update memory_batch_groups
        set state = case when state <> 'failed' then state when learned_at is null then 'waiting' else 'learned' end,
            failures = 0, unusable = 0, next_try_at = null
      where batch_id = $1::uuid and state <> 'done'
     returning position`,
    [batchId],
  );
  if (open.length === 0) return false;
  await tx.query(`update memory_batches set state = 'running', finished_at = null where id = $1::uuid`, [batchId]);
  return true;
}

/** Reopens a failed or stopped batch when another run than this one closed it: this one was reset. */
export async function reopenAfterReset(tx: Queries, { batchId, runId }: BatchRun): Promise<void> {
  const [closed] = await tx.query(
    `select 1 from memory_batches where id = $1::uuid and state in ('failed', 'stopped') and run_id is distinct from $2::text for update`,
    [batchId, runId],
  );
  if (closed) await reopenBatch(tx, batchId);
}

/** Replays the failed and stopped batches of a project; returns their number. */
export function replayProject(database: Database, projectId: string): Promise<number> {
  return database.transaction(async (tx) => {
    const batches = await tx.query<{ id: string }>(
      `select id from memory_batches where project_id = $1::uuid and state in ('failed', 'stopped') order by id for update`,
      [projectId],
    );
    let replayed = 0;
    for (const { id } of batches) {
      if (!(await reopenBatch(tx, id))) continue;
      replayed += 1;
      await signalBatch(tx, { id, projectId }, 'replay');
    }
    return replayed;
  });
}

/** A run of a batch that ended in Temporal, where no newer run follows it. */
export interface EndedRun extends BatchRun {
  /** `stopped`: an operator terminated or cancelled it. `failed`: it ended otherwise. */
  readonly state: 'stopped' | 'failed';
}

/**
 * Closes batches that still count as running although their run has ended, so that only a replay starts them again. Skips a batch that this
 * run had closed before: its replay is under way. Returns the ids of the batches that it closed.
 */
export function closeEndedBatches({ database, clock }: { database: Database; clock: Clock }, runs: readonly EndedRun[]): Promise<string[]> {
  return database.transaction(async (tx) => {
    const closed = await tx.query<{ id: string; projectId: string }>(
      `update memory_batches batch
          set state = ended.state, run_id = ended.run_id, finished_at = $4::timestamptz
         from unnest($1::uuid[], $2::text[], $3::text[]) as ended (batch_id, run_id, state)
        where batch.id = ended.batch_id and batch.state = 'running' and batch.run_id is distinct from ended.run_id
       returning batch.id, batch.project_id as "projectId"`,
      [runs.map(({ batchId }) => batchId), runs.map(({ runId }) => runId), runs.map(({ state }) => state), new Date(clock.now())],
    );
    for (const projectId of new Set(closed.map((batch) => batch.projectId))) await triggerLearning(tx, projectId);
    return closed.map(({ id }) => id);
  });
}
