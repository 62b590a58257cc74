/** The learning workflows on a real Temporal, with rooms that answer what a test says. */
import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, test } from '@jest/globals';
import { createLearningActivities, type LearningActivityDeps } from '../../activities/learning.ts';
import type { OutboxEntry } from '../../src/db/outbox.ts';
import type { RunningWorker } from '../../src/jobs/worker/temporal-worker.ts';
import type { LearningCheckResult } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { sharedTemporal, until } from '../support/temporal.ts';

const planted = 'the patient said she is pregnant';
const look = { name: 'look', input: {} };

/** Rooms of a batch of so many groups that are settled at once; each step is written down. */
function createRooms(groups: number): { rooms: LearningActivityDeps; steps: string[]; open: Set<number>; batches: () => number } {
  const open = new Set(Array.from({ length: groups }, (_, position) => position));
  const steps: string[] = [];
  let batches = 0;
  return {
    steps,
    open,
    batches: () => batches,
    rooms: {
      checkLearning: async () => {
        batches += 1;
        return { kind: 'idle' };
      },
      openBatch: async () => [...open].map((position) => ({ position, waitMs: 0, text: planted })),
      learnGroup: async ({ position }) => {
        steps.push(`learn ${position}`);
        return { kind: 'settled' };
      },
      consolidateGroup: async ({ position }) => {
        steps.push(`consolidate ${position}`);
        open.delete(position);
        return { kind: 'settled' };
      },
      finishBatch: async () => open.size === 0,
    },
  };
}

interface Started {
  readonly id: string;
  readonly worker: RunningWorker;
  readonly tell: () => Promise<void>;
}

