/**
 * Maintains vector indexes for projects with so many vectors that an exact scan becomes slow. Smaller projects don't
 * get one, because an exact scan is faster for them and has better recall.
 *
 * There are two indexes per project and dimension, one for memories and one for conversations. An index that covers
 * more than a search reads would find too little of whatever is rare in it, because most of the neighbours it visits
 * don't match the filter. This would hurt a small project next to a large one, or memories next to recorded
 * conversations.
 *
 * We never build indexes on PGlite, because that would block its only session.
 */
import type { Database } from '../../db/database.ts';

const defaultMinVectors = 20_000;
/** pgvector's limit for a half-precision index. */
const maxDimensions = 4_000;

const namePrefix = 'memory_passages_vectors_';

/**
 * Concurrently builds one missing index or drops one that's no longer used, e.g. because the project has shrunk to half
 * of `minVectors` or an older version built it. Returns the number of indexes it built or dropped, so 0 means that
 * everything is done.
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
    // An interrupted build leaves an invalid index behind, which PostgreSQL doesn't use.
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
  /** PostgreSQL truncates names longer than 63 characters, so this has to stay shorter. */
  readonly name: string;
  /** The column with the id of the memory or conversation. */
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

/**
 * Finds projects with more than `minVectors` vectors of their current model. Reads that many index entries per project,
 * but not the vectors.
 */
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
