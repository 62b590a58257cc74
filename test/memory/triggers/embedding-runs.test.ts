import { expect, test } from '@jest/globals';
import { reenqueueEmbeddings } from '../../../src/memory/triggers/embedding-runs.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject } from '../calls.ts';

describeDatabases('embedding runs when the gateway connects to Temporal', (database) => {
  interface Last {
    readonly active?: boolean;
    readonly model?: string | null;
    /** A passage without a vector. */
    readonly waits?: boolean;
  }
  /** Creates a project with this embedding state. */
  const lend = async ({ active = false, model = null, waits = false }: Last): Promise<string> => {
    const projectId = await createProject(database());
    await database().query(
      `insert into memory_embeddings (project_id, run, active, routable, model) values ($1::uuid, 3, $2::boolean, $3::text is not null, $3::text)`,
      [projectId, active, model],
    );
    await database().query(
      `with item as (
         insert into memory_items (id, project_id, text, kind, importance, origin, author)
         values (gen_random_uuid(), $1::uuid, 'item', 'fact', 3, 'agent', 'key:a') returning id)
       insert into memory_passages (project_id, item_id, text, lexemes, embedding_model)
       select $1::uuid, id, 'item', to_tsvector('simple', 'item'), $2::text from item`,
      [projectId, waits ? null : 'm'],
    );
    return projectId;
  };
  /** Returns the numbers of the runs that were enqueued if the project's current model is `model`. */
  const runsOf = async (projectId: string, model: string | null): Promise<unknown[]> => {
    await database().query('delete from outbox');
    await reenqueueEmbeddings(database(), async (id) => (id === projectId ? model : null));
    const rows = await database().query<{ input: { run: number } }>('select input from outbox where project_id = $1::uuid', [projectId]);
    return rows.map(({ input }) => input.run);
  };

  test.each([
    ['restarts an active embedding run', { active: true, model: 'm' }, 'm', [3]],
    ['starts no embedding run for a project without pending texts', { model: 'm' }, 'm', []],
    ['starts an embedding run for pending texts', { model: 'm', waits: true }, 'm', [4]],
    ['starts an embedding run after the embedding model has changed', { model: 'm' }, 'n', [4]],
    ['starts an embedding run when a route becomes available', { waits: true }, 'm', [4]],
    ['starts no embedding run without a route', { waits: true }, null, []],
  ])('%s', async (_title, last, model, runs) => {
    expect(await runsOf(await lend(last), model)).toEqual(runs);
  });
});
