/** Starts the programs of the benchmark, fills the database, and then measures searches and calls. */
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { openServerDatabase } from '../../src/db/pool.ts';
import { createSearch } from '../../src/memory/search/search.ts';
import { searchStatement } from '../../src/memory/search/search-query.ts';
import { tokenizeForQuery } from '../../src/memory/text/lexemes.ts';
import { toVectorParameter } from '../../src/memory/text/vectors.ts';
import { readArguments } from '../arguments.js';
import { startGateway } from '../bench/gateway.js';
import { openPostgres } from '../bench/postgres.js';
import { createProcesses } from '../bench/processes.js';
import { wholeNumber } from '../bench/run.js';
import { root } from '../launch.js';
import { fetchLocalEmbedder } from '../local-embedder.js';
import { createEmbed, model, untilEmbedded } from './embed.js';
import { runLoad } from './recall-load.js';
import { seed } from './seed.js';
import { createRandom, createTexts } from './texts.js';

/** The model was trained to expect this before a query. */
const queryPrefix = 'Represent this sentence for searching relevant passages: ';
const embeddedMemories = 1_000;
const unmeasured = 20;
const recallEvery = 10;
/**
 * The size of PostgreSQL's shared buffers. By default, they're much smaller than the 360 MB of a database with 100,000
 * memories.
 */
const sharedBuffers = '512MB';

/** @param {string[]} args the command-line arguments */
export async function runSearchBenchmark(args) {
  const options = parseOptions(args);
  await fetchLocalEmbedder();
  const folder = await mkdtemp(join(tmpdir(), 'gateway-benchmark-search-'));
  // Remove the folder even if a signal ends the run.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const processes = createProcesses(folder);
  const postgres = await openPostgres({ sharedBuffers });
  try {
    console.log(`${cpus()[0]?.model}, ${cpus().length} processors, Node ${process.versions.node}, ${postgres.version}`);
    const vendor = processes.fork('vendor.js', ['0']);
    const { port: vendorPort } = await vendor.ask();
    const stored = await postgres.createDatabase();
    const gateway = await startGateway({
      name: 'gateway',
      checkout: root,
      processes,
      prefix: [],
      databaseUrl: stored.url,
      vendorPort,
      folder,
      env: { GATEWAY_LOCAL_EMBEDDER: 'on' },
    });
    const database = openServerDatabase({ connectionString: stored.url, statementTimeoutMs: 0 });
    try {
      await measure({ database, gateway, databaseMs: stored.cpuMs, options });
    } finally {
      await database.close();
    }
  } finally {
    await processes.stopAll();
    await postgres.close();
  }
}

/**
 * @param {object} parts
 * @param {import('../../src/db/database.ts').Database} parts.database
 * @param {import('../bench/gateway.js').Gateway} parts.gateway
 * @param {() => number} parts.databaseMs
 * @param {ReturnType<typeof parseOptions>} parts.options
 */
async function measure({ database, gateway, databaseMs, options }) {
  const { memories, subjects, searches, perSecond, seconds, rounds, plan } = options;
  const random = createRandom();
  const texts = createTexts(random);
  const embed = createEmbed(gateway);
  await untilEmbedded(embed);
  const vectors = await embed(Array.from({ length: embeddedMemories }, texts.memory));
  const questions = Array.from({ length: searches }, texts.question);
  const questionVectors = await embed(questions.map((question) => queryPrefix + question));
  const [project] = await database.query(`select id from projects where slug = 'memory'`);
  const projectId = String(project?.['id']);
  const startedAt = performance.now();
  await seed(database, { projectId, memories, subjects, model, random, text: texts.memory, vectors });
  console.log(`${memories} memories of ${subjects} users written and indexed in ${((performance.now() - startedAt) / 1_000).toFixed(0)} s`);
  const someSubject = () => `user-${Math.floor(random() * subjects)}`;

  await measureSearches({ database, databaseMs, projectId, questions, questionVectors, someSubject });
  if (plan) await printPlan(database, [projectId, someSubject(), questions[0] ?? '', questionVectors[0] ?? []]);

  const load = { port: gateway.program.port, key: gateway.keys.memory, pid: gateway.program.pid, perSecond, databaseMs };
  const next = () => ({ text: texts.question(), subject: someSubject() });
  await runLoad({ ...load, recallEvery, seconds: 10, next });
  /** @type {{ recall: import('./recall-load.js').LoadResult[], none: import('./recall-load.js').LoadResult[] }} */
  const results = { recall: [], none: [] };
  for (let round = 0; round < rounds; round += 1) {
    results.recall.push(await runLoad({ ...load, recallEvery, seconds, next }));
    results.none.push(await runLoad({ ...load, recallEvery: 0, seconds, next }));
  }
  printLoad(results, perSecond);
}

/**
 * @param {object} options
 * @param {import('../../src/db/database.ts').Database} options.database
 * @param {() => number} options.databaseMs
 * @param {string} options.projectId
 * @param {readonly string[]} options.questions
 * @param {readonly number[][]} options.questionVectors
 * @param {() => string} options.someSubject
 */
