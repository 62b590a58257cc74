/** Wakes the learning that nobody may be waiting for any more: Temporal lost its state, or came late (decisions 8). */
import type { Database } from '../../db/database.ts';
import { signalBatches, triggerLearning } from '../triggers/learning-triggers.ts';

/** Writes outbox rows for projects where messages wait and for batches that are not done. Those that run are told to look, which is harmless. */
export async function reenqueueLearning(database: Database): Promise<void> {
  const projects = await database.query<{ projectId: string }>(
    `select distinct project_id as "projectId" from conversations where state = 'read' and learnable and batched_messages < messages`,
  );
  for (const { projectId } of projects) await database.transaction((tx) => triggerLearning(tx, projectId));
  await signalAllBatches(database);
}

/** Tells all batches that what they wait for may be there now: the configuration has changed. */
export async function signalAllBatches(database: Database): Promise<void> {
  const projects = await database.query<{ projectId: string }>(
    `select distinct project_id as "projectId" from memory_batches where state = 'running'`,
  );
  for (const { projectId } of projects) await database.transaction((tx) => signalBatches(tx, projectId));
}
