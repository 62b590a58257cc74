/**
 * The indexes over vectors of one dimension, for projects with more passages than can be read for each search (20,000). Expression and
 * condition are those of `search-query.ts`: PostgreSQL takes an index only where both stand in the query as they do here. Memories and
 * conversations have one each: in a common one, a search for the few among the many would read thousands of the others (measured: 100 ms).
 */

/** pgvector's limit for an index over half-precision vectors. */
const mostIndexedDimensions = 4_000;

/** They make them without stopping writers; not inside a transaction, and not on the embedded database. None: no index can hold such vectors. */
export function vectorIndexStatements(dims: number): string[] {
  if (!Number.isInteger(dims) || dims < 1 || dims > mostIndexedDimensions) return [];
  return ['item', 'conversation'].map(
    (owner) => `create index concurrently if not exists memory_passages_near_${owner}_${dims} on memory_passages
      using hnsw ((embedding::halfvec(${dims})) halfvec_cosine_ops) where embedding_dims = ${dims} and ${owner}_id is not null`,
  );
}
