/**
 * Collects the words that occur in at least one percent of a sample of passages. `memory_words` stores them per
 * project, with an estimate of how many passages and how many memories contain each word.
 */
import type { Queries } from '../../db/database.ts';

const sampleSize = 5_000;

/**
 * Collects the words again after an erasure, so that no word of an erased text is left. Deleting all words instead
 * would make searches treat every word as rare until the next refresh, and read far too many passages of a large
 * project.
 */
export async function resampleWords(tx: Queries, projectId: string): Promise<void> {
  const [state] = await tx.query<Counts>(`select passages, memories from memory_embeddings where project_id = $1::uuid`, [projectId]);
  if (state && state.passages > 0) await sampleWords(tx, projectId, state);
}

interface Counts {
  readonly passages: number;
  readonly memories: number;
}

/**
 * Replaces the stored words of a project with those of a new sample. We sample memories separately, because the newest
 * passages are usually from conversations.
 *
 * Two runs may sample a project at the same time, e.g. one after embedding and the one of the daily cleanup. They
 * insert the words in the same order so that they can't deadlock, and it doesn't matter whose sample is kept. `ts_stat`
 * takes its query as a string.
 */
export async function sampleWords(tx: Queries, projectId: string, { passages, memories }: Counts): Promise<void> {
  await tx.query(`delete from memory_words where project_id = $1::uuid`, [projectId]);
  const frequent = (sample: (project: string) => string, count: string): string => `
    select stat.word, (stat.ndoc::float8 * ${count}::integer / sample.size)::integer as count
      from (select count(*) as size from (${sample('$1::uuid')}) sampled) sample
     cross join ts_stat(replace($sample$${sample(`'<project>'`)}$sample$, '<project>', $1::uuid::text)) stat
     where stat.ndoc * 100 >= sample.size`;
  await tx.query(
    `insert into memory_words (project_id, word, passages, memories)
     select $1::uuid, word, coalesce(passage.count, 0), coalesce(memory.count, 0)
       from (${frequent(newestPassages, '$2')}) passage
       full join (${frequent(someMemories, '$3')}) memory using (word)
      order by word
     on conflict do nothing`,
    [projectId, passages, memories],
  );
}

/**
 * Reads the newest passages, which are at the end of the index on the embedding model. Passages without a vector come
 * first. If we ordered by id alone, PostgreSQL might also read passages of other projects.
 */
const newestPassages = (project: string): string =>
  `select lexemes from memory_passages where project_id = ${project} order by embedding_model desc, id desc limit ${sampleSize}`;

/**
 * Selects a sample of the memories: the newest project-wide ones, and those of the subjects that come last in the
 * alphabet. There's no index that would give us the newest memories of all subjects.
 */
function someMemories(project: string): string {
  const ofProject = (scope: string): string =>
    `(select lexemes from memory_passages where project_id = ${project} and item_id is not null and ${scope}
       order by subject desc, id desc limit ${sampleSize / 2})`;
  return `${ofProject('subject is null')} union all ${ofProject('subject is not null')}`;
}
