/**
 * Starts more work of one project than may run at the same time, and lets all of it hang until the work of another
 * project is done.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type ActivityDeps, createActivities } from '../../../activities/create-activities.ts';
import type { OutboxEntry } from '../../../src/db/outbox.ts';
import { createTemporal, type Temporal } from '../../../src/temporal/client/temporal.ts';
import { activitySlots, createSlotShares } from '../../../src/temporal/worker/share-slots.ts';
import { note } from '../../../workflows/notes.ts';
import { rawHistory } from '../../support/histories.ts';
import { createTestLog, detailsOf, until, warningsIn } from '../../support/temporal.ts';
import { createTemporalServer, type TemporalServer } from '../../support/temporal-server.ts';
import { prepareTestBundle } from '../../support/workflow-bundle.ts';

/** Ids are `<project>.<number>`, so that each activity knows its project. */
const projectOf = (id: string): string => id.split('.')[0] ?? '';

type Work = 'learning' | 'embedding' | 'video' | 'erasure';
const works: readonly Work[] = ['learning', 'embedding', 'video', 'erasure'];

function toEntry(work: Work, projectId: string, id: string): OutboxEntry {
  switch (work) {
    case 'learning':
      return { workflow: 'learningBatch', workflowId: `learning/${projectId}/batch/${id}`, projectId, input: { batch_id: id } };
    case 'embedding':
      return {
        workflow: 'embedMemory',
        workflowId: `embedding/${projectId}/${id}`,
        projectId,
        input: { project_id: projectId, run: Number(id.split('.')[1]) },
      };
    case 'video':
      return { workflow: 'videoOperation', workflowId: `video/${id}`, projectId, input: { call_id: id } };
    case 'erasure':
      return { workflow: 'subjectErasure', workflowId: `erasure/${id}`, projectId, input: { erasure_id: id } };
  }
}

/** Activities that don't end before `release` if they belong to the project `hanging`. */
function createHangingActivities(hanging: string) {
  const end = Promise.withResolvers<void>();
  const running = new Map<string, number>();
  let peak = 0;
  let calls = 0;
  const hang = async (id: string): Promise<void> => {
    if (projectOf(id) !== hanging) return;
    calls += 1;
    running.set(id, (running.get(id) ?? 0) + 1);
    peak = Math.max(peak, running.size);
    await end.promise;
    running.delete(id);
  };
  const settled = { kind: 'settled' } as const;
  const deps: ActivityDeps = {
    cleanup: { steps: [{ name: 'conversations', run: async () => 0 }] },
    memory: { idleMs: () => 0, closeIdle: undefined as never, closeConversation: undefined as never },
    embeddings: {
      async embedPassages(projectId, run) {
        await hang(`${projectId}.${run}.embedding`);
        return { kind: 'done', passages: 1 };
      },
    },
    erasures: {
      checkProcesses: async () => ({ kind: 'clear' }),
      async purgeRuns(id) {
        await hang(id);
        return { kind: 'done' };
      },
      finish: async () => undefined,
    },
    learning: {
      checkLearning: async () => ({ kind: 'gone' }),
      openBatch: async () => ({ groups: [{ position: 0, waitMs: 0, attempts: 0 }], total: 1 }),
      async learnGroup({ batchId }) {
        await hang(batchId);
        return settled;
      },
      consolidateGroup: async () => settled,
      finishBatch: async () => ({ finished: true, batch: null }),
      replayBatches: async () => 0,
      stopping: new AbortController().signal,
    },
    videos: {
      async pollVideo(id) {
        await hang(id);
        return { ...settled, outcome: 'completed', code: null };
      },
    },
  };
  return { activities: createActivities(deps), release: end.resolve, peak: () => peak, calls: () => calls };
}

