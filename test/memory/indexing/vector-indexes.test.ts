import { expect, test } from '@jest/globals';
import { buildVectorIndex } from '../../../src/memory/indexing/vector-indexes.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject } from '../calls.ts';

const going = new AbortController().signal;

describeDatabases('vector indexes', (database) => {
  /** Inserts passages with vectors of `dims` dimensions into a new project. Returns its id. */
  const embed = async (passages: number, dims: number): Promise<string> => {
    const projectId = await createProject(database());
    await database().query(
      `insert into memory_items (id, project_id, text, kind, importance, origin, author, words_sha256)
       select gen_random_uuid(), $1::uuid, 'item', 'fact', 3, 'agent', 'key:a', '' from generate_series(1, $2::integer)`,
      [projectId, passages],
    );
    await database().query(
      `insert into memory_passages (project_id, item_id, text, lexemes, embedding, embedding_dims, embedding_model)
       select project_id, id, text, to_tsvector('simple', text),
              (select array_agg(random()::real - 0.5) from generate_series(1, $2::integer) where id is not null)::vector::halfvec, $2::integer, 'demo/embed'
         from memory_items where project_id = $1::uuid`,
      [projectId, dims],
    );
    await database().query(`insert into memory_embeddings (project_id, model) values ($1::uuid, 'demo/embed')`, [projectId]);
    return projectId;
  };
  const indexes = (): Promise<{ name: string; valid: boolean }[]> =>
    database().query(
      `select class.relname as name, index.indisvalid as valid from pg_index index join pg_class class on class.oid = index.indexrelid
        where class.relname like 'memory\\_passages\\_vectors\\_%' order by 1`,
    );
  const nameOf = (part: 'm' | 'c', dims: number, projectId: string): string =>
    `memory_passages_vectors_${part}_${dims}_${projectId.replaceAll('-', '')}`;
  /** Returns the indexes for memories and for conversations, by name. */
  const indexesOf = (...projects: [dims: number, projectId: string][]) =>
    (['c', 'm'] as const).flatMap((part) => projects.map(([dims, projectId]) => ({ name: nameOf(part, dims, projectId), valid: true })));
  const optionsOf = async (name: string): Promise<unknown> =>
    (await database().query<{ options: unknown }>(`select reloptions as options from pg_class where relname = $1::text`, [name]))[0]
      ?.options;
  const buildAll = async (): Promise<number> => {
    let count = 0;
    while ((await buildVectorIndex(database(), going, 50)) > 0) count += 1;
    return count;
  };
  const isServer = (): boolean => database().kind === 'server';

  test('builds indexes only for projects with many vectors', async () => {
    const [three, eight] = [await embed(60, 3), await embed(60, 8)];
    await embed(40, 8);
    // This is how earlier versions built them.
    for (const [name, condition] of [
      ['3', 'embedding_dims = 3'],
      [`i_3_${three.replaceAll('-', '')}`, `project_id = '${three}' and embedding_dims = 3 and item_id is not null`],
    ]) {
      await database().query(
        `create index memory_passages_vectors_${name} on memory_passages using hnsw ((embedding::halfvec(3)) halfvec_cosine_ops) where ${condition}`,
      );
    }
    expect(await buildAll()).toBe(isServer() ? 6 : 0);
    if (!isServer()) return;
    expect(await indexes()).toEqual(indexesOf([3, three], [8, eight]));
    expect(await optionsOf(nameOf('m', 3, three))).toEqual(['ef_construction=200']);
    // An index that an interrupted build left invalid is rebuilt.
    await database().query(`update pg_index set indisvalid = false where indexrelid = '${nameOf('m', 3, three)}'::regclass`);
    expect(await buildAll()).toBe(1);
    expect(await indexes()).toEqual(indexesOf([3, three], [8, eight]));
    await database().query(
      'delete from memory_passages where id in (select id from memory_passages where project_id = $1::uuid limit 40)',
      [eight],
    );
    expect(await buildAll()).toBe(2);
    expect(await indexes()).toEqual(indexesOf([3, three]));
  });

  test('searches a small project with an exact scan even if a large project uses the same model', async () => {
    if (!isServer()) return;
    const [large, small] = [await embed(2_000, 16), await embed(30, 16)];
    await buildAll();
    await database().query('analyze memory_passages');
    const search = (projectId: string): Promise<{ id: number }[]> =>
      database().transaction(async (tx) => {
        // Whatever the planner thinks of the sizes, it uses an index that covers the project, and no other one.
        await tx.query(`select set_config('enable_sort', 'off', true), set_config('hnsw.iterative_scan', 'relaxed_order', true)`);
        return tx.query(
          `select id from memory_passages where embedding_dims = 16 and embedding_model = 'demo/embed' and project_id = $1::uuid and item_id is not null
            order by embedding::halfvec(16) <=> array_fill(0.1::real, array[16])::halfvec(16) limit 10`,
          [projectId],
        );
      });
    const plan = async (projectId: string): Promise<string> =>
      JSON.stringify(
        await database().transaction(async (tx) => {
          await tx.query(`select set_config('enable_sort', 'off', true)`);
          return tx.query(
            `explain select id from memory_passages where embedding_dims = 16 and embedding_model = 'demo/embed' and project_id = $1::uuid and item_id is not null
              order by embedding::halfvec(16) <=> array_fill(0.1::real, array[16])::halfvec(16) limit 10`,
            [projectId],
          );
        }),
      );
    expect(await plan(large)).toContain(nameOf('m', 16, large));
    expect(await plan(small)).not.toContain('memory_passages_vectors_');
    const exact = await database().query(
      `select id from memory_passages where project_id = $1::uuid
        order by embedding::halfvec(16) <=> array_fill(0.1::real, array[16])::halfvec(16), id limit 10`,
      [small],
    );
    expect(await search(small)).toEqual(exact);
  });

  test("doesn't start building an index after an abort", async () => {
    if (database().kind === 'embedded') return;
    await embed(60, 11);
    await expect(buildVectorIndex(database(), AbortSignal.abort(), 50)).rejects.toMatchObject({ name: 'AbortError' });
    expect((await indexes()).map(({ name }) => name)).not.toContain('memory_passages_vectors_11');
  });
});
