import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { createActivities } from '../../activities/create-activities.ts';
import { gatewayError } from '../../src/core/errors.ts';
import type { RunningWorker } from '../../src/temporal/worker/temporal-worker.ts';
import type { EmbedProgress } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { detailsOf, sharedTemporal, until } from '../support/temporal.ts';

const planted = 'the patient said she is pregnant';

describe('embedMemory', () => {
  const shared = sharedTemporal();

  /** What embedding does, by project. */
  const results = new Map<string, () => Promise<EmbedProgress>>();
  let worker: RunningWorker;
  beforeAll(async () => {
    const unused = undefined as never;
    const erasures = { checkProcesses: unused, purgeRuns: unused, finish: unused };
    const memory = { idleMs: () => 0, closeConversation: unused, closeIdle: unused };
    const embedPassages = async (projectId: string): Promise<EmbedProgress> => {
      const embed = results.get(projectId);
      if (!embed) throw new Error('no test has started this project');
      return embed();
    };
    const deps = { cleanup: { steps: [] }, learning: {} as never, videos: { pollVideo: unused } };
    const activities = createActivities({ ...deps, erasures, memory, embeddings: { embedPassages } });
    worker = shared().work({ embedPassages: activities.embedPassages });
    await shared().temporal.probe();
  });
  afterAll(() => worker.stop());

  async function start(embed: () => Promise<EmbedProgress>): Promise<WorkflowHandle> {
    const { temporal } = shared();
    const [projectId, workflowId] = [randomUUID(), `embedding/${randomUUID()}/2`];
    results.set(projectId, embed);
    await temporal.start({ workflow: 'embedMemory', workflowId, projectId, projectSlug: 'acme', input: { project_id: projectId, run: 2 } });
    return temporal.client.workflow.getHandle(workflowId);
  }

  test('shows in the Temporal UI why embedding failed and what to do', async () => {
    let tries = 0;
    const handle = await start(async () => {
      tries += 1;
      if (tries < 3) throw gatewayError('upstream_failed', { message: planted });
      return { kind: 'done', passages: 5 };
    });
    const stateOf = async () => (await handle.describe()).searchAttributes['GatewayState'];
    for (const count of [1, 2]) {
      await until(`try ${count} has failed`, async () => {
        const status = await handle.query<{ tries?: number; next_at?: string }>('status');
        return status.tries === count && status.next_at !== undefined;
      });
      expect(await handle.query('status')).toMatchObject({ state: 'retrying', code: 'upstream_failed', passages: 0 });
      const details = await detailsOf(handle);
      expect(details).toContain(`Try ${count} failed (upstream_failed); next try at `);
      expect(details).toContain('\n\nNext: check the model and its provider;');
      await until('the list shows it', async () => JSON.stringify(await stateOf()) === '["retrying"]');
      await handle.signal('look');
    }
    expect(await handle.result()).toEqual({ outcome: 'done', passages: 5 });
    expect(await detailsOf(handle)).toBe('All embeddings are computed. Passages of this run: 5.\n\nNext: nothing to do.');
    const history = rawHistory(await handle.fetchHistory());
    expect(history).toContain('try 2 failed (upstream_failed); next try at ');
    expect(history).not.toContain('patient');
  });

  test('continues embedding within ten minutes after an outage, however long it lasted', async () => {
    const handle = await start(() => Promise.reject(gatewayError('query_failed')));
    for (const count of [1, 2, 3, 4, 5]) {
      let nextAt = '';
      await until(`try ${count} has failed`, async () => {
        const status = await handle.query<{ tries?: number; next_at?: string }>('status');
        nextAt = status.next_at ?? '';
        return status.tries === count && nextAt !== '';
      });
      expect(Date.parse(nextAt) - Date.now()).toBeLessThanOrEqual(10 * 60_000);
      await handle.signal('look');
    }
    await handle.terminate();
  });

  test("doesn't report that all texts are embedded if there is no embedding model", async () => {
    const handle = await start(async () => ({ kind: 'done', passages: 0, reason: 'no_route' }));
    expect(await handle.result()).toEqual({ outcome: 'no_route', passages: 0 });
    expect(await detailsOf(handle)).toMatch(/^No embeddings are computed, because .*\n\nNext: .* configure a route for embeddings\./);
  });

  test('shows that an operator cancelled the embedding run', async () => {
    const handle = await start(() => Promise.reject(new Error(planted)));
    await until('it waits', async () => (await handle.query<{ next_at?: string }>('status')).next_at !== undefined);
    await handle.cancel();
    await until('it has ended', async () => (await handle.describe()).status.name === 'CANCELLED');
    expect(await handle.query('status')).toEqual({ state: 'cancelled' });
    expect(await detailsOf(handle)).toMatch(/^An operator cancelled this run\.\n\nNext: /);
    expect((await handle.describe()).searchAttributes).toMatchObject({ GatewayState: ['cancelled'] });
  });
});
