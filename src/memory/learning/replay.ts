/**
 * Replay of failed and stopped batches: by an operator through the API, by the signal `replay` (failed ones only), and by a reset of a
 * batch's run. All of them
 * lock the batch's row first, so concurrent replays are one.
 */
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { toColumns } from '../../db/row-batches.ts';
import { signalBatch, triggerLearning } from '../triggers/learning-triggers.ts';

/** A batch and the Temporal run that executes an activity for it. */
export interface BatchRun {
  readonly batchId: string;
  readonly runId: string;
}

/** A batch whose row the transaction has locked. */
export interface LockedBatch {
  readonly id: string;
  readonly projectId: string;
}

/** Opens the batch with all groups that are not done, for immediate retries. */
async function reopenBatch(tx: Queries, batchId: string): Promise<void> {
  await tx.query(
    `update memory_batch_groups
        set state = case when state <> 'failed' then state when learned_at is null then 'waiting' else 'learned' end,
            failures = 0, unusable = 0, next_try_at = null
      where batch_id = $1::uuid and state <> 'done'`,
    [batchId],
  );
  await tx.query(`update memory_batches set state = 'running', finished_at = null where id = $1::uuid`, [batchId]);
}

/** Reopens a batch that is not done, and starts or signals its run. */
export async function replayBatch(tx: Queries, batch: LockedBatch): Promise<void> {
  await reopenBatch(tx, batch.id);
  await signalBatch(tx, batch, 'replay');
}

/** Reopens a failed or stopped batch when another run than this one closed it: this one was reset. */
export async function reopenAfterReset(tx: Queries, { batchId, runId }: BatchRun): Promise<void> {
  const [closed] = await tx.query(
    `select 1 from memory_batches where id = $1::uuid and state in ('failed', 'stopped') and run_id is distinct from $2::text for update`,
    [batchId, runId],
  );
  if (closed) await reopenBatch(tx, batchId);
}

/** The states of batches that need a replay. */
export const endedStates = ['failed', 'stopped'] as const;
export type EndedState = (typeof endedStates)[number];

/** Replays the batches of a project in this state; returns their ids. */
export function replayProject(database: Database, projectId: string, state: EndedState): Promise<string[]> {
  return database.transaction(async (tx) => {
    const batches = await tx.query<{ id: string }>(
      `select id from memory_batches where project_id = $1::uuid and state = $2::text order by id for update`,
      [projectId, state],
    );
    for (const { id } of batches) await replayBatch(tx, { id, projectId });
    return batches.map(({ id }) => id);
  });
}

/** A run of a batch that ended in Temporal, where no newer run follows it. */
export interface EndedRun extends BatchRun {
  /** `stopped`: an operator terminated or cancelled it. `failed`: it ended otherwise. */
  readonly state: EndedState;
}

/**
 * Closes batches that still count as running although their run has ended, so that only a replay starts them again. Skips a batch whose
 * replay is under way: this run had closed it before, or the replay's outbox row is pending. Returns the ids of the batches that it closed.
 */
export function closeEndedBatches({ database, clock }: { database: Database; clock: Clock }, runs: readonly EndedRun[]): Promise<string[]> {
  return database.transaction(async (tx) => {
    // In a separate statement, so that the next one sees what a concurrent replay committed; ordered like its locks.
    await tx.query(`select 1 from memory_batches where id = any($1::uuid[]) and state = 'running' order by id for update`, [
      runs.map(({ batchId }) => batchId),
    ]);
    const closed = await tx.query<LockedBatch>(
      `update memory_batches batch
          set state = ended.state, run_id = ended.run_id, finished_at = $4::timestamptz
         from unnest($1::uuid[], $2::text[], $3::text[]) as ended (batch_id, run_id, state)
        where batch.id = ended.batch_id and batch.state = 'running' and batch.run_id is distinct from ended.run_id
          and not exists (select 1 from outbox
                           where project_id = batch.project_id and signal = 'replay' and input ->> 'batch_id' = batch.id::text)
       returning batch.id, batch.project_id as "projectId"`,
      [...toColumns(runs, 'batchId', 'runId', 'state'), new Date(clock.now())],
    );
    for (const projectId of new Set(closed.map((batch) => batch.projectId))) await triggerLearning(tx, projectId);
    return closed.map(({ id }) => id);
  });
}
