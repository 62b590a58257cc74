import { expect, test } from '@jest/globals';
import { buildVectorIndex } from '../../../src/memory/indexing/vector-indexes.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject } from '../calls.ts';

const going = new AbortController().signal;

describeDatabases('vector indexes', (database) => {
  /** Inserts passages with vectors of `dims` dimensions. */
  const embed = async (passages: number, dims: number): Promise<void> => {
    const projectId = await createProject(database());
    await database().query(
      `insert into memory_items (id, project_id, text, kind, importance, origin, author, words_sha256)
       select gen_random_uuid(), $1::uuid, 'item', 'fact', 3, 'agent', 'key:a', '' from generate_series(1, $2::integer)`,
      [projectId, passages],
    );
    await database().query(
      `insert into memory_passages (project_id, item_id, text, lexemes, embedding, embedding_dims, embedding_model)
       select project_id, id, text, to_tsvector('simple', text), array_fill(random()::real, array[$2::integer])::vector::halfvec, $2::integer, 'demo/embed'
         from memory_items where project_id = $1::uuid`,
      [projectId, dims],
    );
  };
  const indexes = (): Promise<{ name: string; valid: boolean }[]> =>
    database().query(
      `select class.relname as name, index.indisvalid as valid from pg_index index join pg_class class on class.oid = index.indexrelid
        where class.relname like 'memory\\_passages\\_vectors\\_%' order by 1`,
    );

  test('are built one at a time for projects with many vectors of a dimension, only on a server', async () => {
    await embed(60, 3);
    await embed(60, 8);
    await embed(40, 5);
    await embed(40, 5);
    const built = [await buildVectorIndex(database(), going, 50), await buildVectorIndex(database(), going, 50)];
    const isServer = database().kind === 'server';
    expect(built).toEqual(isServer ? [1, 1] : [0, 0]);
    expect(await buildVectorIndex(database(), going, 50)).toBe(0);
    const name = (dims: number) => ({ name: `memory_passages_vectors_${dims}`, valid: true });
    expect(await indexes()).toEqual(isServer ? [name(3), name(8)] : []);
    if (!isServer) return;
    // An index left invalid by an interrupted build is rebuilt.
    await database().query(`update pg_index set indisvalid = false where indexrelid = 'memory_passages_vectors_3'::regclass`);
    expect(await buildVectorIndex(database(), going, 50)).toBe(1);
    expect(await indexes()).toEqual([name(3), name(8)]);
  });

  test('are not started after an abort', async () => {
    if (database().kind === 'embedded') return;
    await embed(60, 11);
    await expect(buildVectorIndex(database(), AbortSignal.abort(), 50)).rejects.toMatchObject({ name: 'AbortError' });
    expect((await indexes()).map(({ name }) => name)).not.toContain('memory_passages_vectors_11');
  });
});
