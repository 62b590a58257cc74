/**
 * Indexes over vectors, made where a project has so many that reading all of them takes long: one per dimension, as the search asks for them
 * (`search-query.ts`). Below that an exact scan is faster and finds more. Never on the embedded database, whose one session would stand still.
 */
import type { Database } from '../../db/database.ts';

const defaultMinVectors = 20_000;
/** The most that pgvector indexes in half precision. */
const maxDimensions = 4_000;

/** Builds one missing index; returns how many were built, 0 when none is missing. Writers go on meanwhile. */
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
  // What a building that was cut has left is never used, and has to go first.
  if (isBroken) await database.runWithoutTimeout(`drop index concurrently if exists ${name}`, signal);
  await database.runWithoutTimeout(
    `create index concurrently ${name} on memory_passages
       using hnsw ((embedding::halfvec(${dims})) halfvec_cosine_ops) where embedding_dims = ${dims}`,
    signal,
  );
  return 1;
}
