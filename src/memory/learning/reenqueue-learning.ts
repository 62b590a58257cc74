/** Enqueues learning work again, because Temporal may have lost its state. */
import type { Database } from '../../db/database.ts';
import { signalBatches, triggerLearning } from '../triggers/learning-triggers.ts';

/** Writes outbox rows for projects with waiting messages and for unfinished batches; running workflows are only signalled. */
export async function reenqueueLearning(database: Database): Promise<void> {
  const projects = await database.query<{ projectId: string }>(
    `select distinct project_id as "projectId" from conversations where state = 'read' and learnable and batched_messages < messages`,
  );
  for (const { projectId } of projects) await database.transaction((tx) => triggerLearning(tx, projectId));
  await signalAllBatches(database);
}

/** Signals the running batches of all projects, for instance after a configuration change. */
export async function signalAllBatches(database: Database): Promise<void> {
  const projects = await database.query<{ projectId: string }>(
    `select distinct project_id as "projectId" from memory_batches where state = 'running'`,
  );
  for (const { projectId } of projects) await database.transaction((tx) => signalBatches(tx, projectId));
}
