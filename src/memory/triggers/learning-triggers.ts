/** What tells the learning workflows to look again (`workflows/contract.ts`). Each workflow does nothing when there is nothing to do. */
import type { Queries } from '../../db/database.ts';
import { enqueue, enqueueUnlessPending, type OutboxEntry } from '../../db/outbox.ts';

const signal = { name: 'look', input: {} };

/** Something has changed that may make a batch of the project due. */
export function triggerLearning(tx: Queries, projectId: string): Promise<void> {
  return enqueueUnlessPending(tx, {
    workflow: 'projectLearning',
    workflowId: `learning/${projectId}`,
    input: { project_id: projectId },
    projectId,
    signal,
  });
}

interface BatchKey {
  readonly id: string;
  readonly projectId: string;
}

/** The batch is new, was replayed, or need not wait any longer. */
export function signalBatch(tx: Queries, batch: BatchKey): Promise<void> {
  return enqueueUnlessPending(tx, { ...toBatchEntry(batch), signal });
}

/** Tells the batches of a project that what they wait for may be there now. */
export async function signalBatches(tx: Queries, projectId: string): Promise<void> {
  const batches = await tx.query<{ id: string }>(
    `select id from memory_batches where state = 'running' and project_id = $1::uuid order by id`,
    [projectId],
  );
  for (const { id } of batches) await signalBatch(tx, { id, projectId });
}

/** The batch should run; if it does, it goes on as it was. */
export async function ensureBatchStarted(tx: Queries, batch: BatchKey): Promise<void> {
  const entry = toBatchEntry(batch);
  const [pending] = await tx.query(`select 1 from outbox where workflow_id = $1::text limit 1`, [entry.workflowId]);
  if (!pending) await enqueue(tx, [entry]);
}

/** What an operator looks for in Temporal. */
export function batchWorkflowId({ id, projectId }: BatchKey): string {
  return `learning/${projectId}/batch/${id}`;
}

function toBatchEntry(batch: BatchKey): OutboxEntry {
  const { id, projectId } = batch;
  return { workflow: 'learningBatch', workflowId: batchWorkflowId(batch), input: { batch_id: id }, projectId };
}
