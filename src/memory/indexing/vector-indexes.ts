/**
 * Vector indexes: one of memories and one of conversations, per project and dimension, for projects with so many vectors that an exact scan is
 * slow; below that an exact scan is faster and finds more. An index of more than what a search reads would find too little of what is rare in
 * it, because the neighbours that it visits are others: of a small project next to a large one, or of memories next to recorded conversations.
 * Never built on PGlite: building would block its only session.
 */
import type { Database } from '../../db/database.ts';

const defaultMinVectors = 20_000;
/** pgvector's limit for an index in half precision. */
const maxDimensions = 4_000;

const namePrefix = 'memory_passages_vectors_';

/**
 * Builds one missing index concurrently, or drops one that is not used any more: of a project that has shrunk to half of `minVectors`, or as
 * earlier versions built it. Returns how many were built or dropped; 0 when nothing is left to do.
 */
export async function buildVectorIndex(database: Database, signal: AbortSignal, minVectors = defaultMinVectors): Promise<number> {
  if (database.kind === 'embedded') return 0;
  const existing = await database.query<{ name: string; isValid: boolean }>(
    `select class.relname as name, index.indisvalid as "isValid"
       from pg_index index join pg_class class on class.oid = index.indexrelid
      where index.indrelid = 'memory_passages'::regclass and starts_with(class.relname, '${namePrefix}')
      order by 1`,
  );
  const valid = new Set(existing.filter(({ isValid }) => isValid).map(({ name }) => name));
  const missing = (await findNeededIndexes(database, minVectors)).find(({ name }) => !valid.has(name));
  if (missing) {
    const { name, projectId, dims, owner } = missing;
    // An interrupted build leaves an invalid index that PostgreSQL does not use.
    if (existing.length > valid.size) await database.runWithoutTimeout(`drop index concurrently if exists ${name}`, signal);
    await database.runWithoutTimeout(
      `create index concurrently ${name} on memory_passages
         using hnsw ((embedding::halfvec(${dims})) halfvec_cosine_ops)
         where project_id = '${projectId}' and embedding_dims = ${dims} and ${owner} is not null`,
      signal,
    );
    return 1;
  }
  const used = new Set((await findNeededIndexes(database, Math.floor(minVectors / 2))).map(({ name }) => name));
  const unused = existing.find(({ name }) => !used.has(name));
  if (!unused) return 0;
  await database.runWithoutTimeout(`drop index concurrently if exists ${unused.name}`, signal);
  return 1;
}

interface LargeProject {
  readonly projectId: string;
  readonly dims: number;
}

interface NeededIndex extends LargeProject {
  /** At most 63 characters, PostgreSQL's limit. */
  readonly name: string;
  /** Column of the memory or conversation. */
  readonly owner: string;
}

async function findNeededIndexes(database: Database, minVectors: number): Promise<NeededIndex[]> {
  const projects = await findLargeProjects(database, minVectors);
  const ofOwner = (project: LargeProject, letter: string, owner: string): NeededIndex => ({
    ...project,
    owner,
    name: `${namePrefix}${letter}_${project.dims}_${project.projectId.replaceAll('-', '')}`,
  });
  return projects.flatMap((project) => [ofOwner(project, 'i', 'item_id'), ofOwner(project, 'c', 'conversation_id')]);
}

/** Projects with more than `minVectors` vectors of their model. Reads that many index entries of each, not the vectors. */
function findLargeProjects(database: Database, minVectors: number): Promise<LargeProject[]> {
  return database.query<LargeProject>(
    `select state.project_id as "projectId", sample.dims
       from memory_embeddings state
      cross join lateral (
        select embedding_dims as dims from memory_passages
         where project_id = state.project_id and embedding_model = state.model and embedding is not null
         order by id
         limit 1
      ) sample
      where sample.dims <= ${maxDimensions}
        and exists (select id from memory_passages where project_id = state.project_id and embedding_model = state.model
                     order by id offset $1::integer limit 1)
      order by 1`,
    [minVectors],
  );
}