describe.each([
  { title: 'lets projects take turns', settings: { 'matching.enableFairness': true } },
  { title: 'runs tasks in the order of their arrival', settings: {} },
])('a worker whose Temporal server $title', ({ settings }) => {
  let server: TemporalServer;
  let temporal: Temporal;
  const { logger, lines } = createTestLog();
  beforeAll(async () => {
    server = await createTemporalServer(settings);
    temporal = createTemporal({ address: server.address, namespace: 'default', logger });
  });
  afterAll(async () => {
    await temporal?.close();
    await server?.remove();
  });

  const resultOf = ({ workflowId }: OutboxEntry) => temporal.client.workflow.getHandle(workflowId).result();
  const descriptionOf = ({ workflowId }: OutboxEntry) => temporal.client.workflow.getHandle(workflowId).describe();

  test("finishes a project's work while all of another project's models hang", async () => {
    await temporal.probe();
    const [bad, good] = [randomUUID(), randomUUID()];
    const hanging = createHangingActivities(bad);
    const worker = temporal.startWorker({
      activities: hanging.activities,
      bundle: (signal) => prepareTestBundle(signal),
      graceMs: 1_000,
    });
    try {
      const count = 12;
      const blocked = works.flatMap((work) => Array.from({ length: count }, (_, n) => toEntry(work, bad, `${bad}.${n}`)));
      for (const entry of blocked) await temporal.start(entry);
      const waiting = blocked.filter(({ workflow }) => workflow === 'learningBatch');
      await until('a batch waits for its turn', async () => {
        const descriptions = await Promise.all(waiting.map(descriptionOf));
        return descriptions.some(({ raw }) =>
          raw.pendingActivities?.some(({ lastFailure }) => lastFailure?.message === note('turnedAway')),
        );
      });

      const unaffected = works.map((work) => toEntry(work, good, `${good}.0`));
      for (const entry of unaffected) await temporal.start(entry);
      const cleanup = { taskQueue: 'memory', workflowId: 'cleanup', args: [{ step: 'conversations' }] };
      const cleaned = temporal.client.workflow.execute('dailyCleanup', cleanup);
      expect(await Promise.all([...unaffected.map(resultOf), cleaned])).toMatchObject([
        { outcome: 'gone' },
        { outcome: 'done' },
        { outcome: 'completed' },
        { outcome: 'erased' },
        { outcome: 'done' },
      ]);
      expect(hanging.peak()).toBeLessThanOrEqual(activitySlots / 3);

      // Batches that wait for their turn aren't shown as failing.
      for (const { workflowId } of waiting) {
        const handle = temporal.client.workflow.getHandle(workflowId);
        expect(await handle.query('status')).toMatchObject({ state: 'running' });
        expect(await detailsOf(handle)).not.toContain('failed');
      }

      hanging.release();
      await Promise.all(blocked.map(resultOf));
      // Each activity has done its work once, so no attempt that was turned away has called a model.
      expect(hanging.calls()).toBe(blocked.length);
      const history = await temporal.client.workflow.getHandle(waiting[0]?.workflowId ?? '').fetchHistory();
      expect(rawHistory(history)).not.toMatch(/activityTaskFailed|timerStarted/);
      expect(warningsIn(lines)).toEqual([]);
    } finally {
      hanging.release();
      await worker.stop();
    }
  });
});

describe('the shares of projects', () => {
  const unlimited = { maximumAttempts: undefined };
  const request = (projectId: string, retryPolicy: object = unlimited, activityType = 'learnGroup') => ({
    activityType,
    retryPolicy,
    isLocal: false,
    workflowExecution: { workflowId: `learning/${projectId}/batch/1` },
  });

  test('still has slots for other projects after many projects have taken theirs', () => {
    const { take } = createSlotShares();
    for (let project = 0; project < 20; project += 1)
      for (let n = 0; n < 10; n += 1) {
        try {
          take(request(`bad-${project}`));
        } catch {
          break;
        }
      }
    expect(() => take(request('good'))).not.toThrow();
  });

  test('derives the project from the workflow id if the server drops the fairness key', () => {
    const { take } = createSlotShares();
    for (let n = 0; n < 3; n += 1) take(request('bad'));
    expect(() => take(request('bad'))).toThrow(note('turnedAway'));
    expect(() => take(request('good'))).not.toThrow();
  });

  test('releases the slot when the activity ends', () => {
    const { take } = createSlotShares();
    const [release] = [1, 2, 3].map(() => take(request('bad')));
    expect(() => take(request('bad'))).toThrow(note('turnedAway'));
    release?.();
    expect(() => take(request('bad'))).not.toThrow();
  });

  test('rejects an activity without a free slot only if Temporal will retry it forever', () => {
    const { take } = createSlotShares();
    for (let n = 0; n < 3; n += 1) take(request('bad'));
    // Older versions scheduled activities with a single attempt, and before that with ten.
    for (const maximumAttempts of [1, 10]) expect(() => take(request('bad', { maximumAttempts }))).not.toThrow();
  });

  test('increases the retry delay if many activities are waiting or none has ended for a while', () => {
    let now = 0;
    const { take } = createSlotShares(() => now);
    for (let n = 0; n < 3; n += 1) take(request('bad'));
    const delayOf = (): number => {
      try {
        take(request('bad'));
      } catch (error) {
        return (error as { nextRetryDelay: number }).nextRetryDelay;
      }
      throw new Error('it was not turned away');
    };
    const early = Array.from({ length: 100 }, delayOf);
    expect(early[0]).toBeLessThan(100);
    expect(early[99]).toBeGreaterThan(50 * 100 * 0.7);
    now += 60_000;
    const late = Array.from({ length: 100 }, delayOf);
    expect(late[0]).toBeGreaterThan(1_000);
    expect(Math.max(...late)).toBeLessThanOrEqual(5 * 60_000 * 1.25);
  });
});
