/**
 * `npm run benchmark-recall` measures search and recall on a database that was filled by `npm run seed-scale`, like
 * users would see it: through the real service with the local embedder, with a query that is generated anew each time.
 * It starts the service, measures the first requests, then single requests of each kind, and then 16 clients at once.
 * Prints times and the CPU time of the gateway, the embedder and PostgreSQL.
 *
 *   npm run benchmark-recall -- [--data <folder>] [--checkout <folder>] [--requests 120] [--seconds 20] [--cold] [--erased-statistics]
 *     [--json <file>]
 *
 * With `--cold`, PostgreSQL has to read everything from the disk again after the restart. With `--erased-statistics`,
 * the project has no word statistics. The JSON contains the ids that each search found, so that you can compare two
 * versions.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import pg from 'pg';
import { Pool } from 'undici';
import { openServerDatabase } from '../src/db/pool.ts';
import { refreshWordStatistics } from '../src/memory/indexing/word-statistics.ts';
import { ownCpuMs, parentOf, serverCpuMs, treeOf } from './bench/proc.js';
import { createPrograms } from './programs.js';
import { createQueries, listScopes } from './scale/recall-queries.js';
import { prepareSample } from './scale/sample.js';
import { openScaleServer } from './scale/server.js';
import { startVendor } from './scale/vendor.js';

const { values } = parseArgs({
  options: {
    data: { type: 'string' },
    checkout: { type: 'string', default: '.' },
    requests: { type: 'string', default: '120' },
    seconds: { type: 'string', default: '20' },
    'erased-statistics': { type: 'boolean', default: false },
    cold: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});
const requests = Number(values.requests);
const clients = 16;
const embedderLimitMs = 60_000;

/** @typedef {{ kind: string, scope: string, ms: number, status: number, ids: string[], vector: boolean }} Answer */
/** @typedef {{ title: string, count: number, median: number, p99: number, most: number, cpu: number[] | null, note: string }} Row */

