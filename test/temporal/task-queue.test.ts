import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createConversationActivities } from '../../activities/create-activities.ts';
import { metrics } from '../../src/observability/metrics/definitions.ts';
import { createHistogram } from '../../src/observability/metrics/histogram.ts';
import { knowsFairness, type TaskQueueState } from '../../src/temporal/client/task-queue.ts';
import { createTemporal, type Temporal } from '../../src/temporal/client/temporal.ts';
import { watchTaskQueue } from '../../src/temporal/watch-task-queue.ts';
import { createTestLog, sharedTemporal, until } from '../support/temporal.ts';
import { createTemporalServer, type TemporalServer } from '../support/temporal-server.ts';
import { prepareTestBundle } from '../support/workflow-bundle.ts';

/** How many runs the busy and the quiet project have. */
interface Runs {
  readonly many: number;
  readonly few: number;
}

/** Starts runs of one project and then a few of another, before any worker has started. */
async function startRuns({ start }: Temporal, { many, few }: Runs): Promise<{ readonly busy: string; readonly quiet: string }> {
  const [busy, quiet] = [randomUUID(), randomUUID()];
  const startRun = (projectId: string, run: number) =>
    start({
      workflow: 'idleConversations',
      workflowId: `conversations/${projectId}/${run}`,
      projectId,
      input: { project_id: projectId, run },
    });
  for (let run = 1; run <= many; run += 1) await startRun(busy, run);
  for (let run = 1; run <= few; run += 1) await startRun(quiet, run);
  return { busy, quiet };
}

const waitingTasks = ({ backlogs }: TaskQueueState): number => backlogs.find(({ type }) => type === 'workflow')?.tasks ?? 0;

/** Runs a worker until it has done everything. Returns the projects in the order of their runs. */
async function workOff(temporal: Temporal, { many, few }: Runs): Promise<readonly string[]> {
  const order: string[] = [];
  const closeIdle = async ({ projectId }: { projectId: string }) => {
    order.push(projectId);
    return { kind: 'done', read: 1 } as const;
  };
  const activities = createConversationActivities({ idleMs: () => 0, closeIdle, closeConversation: undefined as never });
  const bundle = (signal: AbortSignal): Promise<string> => prepareTestBundle(signal);
  const worker = temporal.startWorker({ activities, bundle, graceMs: 1_000 });
  try {
    await until('all runs have been executed', () => order.length >= many + few);
    return order;
  } finally {
    await worker.stop();
  }
}

describe('the task queue of the development server', () => {
  const shared = sharedTemporal();
  const runs = { many: 100, few: 3 };
  const { many, few } = runs;

  test("doesn't let a project with many Temporal runs delay other projects' runs", async () => {
    const { temporal } = shared();
    await until('the server responds', () =>
      temporal.probe().then(
        () => true,
        () => false,
      ),
    );
    const { busy, quiet } = await startRuns(temporal, runs);
    await until('the tasks have arrived in the queue', async () => waitingTasks(await temporal.readTaskQueue()) >= many + few);
    const { knowsFairness: isFair, backlogs } = await temporal.readTaskQueue();
    expect(isFair).toBe(true);
    expect(backlogs).toEqual([
      { type: 'workflow', tasks: many + few, ageMs: expect.any(Number) },
      { type: 'activity', tasks: 0, ageMs: 0 },
    ]);
    expect(backlogs[0]?.ageMs).toBeGreaterThan(0);
    const order = await workOff(temporal, runs);
    expect(order.filter((projectId) => projectId === busy)).toHaveLength(many);
    // With fairness, its position doesn't depend on how many runs the other project has. It is about 20, or 32 on a
    // busy machine.
    expect(order.lastIndexOf(quiet)).toBeLessThan(many / 2);
    await until('nothing waits any more', async () => waitingTasks(await temporal.readTaskQueue()) === 0);
  });
});

