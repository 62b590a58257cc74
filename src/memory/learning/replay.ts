/**
 * Replays failed and stopped batches. An operator can ask for this through the API or by resetting the batch's run in
 * Temporal. The signal `replay` only replays failed batches. Replaying a batch locks its row first, so two replays at
 * the same time count as one.
 */
import { maxUnusableResponses } from '../../../workflows/contract.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { toColumns } from '../../db/row-batches.ts';
import { type BatchKey, signalBatch, triggerLearning } from '../triggers/learning-triggers.ts';

export interface BatchRun {
  readonly batchId: string;
  readonly runId: string;
}

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

/** Reopens the batch unless it's done, and starts or signals its run. The caller must have locked its row. */
export async function replayBatch(tx: Queries, batch: BatchKey): Promise<void> {
  await reopenBatch(tx, batch.id);
  await signalBatch(tx, batch, 'replay');
}

/**
 * Reopens a failed or stopped batch if it was closed by a run other than this one. That means that somebody has reset
 * the run that closed it, and this is the new run. Returns true if the batch was reopened.
 *
 * The batch stays closed if its row has no run id. In that case it was either closed by a worker of an older version,
 * maybe for this very run, or stopped by an operator while its run hasn't ended yet.
 */
export async function reopenAfterReset(tx: Queries, { batchId, runId }: BatchRun): Promise<boolean> {
  const [closed] = await tx.query(
    `select 1 from memory_batches where id = $1::uuid and state in ('failed', 'stopped') and run_id <> $2::text for update`,
    [batchId, runId],
  );
  if (closed) await reopenBatch(tx, batchId);
  return closed !== undefined;
}

export const endedStates = ['failed', 'stopped'] as const;
export type EndedState = (typeof endedStates)[number];

/** SQL that's true for a `batch` that's still running although one of its groups keeps getting unusable responses. */
export const isFailingSql = `(batch.state = 'running' and exists (
  select 1 from memory_batch_groups part
   where part.batch_id = batch.id and part.state in ('waiting', 'learned') and part.unusable >= ${maxUnusableResponses}))`;

/**
 * Replays all batches of the project that are in `state` and returns their ids. `failed` also includes batches that are
 * failing but still running.
 */
export function replayProject(database: Database, projectId: string, state: EndedState): Promise<string[]> {
  return databaseOf(database, projectId).transaction(async (tx) => {
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
 * Returns the runs whose batch is still open. We leave out runs that have already closed their batch, because if it's
 * open now, somebody has reopened it since then. If a `runId` is null, we only check whether the batch is open.
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

/** A Temporal run of a batch that has ended without continuing as a new run. */
export interface EndedRun extends BatchRun {
  /** `stopped` if an operator terminated or cancelled the run, otherwise `failed`. */
  readonly state: EndedState;
}

/**
 * Closes a batch that's still marked as running although its run has ended. After that, only a replay can start it
 * again. Returns null if there was nothing to close.
 *
 * We leave the batch alone while somebody is replaying it, i.e. if a replay is waiting in the outbox, or if this run
 * had closed the batch and it's open again.
 */
export function closeEndedBatch(
  { database, clock }: { database: Database; clock: Clock },
  { batchId, runId, state }: EndedRun,
): Promise<{ readonly project: string } | null> {
  return database.transaction(async (tx) => {
    // Lock the batch in a separate statement, so that the next statement sees what a concurrent replay has changed.
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
