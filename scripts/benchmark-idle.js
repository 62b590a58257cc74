/**
 * `npm run benchmark-idle` measures what happens when many conversations become idle at the same time. It uses the
 * PostgreSQL server at DATABASE_URL (with a temporary database) and the Temporal dev server of `npm start`. Nothing is
 * really learned or embedded.
 *
 * It prints how fast workflows start and conversations are closed, and the costs of a conversation. These are the CPU
 * time of this process (client and worker) and of the dev server, the bytes on the dev server's disk, and the number of
 * runs, workflow tasks, timers and events.
 *
 * At the same time, another project starts to learn. We also want to know how long its batch has to wait, but that
 * depends on the machine. So we print how many workflow tasks ran before the batch ended.
 *
 * The script fails if it takes too long until all conversations are closed.
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
import { enqueue } from '../src/db/outbox.ts';
import { openServerDatabase } from '../src/db/pool.ts';
import { createCloseIdle } from '../src/memory/conversations/close-idle.ts';
import { recordCalls } from '../src/memory/conversations/record-calls.ts';
import { createTemporal } from '../src/temporal/client/temporal.ts';
import { readRecord } from '../src/temporal/dev-server/dev-server-files.ts';
import { startDurable } from '../src/temporal/durable.ts';
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
const neighbourId = 'learning/neighbour/batch/benchmark';
/**
 * The length of a clock tick in /proc, in milliseconds. On all Linux systems that Node supports, there are 100 ticks
 * per second.
 */
const tickMs = 10;

const adminUrl = process.env.DATABASE_URL;
if (!adminUrl) {
  console.error('DATABASE_URL: must be a PostgreSQL server with pgvector; a database is created there and dropped at the end');
  process.exit(1);
}
const silent = () => {};
const neverCalled = () => Promise.reject(new Error('expected only runs of older versions to call this'));
/** @param {object} _fields @param {string} message */
const say = (_fields, message) => console.error(message);
const logger = { debug: silent, info: silent, warn: say, error: say };
/** The time at which the conversations become idle, in milliseconds since 1970. */
let idleAt = Number.POSITIVE_INFINITY;
const name = `gateway_benchmark_${randomUUID().replaceAll('-', '')}`;
const admin = openServerDatabase({ connectionString: adminUrl });
await admin.query(`create database ${name}`);
const url = new URL(adminUrl);
url.pathname = `/${name}`;
const database = openServerDatabase({ connectionString: url.href });
const dataDir = await mkdtemp(join(tmpdir(), 'gateway-idle-'));
/** @type {import('../src/temporal/durable.ts').Durable | null} */
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
  // Pretend that every conversation had its last turn right now.
  await database.query('update conversations set last_turn_at = now()');
  idleAt = Date.now() + idleMs;
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
      ...createConversationActivities({ idleMs: () => idleMs, closeIdle: createCloseIdle({ database }), closeConversation: neverCalled }),
      lookAtLearning: async () => ({ kind: 'idle' }),
      embedPassages: async () => ({ kind: 'done', passages: 0 }),
      // Pretend that each batch of the other project has a single group, which is learned instantly.
      openBatch: async () => ({ groups: [{ position: 0, waitMs: 0, attempts: 0 }], total: 1 }),
      learnGroup: async () => ({ kind: 'settled', outcome: 'learned', code: null, written: 1 }),
      consolidateGroup: async () => ({ kind: 'settled', outcome: 'done', code: null, written: 1 }),
      finishBatch: async () => ({ finished: true, batch: null, runId: '' }),
    },
    batches: { filterOpen: async () => [], close: async () => {}, isOpen: async () => false },
    clock: systemClock,
    reenqueueUnfinished: async () => {},
    startDelayMs: (workflow) => (workflow === 'idleConversations' ? idleMs : 0),
    logger,
    graceMs: 10_000,
  });
  while (durable.state() !== 'ready') await sleep(100);
  const server = await readRecord(dataDir);
  if (!server) throw new Error('the dev server is not running');
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
 * @param {import('../src/temporal/durable.ts').Durable} running
 */
