/**
 * `npm run benchmark-scale` runs every read of the API and of the console, and the operations that touch many rows,
 * through the real service on a database that was filled by `npm run seed-scale`. Prints median, p99, the number of
 * rows read and the nodes of the plans, and writes the same as JSON. Fails if a route responds with a server error, if
 * PostgreSQL can't explain a statement, or if a statement scans a large table sequentially and isn't listed in
 * `scripts/scale/plans.js`.
 *
 *   npm run benchmark-scale -- [--data <folder>] [--checkout <folder>] [--only <expression>] [--rounds 20] [--json <file>]
 *
 * The database is the one at DATABASE_URL, or the private server whose folder seed-scale kept. To compare two versions,
 * use `--checkout` to run the service of another checkout. A newer version migrates the database first. The calls,
 * erasures and deleted conversations of a run aren't undone. With fewer rounds it also makes fewer calls, so a run with
 * `--rounds 1` shows quickly whether everything still works.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { request } from 'undici';
import { adminToken, createPrograms } from './programs.js';
import { createOperations, defaultRounds } from './scale/operations.js';
import { allowedScans, explainAll, findProblems, readStatements } from './scale/plans.js';
import { listReads } from './scale/reads.js';
import { prepareSample } from './scale/sample.js';
import { openScaleServer } from './scale/server.js';
import { startVendor } from './scale/vendor.js';

const { values } = parseArgs({
  options: {
    data: { type: 'string' },
    checkout: { type: 'string', default: '.' },
    only: { type: 'string', default: '' },
    rounds: { type: 'string', default: String(defaultRounds) },
    json: { type: 'string' },
  },
});
const rounds = Number(values.rounds);
const checkout = resolve(values.checkout);
const only = new RegExp(values.only, 'i');
/** We repeat a read until it has taken this long in total. So slow reads are repeated less often. */
const budgetMs = 5_000;
const minRounds = 2;
/** A CSV file can have millions of rows, so we stop reading after this many bytes. */
const maxBytes = 1_000_000;

/** @typedef {{ title: string, status: number, median: number, p99: number, rows: number, nodes: string[], slowest: string, error?: string }} Row */

const server = await openScaleServer(values.data);
const folder = await mkdtemp(join(tmpdir(), 'gateway-scale-'));
const programs = createPrograms();
const client = new pg.Client({ connectionString: server.url });
await client.connect();
const vendor = await startVendor(client);
try {
  const statementsFile = join(folder, 'statements.jsonl');
  await writeFile(statementsFile, '');
  const config = join(folder, 'gateway.yaml');
  await writeFile(config, vendor.yaml);
  const startedAt = performance.now();
  const gateway = await programs.start('start', {
    cwd: checkout,
    env: {
      DATABASE_URL: server.url,
      GATEWAY_CONFIG: config,
      GATEWAY_DATA_DIR: join(folder, 'data'),
      LOG_LEVEL: 'warn',
      STATEMENTS_FILE: statementsFile,
    },
    flags: ['--import', new URL('./scale/record-statements.js', import.meta.url).href],
  });
  console.log(`service of ${values.checkout} started, schema migrated: ${((performance.now() - startedAt) / 1_000).toFixed(1)} s\n`);
  await measure(gateway.url, statementsFile);
} finally {
  await programs.stopAll();
  await client.end();
  await vendor.stop();
  await server.stop();
  await rm(folder, { recursive: true, force: true });
}

