/**
 * `npm run seed-scale` fills a PostgreSQL database with as much data as in production. It uses the real schema, and
 * creates twelve projects with six months of calls, and with memories and their vectors. 80 % of everything belongs to
 * the first project. The rows are described in `scripts/scale/shape.js`. You can measure with `npm run benchmark-scale`
 * afterwards.
 *
 *   npm run seed-scale -- [--calls 10000000] [--memories 1000000] [--data <folder>]
 *
 * Uses the database at DATABASE_URL, or a private server that keeps its files in the folder. If the database already
 * has a project, it's refused.
 */
import { randomUUID } from 'node:crypto';
import process from 'node:process';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { migrate } from '../src/db/migrate.ts';
import { openServerDatabase } from '../src/db/pool.ts';
import { buildVectorIndex } from '../src/memory/indexing/vector-indexes.ts';
import { refreshWordStatistics } from '../src/memory/indexing/word-statistics.ts';
import { dropIndexes, toStatements } from './scale/indexes.js';
import { attachMonths, fillRollups, seedCalls } from './scale/seed-calls.js';
import { createMaterial, seedMemory } from './scale/seed-memory.js';
import { openScaleServer } from './scale/server.js';
import { createShape, keysPerProject, models, projectCount, uuidArray } from './scale/shape.js';

/** We assume that there are two processors, and use one connection for each of them. */
const connections = 2;
const memoryTables = [
  ...['memory_items', 'memory_passages', 'memory_entities', 'memory_facts', 'memory_fact_items'],
  ...['conversations', 'conversation_parts', 'parts', 'call_texts'],
];
const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '10000000' },
    memories: { type: 'string', default: '1000000' },
    data: { type: 'string' },
  },
});
const [calls, memories] = [Number(values.calls), Number(values.memories)];
if (!(Number.isInteger(calls) && calls >= 1_000 && Number.isInteger(memories) && memories >= 1_000)) {
  console.error('--calls, --memories: must be whole numbers of at least 1000');
  process.exit(1);
}

const server = await openScaleServer(values.data);
const database = openServerDatabase({ connectionString: server.url, statementTimeoutMs: 0 });
const pool = new pg.Pool({ connectionString: server.url, max: connections, options: '-c maintenance_work_mem=2GB -c work_mem=256MB' });
// When the private server stops, the pool may still be ending some connections. They fail, but that doesn't matter any
// more.
pool.on('error', () => {});
try {
  await migrate(database);
  const { rows } = await pool.query('select slug from projects order by slug limit 1');
  if (rows.length > 0) {
    console.error(`the database has the project "${rows[0].slug}"; seed-scale fills only a database without projects`);
    process.exitCode = 1;
  } else await seed();
} finally {
  await pool.end();
  await database.close();
  await server.stop();
}

async function seed() {
  const shape = createShape(
    calls,
    memories,
    Array.from({ length: projectCount }, () => randomUUID()),
  );
  const keyIds = Array.from({ length: projectCount * keysPerProject }, () => randomUUID());
  await step('projects, keys, prices', async () => {
    for (const statement of [...insertProjects(shape), ...insertKeys(shape, keyIds), ...insertPrices(shape)]) await pool.query(statement);
  });
  await step('phrases and vectors', () => createMaterial(shape, runAll));
  const dropped = await dropIndexes(pool, memoryTables);
  await step(`${calls} calls`, () => seedCalls(shape, keyIds, runAll));
  await step(`${memories} memories, stored texts`, () => seedMemory(shape, runAll));
  await runAll(['drop schema seed_scale cascade']);
  await step('indexes of calls', () => attachMonths(shape, runAll));
  await step('rollups and hourly aggregates of usage', async () => {
    const droppedOfUsage = await dropIndexes(pool, ['usage_rollups', 'usage_cells']);
    await fillRollups(pool, connections);
    for (const statements of toStatements(droppedOfUsage)) await runAll(statements);
  });
  await step('indexes of memory', async () => {
    for (const statements of toStatements(dropped)) await runAll(statements);
  });
  // Vector indexes need a lot of memory, so build them at the end.
  await step('vector indexes', async () => {
    const name = pg.escapeIdentifier(decodeURIComponent(new URL(server.url).pathname.slice(1)));
    await pool.query(`alter database ${name} set maintenance_work_mem = '4GB'`);
    while ((await buildVectorIndex(database, new AbortController().signal)) > 0);
    await pool.query(`alter database ${name} reset maintenance_work_mem`);
  });
  await step('statistics', async () => {
    await runAll(['vacuum analyze']);
    for (const id of shape.projects) await refreshWordStatistics(database, id, shape.endMs);
  });
}

/** Runs statements on all connections at the same time. @param {readonly string[]} statements */
async function runAll(statements) {
  const rest = [...statements];
  const work = async () => {
    for (let statement = rest.shift(); statement !== undefined; statement = rest.shift()) await pool.query(statement);
  };
  await Promise.all(Array.from({ length: connections }, work));
}

/** @param {string} title @param {() => Promise<void>} work */
async function step(title, work) {
  const from = performance.now();
  await work();
  console.log(`${title}: ${((performance.now() - from) / 1_000).toFixed(1)} s`);
}

/** @param {import('./scale/shape.js').Shape} shape */
function insertProjects({ projects }) {
  return projects.map(
    (id, index) => `insert into projects (id, slug, name) values ('${id}', 'scale-${index + 1}', 'Seeded project ${index + 1}')`,
  );
}

/**
 * Nobody knows the secrets of these keys, so the benchmark has to rotate a key before it can use it. The ceilings are
 * too high to be reached.
 */
function insertKeys(/** @type {import('./scale/shape.js').Shape} */ { projects }, /** @type {readonly string[]} */ keyIds) {
  return [
    `insert into virtual_keys (id, project_id, prefix, secret_sha256, name)
     select id, (${uuidArray(projects)})[1 + (number - 1) / ${keysPerProject}], 'scal' || lpad(number::text, 4, '0'),
            sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'key ' || number
       from unnest(${uuidArray(keyIds)}) with ordinality as key (id, number)`,
    `insert into key_ceilings (key_id, ceiling, limit_value, window_kind)
     select key.id, ceiling.name, ceiling.amount, ceiling.window_kind
       from unnest(${uuidArray(keyIds)}) as key (id)
      cross join (values ('calls', 100000000, 'month'), ('cost', 1000000000000000, 'month'), ('rpm', 1000000, 'minute'), ('tpm', 1000000000, 'minute'))
                 as ceiling (name, amount, window_kind)`,
  ];
}

/** @param {import('./scale/shape.js').Shape} shape */
function insertPrices({ startMs }) {
  return models.map(({ name, input, output }) => {
    const million = (/** @type {number} */ nanos) => String(nanos * 1_000_000);
    const price = {
      input: million(input),
      output: million(output),
      cached_input: million(input),
      cache_write: million(input),
      cache_write_1h: million(input),
    };
    return `insert into model_prices (model, effective_from, price, source)
            values ('${name}', to_timestamp(${startMs} / 1000.0), '${JSON.stringify(price)}', 'import')`;
  });
}
