/**
 * Maintains vector indexes for projects with so many vectors that an exact scan would be slow. Smaller projects don't
 * get an index, because an exact scan is faster for them and has better recall.
 *
 * Each project has two indexes per dimension, one for memories and one for conversations. An index only covers what a
 * single search reads, because otherwise most of the neighbours that it visits wouldn't match the filter. Then we'd
 * find too little in a small project next to a large one, or too few memories among lots of recorded conversations.
 *
 * We never build indexes on PGlite, because that would block its only session.
 */
import type { Database } from '../../db/database.ts';

const defaultMinVectors = 20_000;
/** The maximum number of dimensions that pgvector supports for an index of half-precision vectors. */
const maxDimensions = 4_000;

const namePrefix = 'memory_passages_vectors_';

/**
 * About three times pgvector's default. Building the index and adding a memory take two to three times as long. In
 * return, a search has to visit only half as many nodes and still finds more of the nearest memories (`efSearch` in
 * search.ts). Conversations keep the default, because recording adds to them all the time and recall doesn't search
 * them.
 */
const efConstructionOfMemories = 200;

/**
 * Builds one missing index, or drops one that's no longer used, e.g. because an older version built it or because the
 * project has shrunk to half of `minVectors`. Doesn't block writers. Returns the number of indexes that were built or
 * dropped, which is 0 once everything is in place.
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
    const { name, projectId, dims, owner, options } = missing;
    // An interrupted build leaves an invalid index behind, which PostgreSQL doesn't use. Drop it first.
    if (existing.length > valid.size) await database.runWithoutTimeout(`drop index concurrently if exists ${name}`, signal);
    await database.runWithoutTimeout(
      `create index concurrently ${name} on memory_passages
         using hnsw ((embedding::halfvec(${dims})) halfvec_cosine_ops) ${options}
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
  /** At most 63 characters, because PostgreSQL truncates longer names. */
  readonly name: string;
  /** The column that says which memory or conversation a passage belongs to. */
  readonly owner: string;
  /**
   * The WITH clause of the index. If you change it, change the index name too. Otherwise the cleanup won't replace
   * existing indexes.
   */
  readonly options: string;
}

async function findNeededIndexes(database: Database, minVectors: number): Promise<NeededIndex[]> {
  const projects = await findLargeProjects(database, minVectors);
  const ofOwner = (project: LargeProject, letter: string, owner: string, options: string): NeededIndex => ({
    ...{ ...project, owner, options },
    name: `${namePrefix}${letter}_${project.dims}_${project.projectId.replaceAll('-', '')}`,
  });
  return projects.flatMap((project) => [
    // Don't use the letter `i` here. Earlier versions used it for this index, which had other options then.
    ofOwner(project, 'm', 'item_id', `with (ef_construction = ${efConstructionOfMemories})`),
    ofOwner(project, 'c', 'conversation_id', ''),
  ]);
}

/**
 * Finds projects with more than `minVectors` vectors of their current model. For each project this reads that many
 * index entries, but none of the vectors.
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
