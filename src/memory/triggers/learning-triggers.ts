/**
 * Writes outbox rows that start or signal the learning workflows. If a workflow has nothing to do, it ignores the
 * signal.
 */
import { wakeSignal } from '../../../workflows/contract.ts';
import type { Database, Queries } from '../../db/database.ts';
import { enqueue, enqueueUnlessPending, type OutboxEntry } from '../../db/outbox.ts';

const signal = { name: wakeSignal, input: {} };

/** Call this after any change that could make a batch due. */
export function triggerLearning(tx: Queries, projectId: string): Promise<void> {
  return enqueueUnlessPending(tx, {
    workflow: 'projectLearning',
    workflowId: `learning/${projectId}`,
    input: { project_id: projectId },
    projectId,
    signal,
  });
}

export interface BatchKey {
  readonly id: string;
  readonly projectId: string;
}

/** Starts the workflow of a batch, or wakes it up if it's already running. */
export function signalBatch(tx: Queries, batch: BatchKey, name: 'look' | 'replay' = wakeSignal): Promise<void> {
  return enqueueUnlessPending(tx, { ...toBatchEntry(batch), signal: { name, input: {} } });
}

/** Tells the project's running batches to retry their blocked groups now. */
export async function signalBatches(tx: Queries, projectId: string): Promise<void> {
  const batches = await tx.query<{ id: string }>(
    `select id from memory_batches where state = 'running' and project_id = $1::uuid order by id`,
    [projectId],
  );
  for (const { id } of batches) await signalBatch(tx, { id, projectId });
}

/**
 * Wakes up every project that has messages to learn from or a batch to replay, and signals all running batches. If
 * Temporal has lost its state, this also starts their workflows again.
 */
export async function reenqueueLearning(database: Database): Promise<void> {
  const projects = await database.query<{ projectId: string }>(
    `select project_id as "projectId" from conversations where state = 'read' and learnable and batched_messages < messages
     union select project_id from memory_batches where state in ('failed', 'stopped')`,
  );
  for (const { projectId } of projects) await database.transaction((tx) => triggerLearning(tx, projectId));
  await signalAllBatches(database);
}

/** Signals the running batches of all projects, e.g. after a configuration change. */
export async function signalAllBatches(database: Database): Promise<void> {
  const projects = await database.query<{ projectId: string }>(
    `select distinct project_id as "projectId" from memory_batches where state = 'running'`,
  );
  for (const { projectId } of projects) await database.transaction((tx) => signalBatches(tx, projectId));
}

/**
 * Starts the workflows of batches, except for batches that already have a row in the outbox. If a workflow is running,
 * this has no effect. A project can have a thousand batches, so we don't run a query for each of them.
 */
export async function ensureBatchesStarted(tx: Queries, batches: readonly BatchKey[]): Promise<void> {
  if (batches.length === 0) return;
  const pending = await tx.query<{ workflowId: string }>(
    `select distinct workflow_id as "workflowId" from outbox where workflow_id = any($1::text[])`,
    [batches.map(batchWorkflowId)],
  );
  const started = new Set(pending.map(({ workflowId }) => workflowId));
  const entries = batches.map(toBatchEntry).filter(({ workflowId }) => !started.has(workflowId));
  await enqueue(tx, entries);
}

export function batchWorkflowId({ id, projectId }: BatchKey): string {
  return `learning/${projectId}/batch/${id}`;
}

function toBatchEntry(batch: BatchKey): OutboxEntry {
  const { id, projectId } = batch;
  return { workflow: 'learningBatch', workflowId: batchWorkflowId(batch), input: { batch_id: id }, projectId };
}
