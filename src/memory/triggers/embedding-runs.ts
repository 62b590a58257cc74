/**
 * Starts runs of the workflow `embedMemory`. A project has at most one run at a time.
 *
 * Code that writes passages has to call `requestEmbedding` in the same transaction. If a run is already active, it will
 * also embed these passages, so we don't start another one. It can't miss them: before a run ends, it takes an
 * exclusive lock on the project's row and looks for passages once more, and writers hold a shared lock on this row
 * until they commit.
 */
import type { Database, Queries } from '../../db/database.ts';
import { enqueue, type OutboxEntry } from '../../db/outbox.ts';

/**
 * Starts a run, unless one is already active. If the last run found no route for embeddings, this only starts one with
 * `force`.
 */
export async function requestEmbedding(tx: Queries, projectId: string, { force = false } = {}): Promise<void> {
  for (;;) {
    const [started] = await tx.query<{ run: number }>(
      `update memory_embeddings set run = run + 1, active = true
        where project_id = $1::uuid and not active and (routable or $2::boolean)
       returning run`,
      [projectId, force],
    );
    if (started) return enqueue(tx, [toRunEntry(projectId, started.run)]);
    // This lock is shared, so that other writers don't have to wait. But the active run can't end until we've
    // committed.
    const [row] = await tx.query<{ unnecessary: boolean }>(
      `select active or not (routable or $2::boolean) as unnecessary from memory_embeddings where project_id = $1::uuid for share`,
      [projectId, force],
    );
    if (row?.unnecessary) return;
    if (!row) await tx.query(`insert into memory_embeddings (project_id) values ($1::uuid) on conflict do nothing`, [projectId]);
  }
}

/** The workflow id contains the run number, so enqueueing a run that's already in progress does nothing. */
function toRunEntry(projectId: string, run: number): OutboxEntry {
  return { workflow: 'embedMemory', workflowId: `embedding/${projectId}/${run}`, input: { project_id: projectId, run }, projectId };
}

/**
 * Enqueues active runs again, in case Temporal has lost its state. Also starts a run for projects that have passages to
 * embed, or whose model has changed. Every process calls this whenever it connects, so we don't start runs for any
 * other projects.
 */
export async function reenqueueEmbeddings(database: Database, getModel: (projectId: string) => Promise<string | null>): Promise<void> {
  const rows = await database.query<{ projectId: string; run: number; active: boolean; model: string | null; hasPending: boolean }>(
    `select project_id as "projectId", run, active, model,
            exists (select 1 from memory_passages passage
                     where passage.project_id = memory_embeddings.project_id and passage.embedding_model is null) as "hasPending"
       from memory_embeddings order by project_id`,
  );
  for (const { projectId, run, active, model: lastModel, hasPending } of rows) {
    if (active) {
      await database.transaction((tx) => enqueue(tx, [toRunEntry(projectId, run)]));
      continue;
    }
    const model = await getModel(projectId);
    if (model !== null && (hasPending || model !== lastModel))
      await database.transaction((tx) => requestEmbedding(tx, projectId, { force: true }));
  }
}

/** Starts a run if the project's vectors may be from a different model than the one that searches use now. */
export async function reembedOnModelChange(tx: Queries, projectId: string, model: string): Promise<void> {
  const [stale] = await tx.query(
    `select 1 from memory_embeddings where project_id = $1::uuid and not active and model is distinct from $2::text`,
    [projectId, model],
  );
  if (stale) await requestEmbedding(tx, projectId, { force: true });
}
