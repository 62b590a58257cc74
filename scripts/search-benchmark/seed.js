/**
 * Writes the benchmark's memories with their vectors, and then builds the index and updates the statistics. In
 * production, workflows take care of those.
 */
import { randomUUID } from 'node:crypto';
import { buildVectorIndex } from '../../src/memory/indexing/vector-indexes.ts';
import { refreshWordStatistics } from '../../src/memory/indexing/word-statistics.ts';
import { addItemPassages } from '../../src/memory/records/passages.ts';
import { toVectorParameter } from '../../src/memory/text/vectors.ts';

const perTransaction = 1_000;
/**
 * The length of the noise relative to the length of the vector. With this ratio, the vector and its sum with the noise
 * have a cosine of 0.8.
 */
const noise = 0.75;

/**
 * Inserts memories, half of which belong to one of `subjects` users. It would take a quarter of an hour to embed them
 * all, so each of them gets the vector of another text, plus noise.
 * @param {import('../../src/db/database.ts').Database} database
 * @param {object} options
 * @param {string} options.projectId
 * @param {number} options.memories
 * @param {number} options.subjects
 * @param {string} options.model
 * @param {() => number} options.random
 * @param {() => string} options.text
 * @param {readonly (readonly number[])[]} options.vectors vectors of similar texts
 */
export async function seed(database, { projectId, memories, subjects, model, random, text, vectors }) {
  const dims = vectors[0]?.length ?? 0;
  await database.query(
    `insert into memory_embeddings (project_id, model) values ($1::uuid, $2::text) on conflict (project_id) do update set model = excluded.model`,
    [projectId, model],
  );
  const someVector = () => {
    const vector = vectors[Math.floor(random() * vectors.length)] ?? [];
    const moved = vector.map((value) => value + ((random() + random() + random() - 1.5) * 2 * noise) / Math.sqrt(dims));
    const length = Math.hypot(...moved);
    return moved.map((value) => Number((value / length).toFixed(4)));
  };
  for (let done = 0; done < memories; done += perTransaction) {
    const items = Array.from({ length: Math.min(perTransaction, memories - done) }, (_, index) => ({
      id: randomUUID(),
      text: text(),
      kind: /** @type {const} */ ('fact'),
      subject: index % 2 === 0 ? null : `user-${Math.floor(random() * subjects)}`,
      vector: toVectorParameter(someVector()),
    }));
    await database.transaction(async (tx) => {
      await tx.query(
        `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author, words_sha256)
         select new.id, $1::uuid, new.subject, new.text, 'fact', 3, 'agent', 'key:benchmark', ''
           from unnest($2::uuid[], $3::text[], $4::text[]) as new (id, subject, text)`,
        [projectId, items.map(({ id }) => id), items.map(({ subject }) => subject), items.map((item) => item.text)],
      );
      await addItemPassages(tx, projectId, items);
      await tx.query(
        `update memory_passages passage set embedding = new.vector::halfvec, embedding_dims = $3::integer, embedding_model = $4::text
           from unnest($1::uuid[], $2::text[]) as new (item_id, vector) where passage.item_id = new.item_id`,
        [items.map(({ id }) => id), items.map(({ vector }) => vector), dims, model],
      );
    });
  }
  while ((await buildVectorIndex(database, new AbortController().signal)) > 0);
  for (const table of ['memory_passages', 'memory_items']) await database.query(`vacuum analyze ${table}`);
  await refreshWordStatistics(database, projectId, Date.now());
}
