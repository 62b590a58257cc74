/** What tells the learning workflows to look again (`workflows/contract.ts`). Each workflow does nothing when there is nothing to do. */
import type { Queries } from '../../db/database.ts';
import { enqueueOnce } from '../../db/outbox.ts';

const signal = { name: 'look', input: {} };

/** Something has changed that may make a batch of the project due. */
export function wakeLearning(tx: Queries, projectId: string): Promise<void> {
  return enqueueOnce(tx, {
    workflow: 'projectLearning',
    workflowId: `learning/${projectId}`,
    input: { project_id: projectId },
    projectId,
    signal,
  });
}

/** The batch is new, was replayed, or need not wait any longer. */
export function wakeBatch(tx: Queries, { id, projectId }: { readonly id: string; readonly projectId: string }): Promise<void> {
  return enqueueOnce(tx, {
    workflow: 'learningBatch',
    workflowId: `learning/${projectId}/batch/${id}`,
    input: { batch_id: id },
    projectId,
    signal,
  });
}
