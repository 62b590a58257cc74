import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createErasureActivities } from '../../activities/create-activities.ts';
import type { ErasureSteps } from '../../src/memory/erasure/erasure-steps.ts';
import { createTemporal, type Temporal } from '../../src/temporal/client/temporal.ts';
import type { RunningWorker } from '../../src/temporal/worker/temporal-worker.ts';
import type { ErasureStatus, Progress } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { createTestLog, until } from '../support/temporal.ts';
import { createTemporalServer, type TemporalServer } from '../support/temporal-server.ts';
import { prepareTestBundle } from '../support/workflow-bundle.ts';

const planted = 'the subject is Ada';

function entryOf(id: string): { workflow: string; workflowId: string; input: { erasure_id: string } } {
  return { workflow: 'subjectErasure', workflowId: `erasure/${id}`, input: { erasure_id: id } };
}

describe('subjectErasure', () => {
  let server: TemporalServer;
  let temporal: Temporal;
  let worker: RunningWorker;
  /** The steps of each erasure. */
  const stepsOf = new Map<string, ErasureSteps>();
  beforeAll(async () => {
    server = await createTemporalServer();
    temporal = createTemporal({ address: server.address, namespace: 'default', logger: createTestLog().logger });
    await temporal.probe();
    const find = (id: string): ErasureSteps => {
      const steps = stepsOf.get(id);
      if (!steps) throw new Error('no test has started this erasure');
      return steps;
    };
    const activities = createErasureActivities({
      checkProcesses: (id) => find(id).checkProcesses(id),
      purgeRuns: (id, signal) => find(id).purgeRuns(id, signal),
      finish: (id) => find(id).finish(id),
    });
    const bundle = (signal: AbortSignal): Promise<string> => prepareTestBundle(signal);
    worker = temporal.startWorker({ activities, bundle, graceMs: 1_000 });
  });
  afterAll(async () => {
    await worker?.stop();
    await temporal?.close();
    await server?.remove();
  });

  /** Runs one workflow to its end and returns its history as Temporal stores it. */
  async function run(id: string, steps: ErasureSteps): Promise<string> {
    stepsOf.set(id, steps);
    await temporal.start(entryOf(id));
    const handle = temporal.client.workflow.getHandle(`erasure/${id}`);
    await handle.result();
    return rawHistory(await handle.fetchHistory());
  }

  test("deletes the subject's Temporal runs until none are left", async () => {
    const steps: string[] = [];
    const statuses: ErasureStatus[] = [
      { kind: 'wait', waitMs: 1_000.5, ready: 1, total: 2, missing: ['process-b'] },
      { kind: 'wait', waitMs: 0 },
    ];
    const purges: Progress[] = [{ kind: 'more' }];
    const history = await run('a', {
      async checkProcesses(id) {
        steps.push(`check ${id}`);
        return { ...(statuses.shift() ?? { kind: 'clear' }), subject: planted };
      },
      async purgeRuns(id) {
        steps.push(`purge ${id}`);
        return { ...(purges.shift() ?? { kind: 'done' }), subject: planted };
      },
      async finish(id) {
        steps.push(`finish ${id}`);
      },
    });
    expect(steps).toEqual(['check a', 'check a', 'check a', 'purge a', 'purge a', 'finish a']);
    expect(history.match(/"startToFireTimeout":\{[^}]*\}/g)).toHaveLength(2);
    expect(history).toContain('1 of 2 processes apply it; next check at ');
    expect(history).not.toContain('Ada');
  });

  test.each<ErasureStatus>([{ kind: 'gone' }, { kind: 'done' }])(
    'ends the erasure workflow immediately if the status is $kind',
    async (status) => {
      const unexpected = async (): Promise<never> => {
        throw new Error('unexpected call');
      };
      await run(`b-${status.kind}`, { checkProcesses: async () => status, purgeRuns: unexpected, finish: unexpected });
    },
  );

  test("keeps error messages out of the erasure's workflow history", async () => {
    let tries = 0;
    const history = await run('c', {
      checkProcesses: async () => ({ kind: 'clear' }),
      purgeRuns: async () => ({ kind: 'done' }),
      async finish() {
        tries += 1;
        if (tries < 3) throw new Error(planted);
      },
    });
    expect(tries).toBe(3);
    expect(history).not.toContain('Ada');
  });

  test("deletes the subject's open and closed Temporal runs along with their histories", async () => {
    const unused = { purgeRuns: async () => ({ kind: 'done' }) as const, finish: async () => undefined };
    for (const _run of [1, 2]) await run('ended', { ...unused, checkProcesses: async () => ({ kind: 'done' }) });
    stepsOf.set('runs', { ...unused, checkProcesses: async () => ({ kind: 'wait', waitMs: 3_600_000 }) });
    await temporal.start(entryOf('runs'));
    const countOf = async (id: string): Promise<number> => {
      let count = 0;
      for await (const _ of temporal.client.workflow.list({ query: `WorkflowId = "erasure/${id}"` })) count += 1;
      return count;
    };
    await until('both runs are listed', async () => (await countOf('ended')) === 2 && (await countOf('runs')) === 1);
    const recorded: number[] = [];
    const record = async (count: number): Promise<void> => {
      recorded.push(count);
    };
    await temporal.deleteRuns('erasure/ended', record);
    await temporal.deleteRuns('erasure/runs', record);
    await until('they are deleted', async () => (await countOf('ended')) + (await countOf('runs')) === 0);
    await temporal.deleteRuns('erasure/ended', record);
    expect(recorded).toEqual([2, 1, 0]);
    const failing = temporal.deleteRuns('erasure/ended', () => Promise.reject(new Error('not recorded')));
    await expect(failing).rejects.toThrow('not recorded');
    const described = temporal.client.workflow.getHandle('erasure/ended').describe();
    await expect(described).rejects.toMatchObject({ name: 'WorkflowNotFoundError' });
    await expect(temporal.deleteRuns('" or WorkflowId != "', record)).rejects.toThrow();
  });
});
