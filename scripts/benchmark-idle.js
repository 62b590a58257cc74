/**
 * `npm run benchmark-idle`: many conversations become idle at the same time, on the PostgreSQL of DATABASE_URL (in a temporary database) and the
 * Temporal dev server of `npm start`. Prints the rates at which workflows start and conversations are read, and the cost of one: CPU of this
 * process (client and worker), CPU of the dev server, events in its history, bytes on its disk. Learning and embeddings are idle. Fails when
 * conversations are not read in time.
 *
 *   npm run benchmark-idle -- [--count 10000] [--idle-seconds 30] [--minutes 15]
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createConversationActivities } from '../activities/create-activities.ts';
import { systemClock } from '../src/core/time.ts';
import { migrate } from '../src/db/migrate.ts';
import { openServerDatabase } from '../src/db/pool.ts';
import { createTemporal } from '../src/jobs/client/temporal.ts';
import { readRecord } from '../src/jobs/dev-server/dev-server-files.ts';
import { startDurable } from '../src/jobs/durable.ts';
import { createEpisodes } from '../src/memory/conversations/episodes.ts';
import { recordCalls } from '../src/memory/conversations/record-calls.ts';
import { settledCall } from '../test/memory/calls.ts';

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '10000' },
    'idle-seconds': { type: 'string', default: '30' },
    minutes: { type: 'string', default: '15' },
  },
});
const [count, idleSeconds, minutes] = [Number(values.count), Number(values['idle-seconds']), Number(values.minutes)];
const sliceRows = 500;
/** Milliseconds of a clock tick in /proc: 100 ticks a second on every Linux that Node supports. */
const tickMs = 10;

const adminUrl = process.env.DATABASE_URL;
if (!adminUrl) {
  console.error('DATABASE_URL names the PostgreSQL to measure (with pgvector; a database is made and dropped).');
  process.exit(1);
}
const silent = () => {};
/** @param {object} _fields @param {string} message */
const say = (_fields, message) => console.error(message);
const logger = { debug: silent, info: silent, warn: say, error: say };
const name = `gateway_benchmark_${randomUUID().replaceAll('-', '')}`;
const admin = openServerDatabase({ connectionString: adminUrl });
await admin.query(`create database ${name}`);
const url = new URL(adminUrl);
url.pathname = `/${name}`;
const database = openServerDatabase({ connectionString: url.href });
const dataDir = await mkdtemp(join(tmpdir(), 'gateway-idle-'));
/** @type {import('../src/jobs/durable.ts').Durable | null} */
let durable = null;
try {
  await migrate(database);
  const projectId = randomUUID();
  await database.query(`insert into projects (id, slug, name) values ($1::uuid, 'benchmark', 'benchmark')`, [projectId]);
  for (let done = 0; done < count; done += sliceRows) {
    const calls = Array.from({ length: Math.min(sliceRows, count - done) }, (_, index) =>
      settledCall({
        projectId,
        body: { messages: [{ role: 'user', content: `question ${done + index}` }] },
        answer: `answer ${done + index}`,
      }),
    );
    await database.transaction((tx) => recordCalls(tx, calls));
  }
  const idleMs = idleSeconds * 1_000;
  // Every conversation has its only turn now.
  await database.query('update conversations set last_turn_at = now()');
  await database.query('update outbox set created_at = now()');
  durable = startDurable({
    temporal: { mode: 'dev', address: null, namespace: 'default' },
    role: 'worker',
    environment: {
      path: process.env.PATH ?? '',
      cacheDir: join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'model-gateway'),
      variables: process.env,
    },
    dataDir,
    database,
    activities: {
      ...createConversationActivities({ idleMs: () => idleMs, readConversation: createEpisodes({ database }).readConversation }),
      lookAtLearning: async () => ({ kind: 'idle' }),
      embedPassages: async () => ({ kind: 'done', passages: 0 }),
    },
    batches: { filterOpen: async () => [], close: async () => {}, isOpen: async () => false },
    clock: systemClock,
    reenqueueUnfinished: async () => {},
    startDelayMs: (workflow) => (workflow === 'conversationIdle' ? idleMs : 0),
    logger,
    graceMs: 10_000,
  });
  while (durable.state() !== 'ready') await sleep(100);
  const server = await readRecord(dataDir);
  if (!server) throw new Error('no dev server runs');
  await measure(server, durable);
} finally {
  await durable?.stop();
  await database.close();
  await admin.query(`drop database if exists ${name} with (force)`);
  await admin.close();
  await rm(dataDir, { recursive: true, force: true });
}
process.exit();

/**
 * @param {{ pid: number, address: string, namespace: string }} server
 * @param {import('../src/jobs/durable.ts').Durable} running
 */
async function measure(server, running) {
  const from = performance.now();
  const [ownBefore, serverBefore, diskBefore] = [process.cpuUsage(), await cpuMsOf(server.pid), await diskBytes()];
  const secondsSince = () => (performance.now() - from) / 1_000;
  let startedAfter = 0;
  let read = 0;
  for (let next = 10; read < count && secondsSince() < minutes * 60; ) {
    await sleep(500);
    const [row] = await database.query(
      `select (select count(*)::integer from conversations where state = 'read') as read,
              (select count(*)::integer from outbox where workflow = 'conversationIdle') as waiting`,
    );
    read = Number(row?.['read']);
    if (startedAfter === 0 && row?.['waiting'] === 0) startedAfter = secondsSince();
    if (secondsSince() < next) continue;
    next += 10;
    console.log(
      `${Math.round(secondsSince())} s: ${row?.['waiting']} to be started, ${read} read; lag ${Math.round(running.lagMs() / 1_000)} s`,
    );
  }
  const seconds = secondsSince();
  const own = process.cpuUsage(ownBefore);
  const ownMs = (own.user + own.system) / 1_000;
  const serverMs = (await cpuMsOf(server.pid)) - serverBefore;
  const each = (/** @type {number} */ total) => (total / Math.max(1, read)).toFixed(1);
  if (startedAfter > 0) console.log(`started: ${count} in ${startedAfter.toFixed(1)} s, ${(count / startedAfter).toFixed(1)} a second`);
  console.log(`read: ${read} in ${seconds.toFixed(1)} s, ${(read / seconds).toFixed(1)} a second`);
  console.log(`each: ${each(ownMs)} ms CPU of this process, ${each(serverMs)} ms CPU of the dev server`);
  console.log(
    `each: ${each(((await diskBytes()) - diskBefore) / 1_024)} KiB on the dev server's disk, ${await eventsOfOne(server)} events`,
  );
  if (read < count) process.exitCode = 1;
}

/** @param {{ address: string, namespace: string }} server */
async function eventsOfOne({ address, namespace }) {
  const [row] = await database.query(`select id from conversations where state = 'read' order by id limit 1`);
  if (!row) return 0;
  const temporal = createTemporal({ address, namespace, logger });
  try {
    return (await temporal.client.workflow.getHandle(`conversation/${row['id']}/1`).describe()).historyLength;
  } finally {
    await temporal.close();
  }
}

/** CPU time of a process; Linux only, 0 elsewhere. @param {number} pid */
async function cpuMsOf(pid) {
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * tickMs;
}

async function diskBytes() {
  const files = ['temporal.db', 'temporal.db-wal'].map((file) => stat(join(dataDir, file)).catch(() => null));
  return (await Promise.all(files)).reduce((sum, found) => sum + (found?.size ?? 0), 0);
}
