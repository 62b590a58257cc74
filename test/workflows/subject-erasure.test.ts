import { describe, expect, test } from '@jest/globals';
import { createErasureActivities, type ErasureActivityDeps } from '../../activities/erasures.ts';
import type { ErasureStatus, PurgeProgress } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { sharedTemporal, until } from '../support/temporal.ts';

const planted = 'the subject is Ada';

function entryOf(id: string): { workflow: string; workflowId: string; input: { erasure_id: string } } {
  return { workflow: 'subjectErasure', workflowId: `erasure/${id}`, input: { erasure_id: id } };
}

describe('subjectErasure', () => {
  const shared = sharedTemporal();

  /** Runs one workflow to its end; returns its history, as Temporal keeps it and its UI shows it. */
  async function run(id: string, rooms: ErasureActivityDeps): Promise<string> {
    const { temporal, work } = shared();
    const worker = work(createErasureActivities(rooms));
    try {
      await temporal.probe();
      await temporal.start(entryOf(id));
      const handle = temporal.client.workflow.getHandle(`erasure/${id}`);
      await handle.result();
      return rawHistory(await handle.fetchHistory());
    } finally {
      await worker.stop();
    }
  }

  test('waits for the processes, deletes runs until none is left, and counts what is left last', async () => {
    const steps: string[] = [];
    const looks: ErasureStatus[] = [
      { kind: 'wait', waitMs: 1_000.5 },
      { kind: 'wait', waitMs: 0 },
    ];
    const purges: PurgeProgress[] = [{ kind: 'more' }];
    const history = await run('a', {
      async checkProcesses(id) {
        steps.push(`look ${id}`);
        return { ...(looks.shift() ?? { kind: 'clear' }), subject: planted };
      },
      async purgeRuns(id) {
        steps.push(`purge ${id}`);
        return { ...(purges.shift() ?? { kind: 'done' }), subject: planted };
      },
      async finish(id) {
        steps.push(`finish ${id}`);
      },
    });
    expect(steps).toEqual(['look a', 'look a', 'look a', 'purge a', 'purge a', 'finish a']);
    expect(history.match(/"startToFireTimeout":\{[^}]*\}/g)).toHaveLength(2);
    expect(history).not.toContain('Ada');
  });

  test.each<ErasureStatus>([{ kind: 'gone' }, { kind: 'done' }])('ends at once when it is $kind', async (look) => {
    const unexpected = async (): Promise<never> => {
      throw new Error('not to be asked');
    };
    await run(`b-${look.kind}`, { checkProcesses: async () => look, purgeRuns: unexpected, finish: unexpected });
  });

  test('goes on trying while something is left, and says nothing of it in the history', async () => {
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

  test('runs of a workflow id are deleted with their histories, whether they run or have ended', async () => {
    const { temporal, work } = shared();
    const worker = work(
      createErasureActivities({
        checkProcesses: async (id) => (id === 'ended' ? { kind: 'done' } : { kind: 'wait', waitMs: 3_600_000 }),
        purgeRuns: async () => ({ kind: 'done' }),
        finish: async () => undefined,
      }),
    );
    await temporal.probe();
    for (const id of ['ended', 'ended', 'runs']) {
      await temporal.start(entryOf(id));
      if (id === 'ended') await temporal.client.workflow.getHandle('erasure/ended').result();
    }
    const countOf = async (id: string): Promise<number> => {
      let count = 0;
      for await (const _ of temporal.client.workflow.list({ query: `WorkflowId = "erasure/${id}"` })) count += 1;
      return count;
    };
    await until('both runs are listed', async () => (await countOf('ended')) === 2 && (await countOf('runs')) === 1);
    const noted: number[] = [];
    const note = async (count: number): Promise<void> => {
      noted.push(count);
    };
    await temporal.deleteRuns('erasure/ended', note);
    await temporal.deleteRuns('erasure/runs', note);
    await until('they are gone', async () => (await countOf('ended')) + (await countOf('runs')) === 0);
    await temporal.deleteRuns('erasure/ended', note);
    expect(noted).toEqual([2, 1, 0]);
    const failing = temporal.deleteRuns('erasure/ended', () => Promise.reject(new Error('not noted')));
    await expect(failing).rejects.toThrow('not noted');
    const gone = temporal.client.workflow.getHandle('erasure/ended').describe();
    await expect(gone).rejects.toMatchObject({ name: 'WorkflowNotFoundError' });
    await expect(temporal.deleteRuns('" or WorkflowId != "', note)).rejects.toThrow();
    await worker.stop();
  });
});
