import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { activityInfo } from '@temporalio/activity';
import type { ScheduleHandle, WorkflowHandle } from '@temporalio/client';
import { type CleanupActivityDeps, type CleanupStep, createCleanupActivities } from '../../activities/cleanup.ts';
import { createCleanupSteps } from '../../src/app/cleanup.ts';
import { systemClock } from '../../src/core/time.ts';
import { createSchedules } from '../../src/temporal/client/schedules.ts';
import { createTemporal } from '../../src/temporal/client/temporal.ts';
import type { RunningWorker } from '../../src/temporal/worker/temporal-worker.ts';
import { type Activities, searchAttributes } from '../../workflows/contract.ts';
import { cleanupSteps } from '../../workflows/daily-cleanup.ts';
import { rawHistory } from '../support/histories.ts';
import { createTestLog, describeSchedule, detailsOf, putSchedules, sharedTemporal, until } from '../support/temporal.ts';

const planted = 'the patient said she is pregnant';

test('runs the cleanup steps in the documented order', () => {
  const { logger } = createTestLog();
  const steps = createCleanupSteps({
    database: undefined as never,
    clock: systemClock,
    logger,
    periods: () => ({ errorRetentionMs: 1, refusedCallRetentionMs: 1 }),
  });
  const names = steps.map(({ name }) => name);
  expect(names).toEqual(cleanupSteps);
});

/**
 * The server may have accepted an update that it has not applied yet. The update replaces the whole schedule, including
 * a pause that was sent after it.
 */
async function pause(handle: ScheduleHandle): Promise<void> {
  await until('it is paused', async () => {
    await handle.pause('investigating');
    return (await describeSchedule(handle)).state.paused;
  });
}

