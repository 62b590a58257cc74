/**
 * Replays failed and stopped batches. An operator can do this through the API or by resetting a batch's run. The signal
 * `replay` only replays failed batches. Each of these locks the batch's row first, so concurrent replays are the same
 * as one.
 */
import { maxUnusableResponses } from '../../../workflows/contract.ts';
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

/** Opens the batch again and makes all groups that aren't done due immediately. */
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

/** Reopens a batch that isn't done, and starts or signals its run. */
export async function replayBatch(tx: Queries, batch: LockedBatch): Promise<void> {
  await reopenBatch(tx, batch.id);
  await signalBatch(tx, batch, 'replay');
}

/**
 * Reopens a failed or stopped batch if a different run closed it, because then this run is a reset of that one. Returns
 * whether the batch was reopened. A batch without a run id stays closed, because either a worker of an older version
 * closed it, possibly for this run, or an operator stopped it and its run hasn't ended yet.
 */
export async function reopenAfterReset(tx: Queries, { batchId, runId }: BatchRun): Promise<boolean> {
  const [closed] = await tx.query(
    `select 1 from memory_batches where id = $1::uuid and state in ('failed', 'stopped') and run_id <> $2::text for update`,
    [batchId, runId],
  );
  if (closed) await reopenBatch(tx, batchId);
  return closed !== undefined;
}

/** The states of batches that need a replay. */
export const endedStates = ['failed', 'stopped'] as const;
export type EndedState = (typeof endedStates)[number];

/** An SQL condition for a row `batch` that is running while one of its groups keeps getting unusable responses. */
export const isFailingSql = `(batch.state = 'running' and exists (
  select 1 from memory_batch_groups part
   where part.batch_id = batch.id and part.state in ('waiting', 'learned') and part.unusable >= ${maxUnusableResponses}))`;

/**
 * Replays the project's batches in this state and returns their ids. `failed` includes batches that are still running
 * but failing.
 */
export function replayProject(database: Database, projectId: string, state: EndedState): Promise<string[]> {
  return database.transaction(async (tx) => {
    const batches = await tx.query<{ id: string }>(
      `select id from memory_batches batch
        where project_id = $1::uuid and (state = $2::text or ($2::text = 'failed' and ${isFailingSql})) order by id for update`,
      [projectId, state],
    );
    for (const { id } of batches) await replayBatch(tx, { id, projectId });
    return batches.map(({ id }) => id);
  });
}

/**
 * Returns the runs whose batch is running and wasn't closed by that run before. A `runId` of null stands for any run.
 */
export function findOpenBatches(
  database: Database,
  runs: readonly { readonly batchId: string; readonly runId: string | null }[],
): Promise<{ runId: string | null }[]> {
  return database.query<{ runId: string | null }>(
    `select ended.run_id as "runId"
       from unnest($1::uuid[], $2::text[]) as ended (batch_id, run_id)
       join memory_batches batch on batch.id = ended.batch_id
      where batch.state = 'running' and (ended.run_id is null or batch.run_id is distinct from ended.run_id)`,
    toColumns(runs, 'batchId', 'runId'),
  );
}

/** A run of a batch that has ended in Temporal and has no successor. */
export interface EndedRun extends BatchRun {
  /** It's `stopped` if an operator terminated or cancelled the run, and `failed` if it ended in any other way. */
  readonly state: EndedState;
}

/**
 * Closes a batch that still counts as running although its run has ended, so that only a replay starts it again. We
 * skip batches that are being replayed. In that case the outbox row of the replay is pending, or this run had already
 * closed the batch before. Returns null if nothing was closed.
 */
export function closeEndedBatch(
  { database, clock }: { database: Database; clock: Clock },
  { batchId, runId, state }: EndedRun,
): Promise<{ readonly project: string } | null> {
  return database.transaction(async (tx) => {
    // Lock the batch in a separate statement, so that the next statement sees what a concurrent replay committed.
    await tx.query(`select 1 from memory_batches where id = $1::uuid and state = 'running' for update`, [batchId]);
    const [closed] = await tx.query<{ projectId: string; project: string }>(
      `update memory_batches batch set state = $3::text, run_id = $2::text, finished_at = $4::timestamptz
        where id = $1::uuid and state = 'running' and run_id is distinct from $2::text
          and not exists (select 1 from outbox
                           where project_id = batch.project_id and signal = 'replay' and input ->> 'batch_id' = batch.id::text)
       returning project_id as "projectId", (select slug from projects where projects.id = batch.project_id) as project`,
      [batchId, runId, state, new Date(clock.now())],
    );
    if (closed) await triggerLearning(tx, closed.projectId);
    return closed ?? null;
  });
}
