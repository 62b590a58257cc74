/**
 * Vector indexes, one per dimension, for projects with so many vectors that an exact scan is slow; below that an exact scan is faster and
 * finds more. Never built on PGlite: building would block its only session.
 */
import type { Database } from '../../db/database.ts';

const defaultMinVectors = 20_000;
/** pgvector's limit for an index in half precision. */
const maxDimensions = 4_000;

/** Builds one missing index concurrently; returns how many were built, 0 when none is missing. */
export async function buildVectorIndex(database: Database, signal: AbortSignal, minVectors = defaultMinVectors): Promise<number> {
  if (database.kind === 'embedded') return 0;
  const [missing] = await database.query<{ dims: number; isBroken: boolean }>(
    `select many.dims, index.indexrelid is not null as "isBroken"
       from (select distinct embedding_dims as dims from memory_passages
              where embedding_dims <= ${maxDimensions} group by project_id, embedding_dims having count(*) > $1::integer) many
       left join pg_class class on class.relname = 'memory_passages_vectors_' || many.dims and class.relnamespace = current_schema()::regnamespace
       left join pg_index index on index.indexrelid = class.oid
      where index.indisvalid is not true
      order by many.dims limit 1`,
    [minVectors],
  );
  if (!missing) return 0;
  const { dims, isBroken } = missing;
  const name = `memory_passages_vectors_${dims}`;
  // An interrupted build leaves an invalid index that PostgreSQL does not use.
  if (isBroken) await database.runWithoutTimeout(`drop index concurrently if exists ${name}`, signal);
  await database.runWithoutTimeout(
    `create index concurrently ${name} on memory_passages
       using hnsw ((embedding::halfvec(${dims})) halfvec_cosine_ops) where embedding_dims = ${dims}`,
    signal,
  );
  return 1;
}