/** @param {string} url @param {string} statementsFile */
async function measure(url, statementsFile) {
  const { sample, cookie } = await prepareSample({ client, url });
  const reads = (await listReads(checkout, sample)).filter(({ title }) => only.test(title));
  const background = await idleStatements(statementsFile);
  /** @type {string[]} */
  const problems = [];
  /** @type {Row[]} */
  const rows = [];
  const print = (/** @type {Row} */ row) => {
    rows.push(row);
    const shown = row.nodes.join(', ');
    console.log(
      `| ${row.title} | ${row.status} | ${row.median.toFixed(1)} | ${row.p99.toFixed(1)} | ${row.rows} | ${shown.length > 160 ? `${shown.slice(0, 160)}…` : shown} |`,
    );
  };
  console.log('| What | Status | Median ms | p99 ms | Rows read | Plan |\n| --- | --- | --- | --- | --- | --- |');
  for (const read of reads) {
    const from = (await readStatements(statementsFile, 0)).end;
    const times = [];
    let status = 0;
    for (let total = 0; times.length < rounds && (total < budgetMs || (times.length < minRounds && total < 4 * budgetMs)); ) {
      const started = performance.now();
      status = await send(url, read, { key: sample.key, cookie });
      const took = performance.now() - started;
      times.push(took);
      total += took;
    }
    if (status >= 500) problems.push(`${read.title}: status ${status}`);
    const { statements } = await readStatements(statementsFile, from);
    const plans = await explainAll(
      client,
      statements.filter(({ text }) => !background.has(text)),
    );
    problems.push(...findProblems(plans).map((problem) => `${read.title}: ${problem}`));
    print({ title: read.title, status, ...summarizeTimes(times), ...summarizePlans(plans) });
  }
  for (const operation of createOperations({ url, client, sample, checkout, databaseUrl: server.url, adminToken, rounds })) {
    if (!only.test(operation.title)) continue;
    const from = (await readStatements(statementsFile, 0)).end;
    const results = await operation.run();
    const { statements } = await readStatements(statementsFile, from);
    for (const [index, result] of results.entries()) {
      const own = [...(index === 0 ? statements : []), ...(result.statements ?? [])];
      const plans = await explainAll(
        client,
        own.filter(({ text }) => !background.has(text)),
      );
      problems.push(...findProblems(plans).map((problem) => `${result.title}: ${problem}`));
      const title = result.note ? `${result.title}: ${result.note}` : result.title;
      print({ title, status: 200, ...summarizeTimes(result.times), ...summarizePlans(plans) });
    }
  }
  if (values.json) await writeFile(values.json, JSON.stringify({ checkout: values.checkout, rows, problems, allowedScans }, null, 1));
  if (problems.length > 0) {
    console.log(`\n${[...new Set(problems)].join('\n')}`);
    process.exitCode = 1;
  }
}

/** @param {string} url @param {import('./scale/reads.js').Read} read @param {{ key: string, cookie: string }} secrets */
async function send(url, { method = 'GET', path, auth, body, headers = {} }, { key, cookie }) {
  const credentials = {
    key: { authorization: `Bearer ${key}` },
    admin: { authorization: `Bearer ${adminToken}` },
    session: { cookie, accept: 'text/html' },
    none: {},
  };
  const response = await request(url + path, {
    method: /** @type {'GET'} */ (method),
    headers: { ...credentials[auth], ...(body && { 'content-type': 'application/json' }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
    headersTimeout: 120_000,
    bodyTimeout: 120_000,
  });
  let bytes = 0;
  for await (const chunk of response.body) {
    bytes += chunk.length;
    if (bytes > maxBytes) break;
  }
  return response.statusCode;
}

/**
 * Waits for a while, and returns the statements that the service sends on its own, i.e. without any requests.
 * @param {string} statementsFile
 */
async function idleStatements(statementsFile) {
  const { end } = await readStatements(statementsFile, 0);
  await new Promise((done) => setTimeout(done, 6_000));
  const { statements } = await readStatements(statementsFile, end);
  return new Set(statements.map(({ text }) => text));
}

/** @param {readonly number[]} times */
function summarizeTimes(times) {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (/** @type {number} */ share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { median: at(0.5), p99: at(0.99) };
}

/** @param {readonly import('./scale/plans.js').Plan[]} plans */
function summarizePlans(plans) {
  const slowest = plans.toSorted((one, other) => other.ms - one.ms)[0];
  const failed = plans.find(({ error }) => error)?.error;
  return {
    rows: plans.reduce((sum, plan) => sum + plan.rows, 0),
    nodes: slowest?.nodes ?? [],
    slowest: slowest ? `${slowest.ms.toFixed(1)} ms: ${slowest.text}` : '',
    ...(failed && { error: failed }),
  };
}
