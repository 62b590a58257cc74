/**
 * `npm run benchmark-search`: search latency with 100,000 memories in one project, on the PostgreSQL of DATABASE_URL (in a temporary
 * database). Prints latencies and the query plan. Memories consist of generated terms with a natural frequency distribution and of clustered
 * vectors; `MEMORIES` and `DIMENSIONS` change the size.
 */
import { randomUUID } from 'node:crypto';
import process from 'node:process';
import { migrate } from '../src/db/migrate.ts';
import { openServerDatabase } from '../src/db/pool.ts';
import { buildVectorIndex } from '../src/memory/indexing/vector-indexes.ts';
import { refreshWordStatistics } from '../src/memory/indexing/word-statistics.ts';
import { addItemPassages } from '../src/memory/records/passages.ts';
import { createSearch } from '../src/memory/search/search.ts';
import { searchStatement } from '../src/memory/search/search-query.ts';
import { toVectorParameter } from '../src/memory/text/vectors.ts';

const memories = Number(process.env.MEMORIES ?? 100_000);
const dims = Number(process.env.DIMENSIONS ?? 256);
const searches = 200;
const model = 'benchmark';

// Deterministic pseudo-random numbers.
let state = 42;
const random = () => {
  state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
  return state / 4_294_967_296;
};
const syllables = ['ka', 'lo', 'mi', 'ne', 'ru', 'sa', 'te', 'vi', 'zo', 'be', 'du', 'fi'];
/** @param {number} rank */
const wordOf = (rank) => {
  let word = '';
  for (let rest = rank + syllables.length; rest > 0; rest = Math.floor(rest / syllables.length)) word += syllables[rest % syllables.length];
  return word;
};
/**
 * Zipf: the term of rank r occurs about 1/r as often as the first.
 * @param {number} count
 */
const someWords = (count) => Array.from({ length: count }, () => wordOf(Math.floor(20_000 ** random()))).join(' ');
const centres = Array.from({ length: 200 }, () => Array.from({ length: dims }, () => random() - 0.5));
const someVector = () => {
  const centre = centres[Math.floor(random() * centres.length)] ?? [];
  const vector = centre.map((value) => value + (random() - 0.5) * 0.8);
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
};

const adminUrl = process.env.DATABASE_URL;
if (!adminUrl) {
  console.error('DATABASE_URL: required, a PostgreSQL with pgvector; a database is created and dropped');
  process.exit(1);
}
const name = `gateway_benchmark_${randomUUID().replaceAll('-', '')}`;
const admin = openServerDatabase({ connectionString: adminUrl });
await admin.query(`create database ${name}`);
const url = new URL(adminUrl);
url.pathname = `/${name}`;
const database = openServerDatabase({ connectionString: url.href, statementTimeoutMs: 0 });
try {
  await migrate(database);
  const projectId = randomUUID();
  await database.query(`insert into projects (id, slug, name) values ($1::uuid, 'benchmark', 'benchmark')`, [projectId]);
  await database.query(`insert into memory_embeddings (project_id, model) values ($1::uuid, $2::text)`, [projectId, model]);
  const startedAt = performance.now();
  for (let done = 0; done < memories; done += 1_000) {
    const items = Array.from({ length: 1_000 }, (_, index) => ({
      id: randomUUID(),
      text: someWords(14),
      kind: /** @type {const} */ ('fact'),
      // Every second memory belongs to one of 5,000 end users.
      subject: index % 2 === 0 ? null : `user-${Math.floor(random() * 5_000)}`,
      vector: toVectorParameter(someVector().map((value) => Number(value.toFixed(4)))),
    }));
    await database.transaction(async (tx) => {
      await tx.query(
        `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author, words_sha256)
         select new.id, $1::uuid, new.subject, new.text, 'fact', 3, 'agent', 'key:benchmark', ''
           from unnest($2::uuid[], $3::text[], $4::text[]) as new (id, subject, text)`,
        [projectId, items.map(({ id }) => id), items.map(({ subject }) => subject), items.map(({ text }) => text)],
      );
      await addItemPassages(tx, projectId, items);
      await tx.query(
        `update memory_passages passage set embedding = new.vector::halfvec, embedding_dims = $3::integer, embedding_model = $4::text
           from unnest($1::uuid[], $2::text[]) as new (item_id, vector) where passage.item_id = new.item_id`,
        [items.map(({ id }) => id), items.map(({ vector }) => vector), dims, model],
      );
    });
  }
  console.log(`${memories} memories of ${dims} dimensions written in ${Math.round((performance.now() - startedAt) / 1_000)} s`);
  const indexedAt = performance.now();
  await buildVectorIndex(database, new AbortController().signal);
  await database.query('vacuum analyze memory_passages');
  await database.query('vacuum analyze memory_items');
  await refreshWordStatistics(database, projectId, Date.now());
  console.log(`index, table statistics and word statistics built in ${Math.round((performance.now() - indexedAt) / 1_000)} s`);

  const search = createSearch({ database });
  const kinds = {
    'text and vectors': { subject: () => null, embed: async () => ({ model, values: someVector() }) },
    'text and vectors of one subject': {
      subject: () => `user-${Math.floor(random() * 5_000)}`,
      embed: async () => ({ model, values: someVector() }),
    },
    'text only': { subject: () => null, embed: async () => null },
  };
  for (const [title, { subject, embed }] of Object.entries(kinds)) {
    /** @type {number[]} */
    const times = [];
    for (let count = 0; count < searches; count += 1) {
      const request = { query: someWords(8), subject: subject(), limit: 10, kinds: [], include: [], min_score: 0 };
      const from = performance.now();
      await search(request, { projectId, embed, embedTimeoutMs: 1_000, queryTimeoutMs: 10_000 });
      times.push(performance.now() - from);
    }
    times.sort((a, b) => a - b);
    const [median, most] = [0.5, 0.95].map((share) => (times[Math.floor(searches * share)] ?? 0).toFixed(1));
    console.log(`${title}: median ${median} ms, 95 % below ${most} ms`);
  }

  await database.transaction(async (tx) => {
    await tx.query(
      `select set_config('jit', 'off', true), set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '400', true)`,
    );
    const plan = await tx.query(
      `explain (analyze, costs off, timing off) ${searchStatement({ of: 'memories', dims, recalledOnly: false })}`,
      [projectId, null, someWords(8), 10, 0, null, [], [], toVectorParameter(someVector()), model],
    );
    console.log(
      `\n${plan
        .map((row) => row['QUERY PLAN'])
        .join('\n')
        .replaceAll(/'\[[^\]]*\]'/g, "'[…]'")}`,
    );
  });
} finally {
  await database.close();
  await admin.query(`drop database if exists ${name} with (force)`);
  await admin.close();
}