describe('learning', () => {
  const shared = sharedTemporal();

  const workers: RunningWorker[] = [];
  // Also of a test that failed: the next one's activities are its own.
  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.stop()));
  });

  async function start(workflow: 'learningBatch' | 'projectLearning', rooms: LearningActivityDeps): Promise<Started> {
    const { temporal, work } = shared();
    const worker = work(createLearningActivities(rooms));
    workers.push(worker);
    await temporal.probe();
    const [projectId, batchId] = [randomUUID(), randomUUID()];
    const entry: OutboxEntry =
      workflow === 'learningBatch'
        ? { workflow, workflowId: `learning/${projectId}/batch/${batchId}`, input: { batch_id: batchId }, signal: look }
        : { workflow, workflowId: `learning/${projectId}`, input: { project_id: projectId }, signal: look };
    const tell = () => temporal.start(entry);
    await tell();
    return { id: entry.workflowId, tell, worker };
  }

  const startBatch = (rooms: LearningActivityDeps) => start('learningBatch', rooms);

  const handleOf = (id: string) => shared().temporal.client.workflow.getHandle(id);
  /** Of its timers, in milliseconds. */
  const timersOf = async (id: string): Promise<number[]> =>
    ((await handleOf(id).fetchHistory()).events ?? []).flatMap(({ timerStartedEventAttributes: timer }) =>
      timer ? [Number(timer.startToFireTimeout?.seconds ?? 0) * 1_000 + (timer.startToFireTimeout?.nanos ?? 0) / 1_000_000] : [],
    );
  const historyOf = async (id: string): Promise<string> => rawHistory(await handleOf(id).fetchHistory());

  test('a batch works on each of its groups, a few at once, and its history holds no text', async () => {
    const { rooms, steps } = createRooms(5);
    let working = 0;
    let most = 0;
    const { id } = await startBatch({
      ...rooms,
      async learnGroup(group, signal) {
        working += 1;
        most = Math.max(most, working);
        await new Promise((resolve) => setTimeout(resolve, 50));
        working -= 1;
        return rooms.learnGroup(group, signal);
      },
    });
    await handleOf(id).result();
    expect(steps.toSorted()).toEqual([0, 1, 2, 3, 4].flatMap((n) => [`consolidate ${n}`, `learn ${n}`]).toSorted());
    expect(most).toBe(3);
    expect(await historyOf(id)).not.toContain('patient');
  });

  test('a group that must wait waits in a timer that its history shows, while the others go on', async () => {
    const { rooms, steps } = createRooms(2);
    const waits = [1_000, 2_000, 4_000];
    const { id } = await startBatch({
      ...rooms,
      learnGroup: async (group, signal) => {
        const waitMs = group.position === 0 ? waits.shift() : undefined;
        return waitMs === undefined ? rooms.learnGroup(group, signal) : { kind: 'wait', waitMs };
      },
    });
    await handleOf(id).result();
    expect(steps).toEqual(['learn 1', 'consolidate 1', 'learn 0', 'consolidate 0']);
    expect(
      (await historyOf(id)).match(/"startToFireTimeout":\{"seconds":[^}]*/g)?.map((timer) => /:"?(\d+)/.exec(timer.slice(20))?.[1]),
    ).toEqual(['1', '2', '4']);
  });

  test('a signal ends a wait of hours', async () => {
    const { rooms, steps } = createRooms(1);
    let tries = 0;
    const { id, tell } = await startBatch({
      ...rooms,
      learnGroup: async (group, signal) => (tries++ === 0 ? { kind: 'wait', waitMs: 6 * 3_600_000 } : rooms.learnGroup(group, signal)),
    });
    await until('it waits', async () => (await timersOf(id)).length === 1);
    await tell();
    await handleOf(id).result();
    expect(steps).toEqual(['learn 0', 'consolidate 0']);
  });

  test('a run that begins anew waits for what is left of a wait', async () => {
    const { rooms } = createRooms(1);
    const { id } = await startBatch({ ...rooms, openBatch: async () => [{ position: 0, waitMs: 1_500.4 }] });
    await handleOf(id).result();
    expect(await timersOf(id)).toEqual([1_501]);
  });

  test('a batch is not over while a group is open that somebody has replayed', async () => {
    const { rooms, steps, open } = createRooms(1);
    let finishes = 0;
    const { id } = await startBatch({
      ...rooms,
      finishBatch: async () => {
        if (finishes++ === 0) open.add(1);
        return open.size === 0;
      },
    });
    await handleOf(id).result();
    expect(steps).toEqual(['learn 0', 'consolidate 0', 'learn 1', 'consolidate 1']);
  });

  test('a worker that stops ends its call to the model; another one asks again', async () => {
    const { rooms, steps } = createRooms(1);
    let aborted = false;
    let asked = false;
    const first = await startBatch({
      ...rooms,
      learnGroup: (_group, signal) =>
        new Promise((_resolve, reject) => {
          asked = true;
          signal.addEventListener('abort', () => {
            aborted = true;
            reject(signal.reason);
          });
        }),
    });
    await until('the model is asked', () => asked);
    await first.worker.stop();
    expect(aborted).toBe(true);
    workers.push(shared().work(createLearningActivities(rooms)));
    await handleOf(first.id).result();
    expect(steps).toEqual(['learn 0', 'consolidate 0']);
  });

  test('a project looks when it is told, when a wait is over, and lets a signal end a wait', async () => {
    const looks: LearningCheckResult[] = [
      { kind: 'idle' },
      { kind: 'wait', waitMs: 1_000.2 },
      { kind: 'running' },
      { kind: 'wait', waitMs: 3_600_000 },
    ];
    let seen = 0;
    const lookAtLearning = async (): Promise<LearningCheckResult> => {
      seen += 1;
      return looks.shift() ?? { kind: 'gone' };
    };
    const { id, tell } = await start('projectLearning', { ...createRooms(0).rooms, checkLearning: lookAtLearning });
    await until('it waits for a signal', () => seen === 1);
    await tell();
    await until('the wait of a second is over', () => seen === 3);
    await tell();
    await until('it waits for an hour', async () => (await timersOf(id)).length === 2);
    await tell();
    await handleOf(id).result();
    expect(seen).toBe(5);
    expect(await timersOf(id)).toEqual([1_001, 3_600_000]);
  });

  test('a project that has looked often goes on in a new run, and loses no signal', async () => {
    let seen = 0;
    const lookAtLearning = async (): Promise<LearningCheckResult> => {
      seen += 1;
      return seen < 210 ? { kind: 'idle' } : { kind: 'gone' };
    };
    const { id, tell } = await start('projectLearning', { ...createRooms(0).rooms, checkLearning: lookAtLearning });
    while (seen < 210) {
      const before = seen;
      await tell();
      await until('it looks', () => seen > before);
    }
    await until('it has ended', async () => (await handleOf(id).describe()).status.name === 'COMPLETED');
    const [begun] = (await handleOf(id).fetchHistory()).events ?? [];
    expect(begun?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId).not.toBe('');
  }, 300_000);
});
