/** Runs the learning workflows on a real Temporal server. The test scripts what their dependencies do. */
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Context } from '@temporalio/activity';
import { createLearningActivities, type LearningActivityDeps } from '../../activities/create-activities.ts';
import type { OutboxEntry } from '../../src/db/outbox.ts';
import type { RunningWorker } from '../../src/temporal/worker/temporal-worker.ts';
import type { GroupStepResult, LearningCheckResult } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { startTogether } from '../support/start-together.ts';
import { detailsOf, sharedTemporal, until } from '../support/temporal.ts';

const planted = 'the patient said she is pregnant';
const wakeSignal = { name: 'look', input: {} };

const summary = { groups: 1, parked: 0, unusable: 0, code: null, written: 2, repeated: 0, dropped: 0, merged: 0, facts: 0 };
const finished = { finished: true, batch: summary } as const;

function retryAfter(waitMs: number): GroupStepResult {
  return { kind: 'wait', waitMs, attempts: 1, code: 'upstream_failed', blocked: false };
}

/** Dependencies of a batch with `groups` groups that settle immediately. Every step is recorded. */
function createDeps(groups: number): { deps: LearningActivityDeps; steps: string[]; open: Set<number>; batches: () => number } {
  const open = new Set(Array.from({ length: groups }, (_, position) => position));
  const steps: string[] = [];
  let batches = 0;
  return {
    steps,
    open,
    batches: () => batches,
    deps: {
      checkLearning: async () => {
        batches += 1;
        return { kind: 'idle' };
      },
      openBatch: async () => ({
        groups: [...open].map((position) => ({ position, waitMs: 0, attempts: 0, text: planted })),
        total: groups,
      }),
      learnGroup: async ({ position }) => {
        steps.push(`learn ${position}`);
        return { kind: 'settled' };
      },
      consolidateGroup: async ({ position }) => {
        steps.push(`consolidate ${position}`);
        open.delete(position);
        return { kind: 'settled' };
      },
      replayBatches: async () => 0,
      stopping: new AbortController().signal,
      finishBatch: async () => (open.size === 0 ? finished : { finished: false }),
    },
  };
}

interface Started {
  readonly id: string;
  readonly signalAgain: () => Promise<unknown>;
}

/** Dependencies that call the ones of the run, selected by the id of its project or batch. */
function createDispatch(): { deps: LearningActivityDeps; set: (id: string, deps: LearningActivityDeps) => void } {
  const byId = new Map<string, LearningActivityDeps>();
  const find = (id: string): LearningActivityDeps => {
    const deps = byId.get(id);
    if (!deps) throw new Error('no test has started this run');
    return deps;
  };
  return {
    set: (id, deps) => void byId.set(id, deps),
    deps: {
      checkLearning: (projectId) => find(projectId).checkLearning(projectId),
      openBatch: (run) => find(run.batchId).openBatch(run),
      learnGroup: (group, signal) => find(group.batchId).learnGroup(group, signal),
      consolidateGroup: (group, signal) => find(group.batchId).consolidateGroup(group, signal),
      finishBatch: (run) => find(run.batchId).finishBatch(run),
      replayBatches: (projectId) => find(projectId).replayBatches(projectId),
      stopping: new AbortController().signal,
    },
  };
}