async function measureSearches({ database, databaseMs, projectId, questions, questionVectors, someSubject }) {
  const search = createSearch({ database });
  const kinds = [
    { title: 'memories of a user and of the project', subject: someSubject, withVector: true, include: ['memories'] },
    { title: 'the same, by text only', subject: someSubject, withVector: false, include: ['memories'] },
    { title: 'memories of all users', subject: () => null, withVector: true, include: ['memories'] },
    { title: 'memories and conversations of all users', subject: () => null, withVector: true, include: [] },
  ];
  for (const { title, subject, withVector, include } of kinds) {
    /** @type {number[]} */
    const times = [];
    let usedBefore = 0;
    // The index still has to be loaded from disk, so don't measure the first searches.
    for (const [index, query] of [...questions.slice(0, unmeasured), ...questions].entries()) {
      if (index === unmeasured) usedBefore = databaseMs();
      const values = questionVectors[questions.indexOf(query)] ?? [];
      const request = { query, subject: subject(), limit: 10, kinds: [], include: /** @type {'memories'[]} */ (include), min_score: 0 };
      const from = performance.now();
      await search(request, {
        projectId,
        embed: async () => (withVector ? { model, values } : null),
        embedTimeoutMs: 1_000,
        queryTimeoutMs: 10_000,
      });
      if (index >= unmeasured) times.push(performance.now() - from);
    }
    const used = (databaseMs() - usedBefore) / questions.length;
    console.log(`search, ${title}: p50 ${centile(times, 0.5)} ms, p95 ${centile(times, 0.95)} ms; CPU of PostgreSQL ${used.toFixed(1)} ms`);
  }
}

/** @param {{ recall: import('./recall-load.js').LoadResult[], none: import('./recall-load.js').LoadResult[] }} results @param {number} perSecond */
function printLoad({ recall, none }, perSecond) {
  const plain = recall.flatMap((round) => round.plain);
  const recalling = recall.flatMap((round) => round.recalling);
  const recalled = recall.reduce((sum, round) => sum + round.recalled, 0);
  const line = (/** @type {string} */ title, /** @type {number[]} */ times) =>
    console.log(`${title}: ${times.length}, p50 ${centile(times, 0.5)} ms, p95 ${centile(times, 0.95)} ms, p99 ${centile(times, 0.99)} ms`);
  console.log(`\n${perSecond} calls a second, every ${recallEvery}th recalls`);
  line('calls without recall', plain);
  line('calls with recall', recalling);
  console.log(`recall adds ${(Number(centile(recalling, 0.5)) - Number(centile(plain, 0.5))).toFixed(1)} ms (difference of the p50)`);
  console.log(`calls into which memories were inserted: ${recalled} of ${recalling.length}`);
  for (const [title, rounds] of [
    ['with every tenth recalling', recall],
    ['without recall', none],
  ]) {
    const of = (/** @type {'gateway' | 'embedder' | 'database'} */ part) =>
      centile(
        /** @type {import('./recall-load.js').LoadResult[]} */ (rounds).map(({ cpu }) => cpu[part] * 1_000),
        0.5,
        0,
      );
    console.log(`CPU µs per call, ${title}: gateway ${of('gateway')}, embedder ${of('embedder')}, PostgreSQL ${of('database')}`);
  }
}

/**
 * @param {import('../../src/db/database.ts').Database} database
 * @param {[string, string, string, readonly number[]]} values
 */
async function printPlan(database, [projectId, subject, question, vector]) {
  const rows = await database.transaction(async (tx) => {
    await tx.query(`set local jit = off; set local hnsw.iterative_scan = relaxed_order; set local hnsw.ef_search = 200`);
    const statement = searchStatement({ of: 'memories', dims: vector.length, hasSubject: true, recalledOnly: true });
    const values = [projectId, subject, tokenizeForQuery(question), 20, 0, null, [], [], toVectorParameter([...vector]), model];
    return tx.query(`explain (analyze, costs off, timing off) ${statement}`, values);
  });
  const text = rows.map((row) => /** @type {{ 'QUERY PLAN': string }} */ (row)['QUERY PLAN']).join('\n');
  console.log(`\n${text.replaceAll(/'\[[^\]]*\]'/g, "'[…]'")}\n`);
}

/** @param {readonly number[]} list @param {number} part @param {number} [digits] */
function centile(list, part, digits = 1) {
  const sorted = list.toSorted((a, b) => a - b);
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN).toFixed(digits);
}

/** @param {string[]} args */
function parseOptions(args) {
  const { values } = readArguments({
    args,
    options: {
      memories: { type: 'string', default: '100000' },
      subjects: { type: 'string', default: '5000' },
      searches: { type: 'string', default: '200' },
      'per-second': { type: 'string', default: '50' },
      seconds: { type: 'string', default: '30' },
      rounds: { type: 'string', default: '3' },
      plan: { type: 'boolean', default: false },
    },
  });
  return {
    memories: wholeNumber('--memories', values.memories, 1),
    subjects: wholeNumber('--subjects', values.subjects, 1),
    searches: wholeNumber('--searches', values.searches, 1),
    perSecond: wholeNumber('--per-second', values['per-second'], 1),
    seconds: wholeNumber('--seconds', values.seconds, 1),
    rounds: wholeNumber('--rounds', values.rounds, 1),
    plan: values.plan,
  };
}