describe('a Temporal server without fairness', () => {
  let server: TemporalServer;
  let temporal: Temporal;
  beforeAll(async () => {
    server = await createTemporalServer();
    temporal = createTemporal({ address: server.address, namespace: 'default', logger: createTestLog().logger });
  });
  afterAll(async () => {
    await temporal?.close();
    await server?.remove();
  });

  test('executes the runs of all projects on a server without fairness', async () => {
    const runs = { many: 40, few: 3 };
    const { quiet } = await startRuns(temporal, runs);
    const order = await workOff(temporal, runs);
    expect(order.filter((projectId) => projectId === quiet)).toHaveLength(runs.few);
  });
});

test.each([
  ['1.28.1', false],
  ['1.29.0', true],
  ['1.31.0-148.2', true],
  ['2.0.0', true],
  ['', null],
])('detects whether Temporal %j supports fairness: %j', (version, expected) => {
  expect(knowsFairness(version)).toBe(expected);
});

describe('monitoring of the Temporal task queue', () => {
  const fair: TaskQueueState = { serverVersion: '1.31.0', knowsFairness: true, backlogs: [] };
  const late: TaskQueueState = { ...fair, backlogs: [{ type: 'workflow', tasks: 900, ageMs: 61_400 }] };
  const early: TaskQueueState = { ...fair, backlogs: [{ type: 'workflow', tasks: 9_000, ageMs: 59_000 }] };
  const old: TaskQueueState = { ...fair, serverVersion: '1.27.2', knowsFairness: false };

  /** Returns the log lines after the watch has read these states one after the other. */
  async function linesAfter(...states: readonly (TaskQueueState | Error)[]) {
    const { logger, lines } = createTestLog();
    const allRead = Promise.withResolvers<void>();
    const left = [...states];
    const read = async (): Promise<TaskQueueState> => {
      const state = left.shift();
      if (state === undefined) {
        allRead.resolve();
        return new Promise(() => undefined);
      }
      if (state instanceof Error) throw state;
      return state;
    };
    const watch = watchTaskQueue({ read, logger, intervalMs: 1 });
    await allRead.promise;
    return { lines: lines.map(({ level, message, fields }) => [level, message, fields]), current: watch.current() };
  }

  test('logs once if Temporal tasks have waited for more than a minute', async () => {
    const { lines, current } = await linesAfter(fair, early, late, late, new Error('unavailable'), late, fair);
    expect(lines).toEqual([
      ['warn', 'Temporal tasks waiting for a worker', { queue: 'memory', tasks: 900, seconds: 61 }],
      ['info', 'Temporal workers have picked up the waiting tasks', { queue: 'memory' }],
    ]);
    expect(current).toBe(fair);
  });

  test("doesn't report the state of the task queue while Temporal is unavailable", async () => {
    const { lines, current } = await linesAfter(late, new Error('unavailable'));
    expect([lines.length, current]).toEqual([1, null]);
  });

  test("logs only once that a Temporal server doesn't support fairness", async () => {
    expect((await linesAfter(old, old, fair)).lines).toEqual([
      ['warn', 'Temporal server does not support fairness, so a busy project can delay the others; upgrade it', { version: '1.27.2' }],
    ]);
  });
});

test('measures how long activities have waited for a worker', async () => {
  const { measureWaits } = await import('../../src/temporal/worker/measure-waits.ts');
  const waits = createHistogram();
  const run = (isLocal: boolean) =>
    measureWaits(waits.observe)({ info: { isLocal, currentAttemptScheduledTimestampMs: Date.now() - 3_000 } }).inbound.execute(
      {},
      async () => 7,
    );
  expect(await Promise.all([run(false), run(true)])).toEqual([7, 7]);
  const samples = waits.samples(metrics.activityWait, {});
  expect(samples.find(({ metricName }) => metricName?.endsWith('_count'))?.value).toBe(1);
  expect(samples.find(({ labels }) => labels['le'] === '2.5')?.value).toBe(0);
});