describe('learning', () => {
  const shared = sharedTemporal();

  const dispatch = createDispatch();

  async function start(workflow: 'learningBatch' | 'projectLearning', deps: LearningActivityDeps): Promise<Started> {
    const { temporal } = shared();
    await temporal.probe();
    const [projectId, batchId] = [randomUUID(), randomUUID()];
    dispatch.set(workflow === 'learningBatch' ? batchId : projectId, deps);
    const entry: OutboxEntry =
      workflow === 'learningBatch'
        ? { workflow, workflowId: `learning/${projectId}/batch/${batchId}`, input: { batch_id: batchId }, signal: wakeSignal }
        : { workflow, workflowId: `learning/${projectId}`, input: { project_id: projectId }, signal: wakeSignal };
    const signalAgain = () => temporal.start(entry);
    await signalAgain();
    return { id: entry.workflowId, signalAgain };
  }

  const startBatch = (deps: LearningActivityDeps) => start('learningBatch', deps);

  const handleOf = (id: string) => shared().temporal.client.workflow.getHandle(id);
  /** Returns the durations of its timers in milliseconds. */
  const timersOf = async (id: string): Promise<number[]> =>
    ((await handleOf(id).fetchHistory()).events ?? []).flatMap(({ timerStartedEventAttributes: timer }) =>
      timer ? [Number(timer.startToFireTimeout?.seconds ?? 0) * 1_000 + (timer.startToFireTimeout?.nanos ?? 0) / 1_000_000] : [],
    );
  const historyOf = async (id: string): Promise<string> => rawHistory(await handleOf(id).fetchHistory());
  /** Returns the largest number of activities that were scheduled or running at the same time. */
  const maxScheduled = async (id: string): Promise<number> => {
    let scheduled = 0;
    let max = 0;
    for (const event of (await handleOf(id).fetchHistory()).events ?? []) {
      if (event.activityTaskScheduledEventAttributes) scheduled += 1;
      if (event.activityTaskCompletedEventAttributes) scheduled -= 1;
      max = Math.max(max, scheduled);
    }
    return max;
  };

  /** The runs of one worker, which wait at the same time. */
  const cases: Readonly<Record<string, () => Promise<void>>> = {
    async 'processes the groups of a batch three at a time'() {
      const { deps, steps } = createDeps(5);
      let begun = 0;
      const threeWork = Promise.withResolvers<void>();
      const { id } = await startBatch({
        ...deps,
        async learnGroup(group, signal) {
          begun += 1;
          if (begun === 3) threeWork.resolve();
          await threeWork.promise; // Never resolves unless three groups work at the same time.
          return deps.learnGroup(group, signal);
        },
      });
      await handleOf(id).result();
      expect(steps.toSorted()).toEqual([0, 1, 2, 3, 4].flatMap((n) => [`consolidate ${n}`, `learn ${n}`]).toSorted());
      expect(await maxScheduled(id)).toBe(3);
      expect(await historyOf(id)).not.toContain('patient');
    },
    async 'continues with other groups while one waits'() {
      const { deps, steps } = createDeps(2);
      const waits = [1_000, 2_000, 4_000];
      const { id } = await startBatch({
        ...deps,
        learnGroup: async (group, signal) => {
          const waitMs = group.position === 0 ? waits.shift() : undefined;
          return waitMs === undefined ? deps.learnGroup(group, signal) : retryAfter(waitMs);
        },
      });
      await handleOf(id).result();
      expect(steps).toEqual(['learn 1', 'consolidate 1', 'learn 0', 'consolidate 0']);
      expect(
        (await historyOf(id)).match(/"startToFireTimeout":\{"seconds":[^}]*/g)?.map((timer) => /:"?(\d+)/.exec(timer.slice(20))?.[1]),
      ).toEqual(['1', '2', '4']);
    },
    async 'ends a long wait when a signal arrives'() {
      const { deps, steps } = createDeps(1);
      let tries = 0;
      const { id, signalAgain } = await startBatch({
        ...deps,
        learnGroup: async (group, signal) => (tries++ === 0 ? retryAfter(6 * 3_600_000) : deps.learnGroup(group, signal)),
      });
      await until('it waits', async () => (await timersOf(id)).length === 1);
      await signalAgain();
      await handleOf(id).result();
      expect(steps).toEqual(['learn 0', 'consolidate 0']);
    },
    async 'continues a wait in a new run'() {
      const { deps } = createDeps(1);
      const { id } = await startBatch({
        ...deps,
        openBatch: async () => ({ groups: [{ position: 0, waitMs: 1_500.4, attempts: 2 }], total: 1 }),
      });
      await handleOf(id).result();
      expect(await timersOf(id)).toEqual([1_501]);
    },
    async 'shows a group that only starts later as waiting'() {
      const { deps, steps } = createDeps(1);
      const scheduled = { position: 0, waitMs: 3_600_000, attempts: 0, step: 'consolidateGroup', code: null } as const;
      let isDue = false;
      const { id, signalAgain } = await startBatch({
        ...deps,
        openBatch: async () => ({ groups: [isDue ? { ...scheduled, waitMs: 0 } : scheduled], total: 1 }),
      });
      await until('it waits', async () => (await timersOf(id)).length === 1);
      expect(await handleOf(id).query('status')).toMatchObject({ state: 'waiting' });
      const details = await detailsOf(handleOf(id));
      expect(details).toMatch(/- consolidate group 1 of 1 starts at .* UTC/);
      expect(details).not.toContain('failed');
      expect(await historyOf(id)).toContain('group 1 of 1 starts at ');
      isDue = true;
      await signalAgain();
      await handleOf(id).result();
      expect(steps).toContain('consolidate 0');
    },
    async 'keeps a batch open while a replayed group is pending'() {
      const { deps, steps, open } = createDeps(1);
      let finishes = 0;
      const { id } = await startBatch({
        ...deps,
        finishBatch: async () => {
          if (finishes++ === 0) open.add(1);
          return open.size === 0 ? finished : { finished: false };
        },
      });
      await handleOf(id).result();
      expect(steps).toEqual(['learn 0', 'consolidate 0', 'learn 1', 'consolidate 1']);
    },
    async 'shows which group of a batch failed and what to do'() {
      const { deps } = createDeps(3);
      const failures = new Map<number, () => GroupStepResult>([
        [0, () => ({ kind: 'wait', waitMs: 3_600_000, attempts: 2, code: 'unusable_answer', blocked: false, unusable: 2 })],
        [1, () => ({ kind: 'wait', waitMs: 3_600_000, attempts: 0, code: 'memory_off', blocked: true })],
        [
          2,
          () => {
            throw new Error(planted);
          },
        ],
      ]);
      const { id, signalAgain } = await startBatch({
        ...deps,
        learnGroup: async (group, signal) => failures.get(group.position)?.() ?? deps.learnGroup(group, signal),
      });
      await until('all groups wait', async () => (await timersOf(id)).length >= 3);
      const details = await detailsOf(handleOf(id));
      expect(details).toMatch(/^0 of 3 groups have ended\.\n\n/);
      expect(details).toMatch(/- learn group 1 of 3, try 2: unusable response 2 of 5 \(unusable_answer\); next try at .* UTC/);
      expect(details).toContain('- learn group 2 of 3: waits for a setting of the project (memory_off); next check at ');
      expect(details).toMatch(/- learn group 3 of 3, try \d+: (?:failed \(internal_error\)|runs)/);
      expect(details).toContain('Next: turn memory on, which wakes this run: `gateway memory set --project ');
      expect(await historyOf(id)).toContain('learn group 3 of 3 failed (internal_error); next try at ');
      failures.clear();
      await signalAgain();
      await handleOf(id).result();
      expect(await detailsOf(handleOf(id))).toContain('The batch is learned. All its memories: written 2,');
      expect(await historyOf(id)).not.toContain('patient');
    },
    async 'fails the run of a batch that an operator stops'() {
      const { deps } = createDeps(1);
      let isStopped = false;
      const { id, signalAgain } = await startBatch({
        ...deps,
        learnGroup: async () =>
          isStopped
            ? { kind: 'settled' }
            : { kind: 'wait', waitMs: 86_400_000, attempts: 12, code: 'unusable_answer', blocked: false, unusable: 12 },
        consolidateGroup: async () => ({ kind: 'settled' }),
        finishBatch: async () => ({ finished: true, stopped: true, batch: { ...summary, parked: 1 } }),
      });
      await until('it waits', async () => (await timersOf(id)).length === 1);
      const details = await detailsOf(handleOf(id));
      expect(details).toContain(
        '- learn group 1 of 1, try 12: 12 unusable responses in a row (unusable_answer); the waits grow to a day; next',
      );
      expect(details).toContain('or give up: `gateway batches stop ');
      isStopped = true;
      await signalAgain();
      await expect(handleOf(id).result()).rejects.toMatchObject({ cause: { type: 'LearningBatchStopped', nonRetryable: true } });
      expect(await detailsOf(handleOf(id))).toMatch(/^an operator stopped the batch; replay: gateway batches replay /);
    },
    async 'checks a project on a signal and after each wait'() {
      const checks: LearningCheckResult[] = [
        { kind: 'idle', memoryOff: true, messages: 3, batchOf: 50, failed: 2, failing: 4, stopped: 1, blocked: 1 },
        { kind: 'wait', waitMs: 1_000.2 },
        { kind: 'running', batch: randomUUID() },
        { kind: 'wait', waitMs: 3_600_000, messages: 12, batchOf: 50 },
      ];
      let seen = 0;
      const lookAtLearning = async (): Promise<LearningCheckResult> => {
        seen += 1;
        return checks.shift() ?? { kind: 'gone' };
      };
      const { id, signalAgain } = await start('projectLearning', { ...createDeps(0).deps, checkLearning: lookAtLearning });
      await until('it waits for a signal', async () => (await detailsOf(handleOf(id))).startsWith('Memory is off. Messages that wait: 3.'));
      const blocked = await detailsOf(handleOf(id));
      for (const text of [
        'turn memory on',
        'Failed batches at the last check: 2.',
        'retried at most daily, at the last check: 4.',
        'signal `replay` to this run',
        'stopped by an operator',
      ])
        expect(blocked).toContain(text);
      await signalAgain();
      await until('the wait of a second is over', () => seen === 3);
      await signalAgain();
      await until('it waits for an hour', async () => (await timersOf(id)).length === 2);
      expect(await detailsOf(handleOf(id))).toMatch(/^12 of 50 messages for a batch wait\. .*\n\nNext: .* at the latest\.$/);
      await signalAgain();
      await handleOf(id).result();
      expect(seen).toBe(5);
      expect(await timersOf(id)).toEqual([1_001, 3_600_000]);
    },
  };

  describe('learning workflows with one worker', () => {
    let worker: RunningWorker;
    beforeAll(() => {
      worker = shared().work(createLearningActivities(dispatch.deps));
    });
    afterAll(() => worker.stop());
    const started = startTogether(Object.keys(cases), (title) => cases[title]?.() ?? Promise.reject(new Error('no such case')));

    test.each(Object.keys(cases))('%s', (title) => started(title));
  });

  describe('learning workflows with a worker that is stopped', () => {
    const workers: RunningWorker[] = [];
    afterEach(async () => {
      await Promise.all(workers.splice(0).map((worker) => worker.stop()));
    });
    function startWorker(stopping = new AbortController().signal): RunningWorker {
      const worker = shared().work(createLearningActivities({ ...dispatch.deps, stopping }));
      workers.push(worker);
      return worker;
    }

    test('aborts the model call when the worker stops', async () => {
      const { deps, steps } = createDeps(1);
      let aborted = false;
      let asked = false;
      const first = startWorker();
      const { id } = await startBatch({
        ...deps,
        learnGroup: (group, signal) => {
          if (asked) return deps.learnGroup(group, signal);
          asked = true;
          return new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => {
              aborted = true;
              reject(signal.reason);
            });
          });
        },
      });
      await until('the model is called', () => asked);
      await first.stop();
      expect(aborted).toBe(true);
      startWorker();
      await handleOf(id).result();
      expect(steps).toEqual(['learn 0', 'consolidate 0']);
    });

    test("lets a terminated run's activity continue until the worker stops", async () => {
      const stopping = new AbortController();
      let step: AbortSignal | undefined;
      let isToldOfEnd = false;
      startWorker(stopping.signal);
      const { id } = await startBatch({
        ...createDeps(1).deps,
        learnGroup: (_group, signal) =>
          new Promise((_resolve, reject) => {
            step = signal;
            Context.current().cancellationSignal.addEventListener('abort', () => {
              isToldOfEnd = true;
            });
            signal.addEventListener('abort', () => reject(signal.reason));
          }),
      });
      await until('the model is called', () => step !== undefined);
      await handleOf(id).terminate();
      await until('a heartbeat is rejected', () => isToldOfEnd);
      expect(step?.aborted).toBe(false);
      stopping.abort();
      expect(step?.aborted).toBe(true);
    });
  });
});
