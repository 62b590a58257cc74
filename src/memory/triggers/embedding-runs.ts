/**
 * Who computes the vectors of new passages, and that somebody does: one run of the workflow `embedMemory` per project at a time.
 *
 * Whoever writes passages calls `wakeEmbedding` in the same transaction. While a run is active nothing more is to be done, since a run ends
 * only when nothing waits: it looks while it holds the project's row alone, and each writer holds it shared until it commits. So a thousand
 * memories in a row start one workflow, and none of them is forgotten.
 */
import type { Database, Queries } from '../../db/database.ts';
import { enqueue, type OutboxEntry } from '../../db/outbox.ts';

/** Starts a run of the project unless one is active. `always`: also where the last one found no route for embeddings. */
export async function requestEmbedding(tx: Queries, projectId: string, { always = false } = {}): Promise<void> {
  for (;;) {
    const [started] = await tx.query<{ run: number }>(
      `update memory_embeddings set run = run + 1, active = true
        where project_id = $1::uuid and not active and (routable or $2::boolean)
       returning run`,
      [projectId, always],
    );
    if (started) return enqueue(tx, [toRunEntry(projectId, started.run)]);
    // Shared, so that writers do not wait for each other; only the end of a run does.
    const [row] = await tx.query<{ waits: boolean }>(
      `select active or not (routable or $2::boolean) as waits from memory_embeddings where project_id = $1::uuid for share`,
      [projectId, always],
    );
    if (row?.waits) return;
    if (!row) await tx.query(`insert into memory_embeddings (project_id) values ($1::uuid) on conflict do nothing`, [projectId]);
  }
}

/** Starting it again while its workflow runs is harmless: the workflow id holds the number of the run. */
function toRunEntry(projectId: string, run: number): OutboxEntry {
  return { workflow: 'embedMemory', workflowId: `embedding/${projectId}/${run}`, input: { project_id: projectId, run }, projectId };
}

/**
 * Temporal lost its state, or came late (decisions 8): starts again what should run, and runs where something waits for vectors that can be
 * had now, as after a change of the model. Each process asks at each connection, so projects where nothing is to be done get no run.
 */
export async function reenqueueEmbeddings(database: Database, getModel: (projectId: string) => Promise<string | null>): Promise<void> {
  const rows = await database.query<{ projectId: string; run: number; active: boolean; model: string | null; waits: boolean }>(
    `select project_id as "projectId", run, active, model,
            exists (select 1 from memory_passages passage
                     where passage.project_id = memory_embeddings.project_id and passage.embedding_model is null) as waits
       from memory_embeddings order by project_id`,
  );
  for (const { projectId, run, active, model: lastModel, waits } of rows) {
    if (active) {
      await database.transaction((tx) => enqueue(tx, [toRunEntry(projectId, run)]));
      continue;
    }
    const model = await getModel(projectId);
    if (model !== null && (waits || model !== lastModel))
      await database.transaction((tx) => requestEmbedding(tx, projectId, { always: true }));
  }
}

/** A search met vectors of `model`: if the last run knew another or none, stored text is embedded anew. */
export async function reembedOnModelChange(tx: Queries, projectId: string, model: string): Promise<void> {
  const [stale] = await tx.query(
    `select 1 from memory_embeddings where project_id = $1::uuid and not active and model is distinct from $2::text`,
    [projectId, model],
  );
  if (stale) await requestEmbedding(tx, projectId, { always: true });
}