const folder = await mkdtemp(join(tmpdir(), 'gateway-recall-'));
try {
  // Prepare everything in a first run, and then restart the service. That way, we also see how long the first requests
  // take after a start.
  const prepared = await withGateway(prepare);
  if (values.cold) await evictFiles();
  await withGateway((programs) => measure(programs, prepared));
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** Drops the files of the private server from the page cache. */
async function evictFiles() {
  const evict = ['-type', 'f', '-exec', 'dd', 'if={}', 'iflag=nocache', 'count=0', 'status=none', ';'];
  if (values.data !== undefined) await promisify(execFile)('find', [resolve(values.data), ...evict]);
}

/** @typedef {{ databaseUrl: string, client: pg.Client, gateway: import('./programs.js').Program }} Running */

/**
 * Runs `work` with a database and a service, and stops both afterwards.
 * @template Result
 * @param {(running: Running) => Promise<Result>} work
 */
async function withGateway(work) {
  const server = await openScaleServer(values.data);
  const client = new pg.Client({ connectionString: server.url });
  const programs = createPrograms();
  await client.connect();
  const vendor = await startVendor(client, { embeds: false });
  try {
    const config = join(folder, 'gateway.yaml');
    await writeFile(config, vendor.yaml);
    const gateway = await programs.start('start', {
      cwd: resolve(values.checkout),
      env: {
        ...{ DATABASE_URL: server.url, GATEWAY_CONFIG: config, GATEWAY_DATA_DIR: join(folder, 'data') },
        ...{ LOG_LEVEL: 'warn', GATEWAY_LOCAL_EMBEDDER: 'on' },
      },
    });
    const result = await work({ databaseUrl: server.url, client, gateway });
    if (gateway.stderr()) console.log(gateway.stderr().slice(-2_000));
    return result;
  } finally {
    await programs.stopAll();
    await client.end();
    await vendor.stop();
    await server.stop();
  }
}

/** @param {Running} running */
async function prepare({ databaseUrl, client, gateway }) {
  const { sample } = await prepareSample({ client, url: gateway.url });
  const projectId = String(sample['projectId']);
  // `prepareSample` erases a subject, which also affects the word statistics, so count the words again.
  const database = openServerDatabase({ connectionString: databaseUrl, statementTimeoutMs: 0 });
  await refreshWordStatistics(database, projectId, Date.now());
  await database.close();
  const queries = await createQueries(client, projectId);
  if (values['erased-statistics']) await client.query('delete from memory_words where project_id = $1', [projectId]);
  return { key: String(sample['key']), queries, scopes: await listScopes(client, projectId) };
}

/** @param {Running} running @param {Awaited<ReturnType<typeof prepare>>} prepared */
async function measure({ client, gateway: { url, pid } }, { key, queries, scopes }) {
  const { rows: backends } = await client.query('select pg_backend_pid() as pid');
  const databasePid = parentOf(backends[0].pid) ?? 0;
  const pool = new Pool(url, { connections: clients, headersTimeout: 120_000 });
  /** @type {Row[]} */
  const rows = [];
  /** @type {Record<string, string[]>} */
  const found = {};

  const send = async (/** @type {string} */ path, /** @type {object} */ body, /** @type {Record<string, string>} */ headers = {}) => {
    const from = performance.now();
    const response = await pool.request({
      ...{ path, method: 'POST', body: JSON.stringify(body) },
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    });
    const text = await response.body.text();
    return { ms: performance.now() - from, status: response.statusCode, headers: response.headers, json: JSON.parse(text) };
  };
  const search = async (/** @type {string} */ query, /** @type {string | null} */ subject, /** @type {string[]} */ include = []) => {
    const { ms, status, json } = await send('/v1/memory/search', { query, subject, include });
    const ids = [...(json.memories ?? []), ...(json.episodes ?? [])].map(({ id }) => String(id));
    return { ms, status, ids, vector: json.vector === true };
  };
  const recall = async (/** @type {string} */ query, /** @type {string | null} */ subject) => {
    const { ms, status, headers } = await send(
      '/v1/chat/completions',
      { model: 'scale/mini', messages: [{ role: 'user', content: query }] },
      { 'x-gateway-memory': 'recall', ...(subject !== null && { 'x-gateway-memory-subject': subject }) },
    );
    const ids = String(headers['x-gateway-memory-recalled'] ?? '')
      .split(',')
      .filter(Boolean);
    return { ms, status, ids, vector: true };
  };
  const usedCpu = () => {
    const children = treeOf(pid).filter((other) => other !== pid);
    return [ownCpuMs(pid), children.reduce((sum, other) => sum + ownCpuMs(other), 0), serverCpuMs(databasePid)];
  };
  const print = (/** @type {Row} */ row) => {
    rows.push(row);
    const { title, count, median, p99, most, cpu, note } = row;
    const shown = [median, p99, most].map((ms) => ms.toFixed(1)).join(' | ');
    console.log(`| ${title} | ${count} | ${shown} | ${(cpu ?? []).map((ms) => ms.toFixed(1)).join(' / ')} | ${note} |`);
  };
  const report = (/** @type {string} */ title, /** @type {Answer[]} */ answers, /** @type {number[] | null} */ cpu, note = '') => {
    const sorted = answers.map(({ ms }) => ms).toSorted((one, other) => one - other);
    const at = (/** @type {number} */ share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
    const failed = answers.filter(({ status }) => status !== 200).length;
    const empty = answers.filter(({ ids }) => ids.length === 0).length;
    const byText = answers.filter(({ vector }) => !vector).length;
    const notes = [note, failed && `${failed} failed`, empty && `${empty} found nothing`, byText && `${byText} without vector`];
    print({ title, count: answers.length, median: at(0.5), p99: at(0.99), most: at(1), cpu, note: notes.filter(Boolean).join(', ') });
  };
  const answerOf = async (/** @type {string} */ scope, /** @type {string} */ kind, /** @type {ReturnType<typeof search>} */ sent) => ({
    ...{ scope, kind },
    ...(await sent),
  });

  console.log(
    '| Request | count | median ms | p99 | slowest | CPU ms: gateway / embedder / PostgreSQL | |\n| --- | --- | --- | --- | --- | --- | --- |',
  );
  const subject = scopes[1]?.next() ?? null;
  report('first recall after the start', [await answerOf('', '', recall(queries.next().text, subject))], null);
  report('first search after the start', [await answerOf('', '', search(queries.next().text, null))], null);
  for (const limitAt = performance.now() + embedderLimitMs; performance.now() < limitAt; )
    if ((await search('ready', 'nobody')).vector) break;
  report('first search with a vector', [await answerOf('', '', search(queries.next().text, null))], null);
  report('first recall with a vector', [await answerOf('', '', recall(queries.next().text, null))], null);

  /** @type {readonly { title: string, send: (query: string, subject: string | null) => ReturnType<typeof search> }[]} */
  const kinds = [
    { title: 'search', send: (query, of) => search(query, of) },
    { title: 'search of memories', send: (query, of) => search(query, of, ['memories']) },
    { title: 'call with recall', send: recall },
  ];
  for (const { title, send: sendKind } of kinds) {
    for (const { name, next } of scopes) {
      /** @type {Answer[]} */
      const answers = [];
      const before = usedCpu();
      for (let done = 0; done < requests; done += 1) {
        const { kind, text } = queries.next();
        const of = next();
        const answer = await answerOf(name, kind, sendKind(text, of));
        answers.push(answer);
        if (title !== 'call with recall') found[`${title} | ${name} | ${done} ${kind} | ${text.slice(0, 60)}`] = answer.ids;
      }
      const cpu = usedCpu().map((ms, index) => (ms - (before[index] ?? 0)) / requests);
      const slow = answers.toSorted((one, other) => other.ms - one.ms)[0];
      report(`${title}, ${name}`, answers, cpu, `slowest: ${slow?.kind}; load ${loadavg()[0]?.toFixed(1)}`);
    }
  }
  for (const { title, send: sendKind } of kinds.filter((kind) => kind.title !== 'search of memories')) {
    /** @type {Answer[]} */
    const answers = [];
    const before = usedCpu();
    const endsAt = performance.now() + Number(values.seconds) * 1_000;
    const work = async (/** @type {number} */ index) => {
      while (performance.now() < endsAt) {
        const { kind, text } = queries.next();
        const scope = scopes[index % scopes.length];
        answers.push(await answerOf(scope?.name ?? '', kind, sendKind(text, scope?.next() ?? null)));
      }
    };
    await Promise.all(Array.from({ length: clients }, (_, index) => work(index)));
    const cpu = usedCpu().map((ms, index) => (ms - (before[index] ?? 0)) / answers.length);
    report(`${title}, ${clients} at once`, answers, cpu, `${(answers.length / Number(values.seconds)).toFixed(0)} a second`);
  }
  await pool.close();
  if (values.json) await writeFile(values.json, JSON.stringify({ checkout: values.checkout, rows, found }, null, 1));
}