async function measure(server, running) {
  const from = performance.now();
  const [ownBefore, serverBefore, diskBefore] = [process.cpuUsage(), await cpuMsOf(server.pid), await diskBytes()];
  const secondsSince = () => (performance.now() - from) / 1_000;
  let hasNeighbour = false;
  let startedAfter = 0;
  let read = 0;
  for (let next = 10; read < count && secondsSince() < minutes * 60; ) {
    await sleep(500);
    if (!hasNeighbour && Date.now() > idleAt) {
      hasNeighbour = true;
      await startNeighbour();
    }
    const [row] = await database.query(
      `select (select count(*)::integer from conversations where state = 'read') as read,
              (select count(*)::integer from outbox where workflow = 'idleConversations') as waiting`,
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
  console.log(`closed: ${read} in ${seconds.toFixed(1)} s, ${(read / seconds).toFixed(1)} a second`);
  console.log(`each: ${each(ownMs)} ms CPU of this process, ${each(serverMs)} ms CPU of the dev server`);
  console.log(`each: ${each(((await diskBytes()) - diskBefore) / 1_024)} KiB on the dev server's disk`);
  await sleep(2_000); // The batch has to finish, and Temporal's visibility store has to catch up.
  await countActions(server);
  if (read < count) process.exitCode = 1;
}

async function startNeighbour() {
  const projectId = randomUUID();
  await database.query(`insert into projects (id, slug, name) values ($1::uuid, 'neighbour', 'neighbour')`, [projectId]);
  const entry = { workflow: 'learningBatch', workflowId: neighbourId, input: { batch_id: projectId }, projectId };
  await database.transaction((tx) => enqueue(tx, [entry]));
}

/**
 * Counts runs, signals, timers etc. in all of Temporal's histories, and prints the totals.
 * @param {{ address: string, namespace: string }} server
 */
async function countActions({ address, namespace }) {
  const temporal = createTemporal({ address, namespace, logger });
  const counts = { runs: 0, signals: 0, workflowTasks: 0, timers: 0, activities: 0, localActivities: 0, events: 0 };
  /** The event types that we count. The keys are their numbers in Temporal's API. */
  /** @type {Map<number, keyof typeof counts>} */
  const counted = new Map([
    [1, 'runs'],
    [6, 'workflowTasks'],
    [10, 'activities'],
    [17, 'timers'],
    [25, 'localActivities'],
    [26, 'signals'],
  ]);
  /** @type {number[]} */
  const taskTimes = [];
  let [queuedAt, endedAt] = [0, 0];
  try {
    const { client } = temporal;
    for await (const { workflowId, runId } of client.workflow.list()) {
      const events = (await client.workflow.getHandle(workflowId, runId).fetchHistory()).events ?? [];
      const times = events.map(({ eventTime }) => Number(String(eventTime?.seconds ?? 0)) * 1_000 + (eventTime?.nanos ?? 0) / 1e6);
      if (workflowId === neighbourId) {
        [queuedAt, endedAt] = [times[0] ?? 0, times.at(-1) ?? 0];
        continue;
      }
      if (!workflowId.startsWith('conversation')) continue;
      for (const [index, { eventType }] of events.entries()) {
        const name = counted.get(Number(eventType));
        counts.events += 1;
        if (name) counts[name] += 1;
        if (name === 'workflowTasks') taskTimes.push(times[index] ?? 0);
      }
    }
  } finally {
    await temporal.close();
  }
  for (const [name, total] of Object.entries(counts)) console.log(`${name}: ${total}, each ${(total / count).toFixed(4)}`);
  const before = taskTimes.filter((time) => time >= queuedAt && time <= endedAt).length;
  console.log(
    endedAt > queuedAt
      ? `the other project's batch: ${((endedAt - queuedAt) / 1_000).toFixed(1)} s, in which ${before} workflow tasks of conversations ran`
      : "the other project's batch did not end",
  );
}

/** Returns a process's CPU time. Returns 0 on systems other than Linux. @param {number} pid */
async function cpuMsOf(pid) {
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * tickMs;
}

async function diskBytes() {
  const files = ['temporal.db', 'temporal.db-wal'].map((file) => stat(join(dataDir, file)).catch(() => null));
  return (await Promise.all(files)).reduce((sum, found) => sum + (found?.size ?? 0), 0);
}