describe('dailyCleanup', () => {
  const shared = sharedTemporal();

  /** Steps with this many batches of work each. `done` lists the names of completed batches in order. */
  function stepsOf(batches: Record<string, number>): { steps: CleanupStep[]; done: string[] } {
    const done: string[] = [];
    const steps = Object.entries(batches).map(([name, count]) => ({
      name,
      async run() {
        if (count === 0) return 0;
        count--;
        done.push(name);
        return 10;
      },
    }));
    return { steps, done };
  }

  describe('with one worker', () => {
    /** The activities of each run. */
    const activitiesOf = new Map<string, ReturnType<typeof createCleanupActivities>>();
    let worker: RunningWorker;
    beforeAll(async () => {
      worker = shared().work({
        cleanUp(input) {
          const activities = activitiesOf.get(activityInfo().workflowExecution?.workflowId ?? '');
          if (!activities) throw new Error('no test has started this run');
          return activities.cleanUp(input);
        },
      } satisfies Pick<Activities, 'cleanUp'>);
      await shared().temporal.probe();
    });
    afterAll(() => worker.stop());

    async function start(id: string, deps: CleanupActivityDeps, step: string | null = null): Promise<WorkflowHandle> {
      const { temporal } = shared();
      activitiesOf.set(id, createCleanupActivities(deps));
      await temporal.start({ workflow: 'dailyCleanup', workflowId: id, input: { step } });
      return temporal.client.workflow.getHandle(id);
    }
    async function run(id: string, deps: CleanupActivityDeps): Promise<string> {
      const handle = await start(id, deps);
      await handle.result();
      return rawHistory(await handle.fetchHistory());
    }

    test('repeats each cleanup step until nothing is left to delete', async () => {
      const { steps, done } = stepsOf({ conversations: 3, outbox: 0, terms: 1 });
      const history = await run('cleanup/a', { steps });
      expect(done).toEqual(['conversations', 'conversations', 'conversations', 'terms']);
      expect(history).toContain(String.raw`{\"step\":\"conversations\",\"next\":\"outbox\",\"rows\":30}`);
      expect(history).toContain(String.raw`{\"step\":\"terms\",\"next\":null,\"rows\":10}`);
      expect(history).toContain('cleanup: undeliverable outbox rows');
      const result = await shared().temporal.client.workflow.getHandle('cleanup/a').result();
      expect(result).toEqual({ outcome: 'done', rows: { conversations: 30, outbox: 0, terms: 10 } });
    });

    test('continues a long cleanup step in a new activity', async () => {
      const { steps, done } = stepsOf({ conversations: 1, terms: 1 });
      const slow = steps.map(({ name, run: step }) => ({
        name,
        run: async (signal: AbortSignal) => {
          await new Promise((resolve) => setTimeout(resolve, 20));
          return step(signal);
        },
      }));
      const history = await run('cleanup/b', { steps: slow, sliceMs: 10 });
      expect(done).toEqual(['conversations', 'terms']);
      expect(history).toContain(String.raw`{\"step\":\"conversations\",\"next\":\"conversations\",\"rows\":10}`);
    });

    test("gives up on a cleanup step after ten tries and lists the steps that didn't run", async () => {
      const passing: CleanupStep = { name: 'conversations', run: async () => 0 };
      const failing: CleanupStep = { name: 'loose-prompts', run: () => Promise.reject(new Error(planted)) };
      const handle = await start('cleanup/f', { steps: [passing, failing] });
      const isWaiting = async (tries: number): Promise<boolean> => {
        const { next_at: nextAt, ...status } = await handle.query<{ tries?: number; next_at?: string }>('status');
        return nextAt !== undefined && status.tries === tries;
      };
      await until('the first try has failed', () => isWaiting(1));
      expect(await handle.query('status')).toMatchObject({ state: 'retrying', step: 'loose-prompts', code: 'internal_error' });
      const details = await detailsOf(handle);
      expect(details).toMatch(/^Step 3 of \d+: prompts without a conversation\.\n\nTry 1 of 10 failed \(internal_error\); next try at /);
      expect(details).toContain('\n\nNext: see `activity failed` in the log of the workers.');
      for (let tries = 1; tries < 10; tries += 1) {
        await until(`try ${tries} has failed`, () => isWaiting(tries));
        await handle.signal('look');
      }
      const error = await handle.result().catch((thrown: unknown) => thrown);
      const message = 'cleanup: prompts without a conversation failed 10 times (internal_error); the next daily run starts over';
      expect(error).toMatchObject({ cause: { type: 'CleanupStepFailed', message } });
      expect(await handle.query('status')).toMatchObject({ state: 'failed' });
      expect(await detailsOf(handle)).toMatch(
        /^cleanup: prompts .*\n\nNext: .*\n\n- old conversations: 0 rows\n- prompts without a conversation: failed\n- messages of deleted prompts: not run\n- expired memories: not run\n/,
      );
      const history = rawHistory(await handle.fetchHistory());
      expect(history).toContain(message);
      expect(history).toContain('cleanup: prompts without a conversation, try 10 of 10');
      expect(history).not.toContain('patient');
    });

    test("stops the cleanup at a step that this version doesn't have", async () => {
      const { steps } = stepsOf({ terms: 1 });
      const handle = await start('cleanup/c', { steps }, 'of-tomorrow');
      await handle.result();
      expect(await steps[0]?.run(new AbortController().signal)).toBe(10);
    });
  });

  test('aborts the running cleanup step when the worker stops', async () => {
    const { temporal, work } = shared();
    let [running, stopped] = [false, false];
    const hanging: CleanupStep = {
      name: 'terms',
      run: (signal) =>
        new Promise((_resolve, reject) => {
          running = true;
          signal.addEventListener('abort', () => {
            stopped = true;
            reject(new Error(planted));
          });
        }),
    };
    const worker = work(createCleanupActivities({ steps: [hanging] }));
    await temporal.probe();
    await temporal.start({ workflow: 'dailyCleanup', workflowId: 'cleanup/d', input: { step: null } });
    const handle = temporal.client.workflow.getHandle('cleanup/d');
    await until('the step runs', () => running);
    await worker.stop();
    expect(stopped).toBe(true);
    expect(rawHistory(await handle.fetchHistory())).not.toContain('patient');
    await handle.terminate();
  });

  test('keeps the cleanup paused if an operator has paused it and the gateway reconnects', async () => {
    const { temporal } = shared();
    const { logger, lines } = createTestLog();
    const schedules = createSchedules(temporal, logger);
    const handle = temporal.client.schedule.getHandle('daily-cleanup');
    await until('it is created with its attributes', async () => {
      await temporal.probe();
      if (!(await schedules.put().catch(() => false))) return false;
      const { action } = await describeSchedule(handle);
      return 'searchAttributes' in action && Object.hasOwn(action.searchAttributes ?? {}, searchAttributes.state.name);
    });
    expect(schedules.lackAttributes()).toBe(false);
    await pause(handle);
    await putSchedules(schedules);
    const { state, policies, spec, action } = await describeSchedule(handle);
    expect(state).toMatchObject({ paused: true, note: 'investigating' });
    expect(policies.overlap).toBe('SKIP');
    expect(spec.calendars).toHaveLength(1);
    expect(action).toMatchObject({
      workflowType: 'dailyCleanup',
      args: [{ step: null }],
      staticSummary: 'daily cleanup of expired data',
      memo: { summary: 'daily cleanup of expired data' },
      searchAttributes: { GatewayKind: ['cleanup'], GatewayState: ['running'] },
    });
    await handle.unpause();
    expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('can still replace the cleanup schedule if its payload key is lost', async () => {
    const { server, temporal } = shared();
    const { logger } = createTestLog();
    const connect = () => createTemporal({ address: server.address, namespace: server.namespace, logger, payloadKeys: [randomBytes(32)] });
    const [lost, current] = [connect(), connect()];
    try {
      await putSchedules(createSchedules(lost, logger));
      const described = lost.client.schedule.getHandle('daily-cleanup');
      await pause(described);
      const handle = current.client.schedule.getHandle('daily-cleanup');
      await expect(describeSchedule(handle)).rejects.toThrow('TEMPORAL_PAYLOAD_KEY does not contain the key');
      await putSchedules(createSchedules(current, logger));
      expect(await describeSchedule(handle)).toMatchObject({
        state: { paused: true, note: 'investigating' },
        action: { args: [{ step: null }] },
      });
    } finally {
      await temporal.client.schedule.getHandle('daily-cleanup').delete();
      await Promise.all([lost.close(), current.close()]);
    }
  });

  test('skips a scheduled cleanup while another one is running', async () => {
    const { temporal } = shared();
    await temporal.probe();
    await putSchedules(createSchedules(temporal, createTestLog().logger));
    const handle = temporal.client.schedule.getHandle('daily-cleanup');
    // Without a worker, the first of three nights stays open. Because the call has no policy, the schedule's own one
    // applies.
    await handle.backfill({ start: new Date('2026-11-01T00:00:00Z'), end: new Date('2026-11-03T23:00:00Z') });
    await until('the second and the third are skipped', async () => (await describeSchedule(handle)).info.numActionsSkippedOverlap === 2);
    expect((await describeSchedule(handle)).info.numActionsTaken).toBe(1);
    await handle.delete();
  });
});
