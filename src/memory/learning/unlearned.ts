/** Wakes the learning that nobody may be waiting for any more: Temporal lost its state, or came late (decisions 8). */
import type { Database } from '../../db/database.ts';
import { wakeBatch, wakeLearning } from './entries.ts';

/** Writes outbox rows for projects where messages wait and for batches that are not done. Those that run are told to look, which is harmless. */
export async function enqueueUnlearned(database: Database): Promise<void> {
  const projects = await database.query<{ projectId: string }>(
    `select distinct project_id as "projectId" from conversations where state = 'read' and learnable and batched_messages < messages`,
  );
  for (const { projectId } of projects) await database.transaction((tx) => wakeLearning(tx, projectId));
  await wakeBatches(database, null);
}

/** Tells batches of a project, or of all, that what they wait for may be there now: the settings have changed. */
export async function wakeBatches(database: Database, projectId: string | null): Promise<void> {
  const batches = await database.query<{ id: string; projectId: string }>(
    `select id, project_id as "projectId" from memory_batches
      where state = 'running' and ($1::uuid is null or project_id = $1::uuid)`,
    [projectId],
  );
  for (const batch of batches) await database.transaction((tx) => wakeBatch(tx, batch));
}
