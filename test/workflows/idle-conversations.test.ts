import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { createConversationActivities } from '../../activities/create-activities.ts';
import { gatewayError } from '../../src/core/errors.ts';
import type { CloseIdle } from '../../src/memory/conversations/close-idle.ts';
import type { RunningWorker } from '../../src/temporal/worker/temporal-worker.ts';
import type { CloseIdleResult } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { startTogether } from '../support/start-together.ts';
import { detailsOf, sharedTemporal, until } from '../support/temporal.ts';

const planted = 'the patient said she is pregnant';
const idleMs = 10_000;

describe('idleConversations', () => {
  const shared = sharedTemporal();

  /** The memory's results, by project. */
  const reads = new Map<string, CloseIdle>();
  let worker: RunningWorker;
  beforeAll(async () => {
    const closeIdle: CloseIdle = async (request) => {
      const read = reads.get(request.projectId);
      if (!read) throw new Error('no test has started this project');
      return read(request);
    };
    worker = shared().work(createConversationActivities({ idleMs: () => idleMs, closeIdle, closeConversation: undefined as never }));
    await shared().temporal.probe();
  });
  afterAll(() => worker.stop());

  async function start(read: CloseIdle, { projectId = randomUUID() as string, delayMs = 0 } = {}): Promise<WorkflowHandle> {
    const { temporal } = shared();
    reads.set(projectId, read);
    const workflowId = `conversations/${projectId}/1`;
    const input = { project_id: projectId, run: 1 };
    await temporal.start({ workflow: 'idleConversations', workflowId, projectId, projectSlug: 'acme', input }, { delayMs });
    return temporal.client.workflow.getHandle(workflowId);
  }
  /** Returns the results in order, and fails if there is none left. */
  const scripted = (...results: readonly CloseIdleResult[]): CloseIdle => {
    const left = [...results];
    return async () => {
      const result = left.shift();
      if (!result) throw new Error('no result is left');
      return result;
    };
  };
  const wait = { kind: 'wait', waitMs: 0, read: 3, waiting: 2 } as const;

  /** We run these together, so that their waits overlap. */
  const cases: Readonly<Record<string, () => Promise<void>>> = {
    async 'ends when no conversation is open'() {
      const projectId = randomUUID();
      const requests: unknown[] = [];
      const handle = await start(
        async (request) => {
          requests.push(request);
          return { kind: 'done', read: 5 };
        },
        { projectId },
      );
      expect(await handle.result()).toEqual({ outcome: 'done', read: 5 });
      expect(requests).toEqual([{ projectId, run: 1, idleMs }]);
    },
    async 'counts the conversations that it has closed'() {
      const handle = await start(scripted(wait, wait, { kind: 'done', read: 1 }));
      expect(await handle.result()).toEqual({ outcome: 'done', read: 7 });
      expect(await handle.query('status')).toEqual({ state: 'done', outcome: 'done', read: 7 });
    },
    async 'ends when a newer run has taken over'() {
      const handle = await start(scripted({ kind: 'superseded', read: 0 }));
      expect(await handle.result()).toEqual({ outcome: 'superseded', read: 0 });
    },
    async 'needs only six history events for conversations that become idle together'() {
      const handle = await start(scripted({ kind: 'done', read: 6_000 }), { delayMs: 1_000 });
      await handle.result();
      const { events } = await handle.fetchHistory();
      expect(events).toHaveLength(6);
    },
    async 'needs six more history events for each later check'() {
      const handle = await start(scripted(wait, { kind: 'done', read: 1 }));
      await handle.result();
      const { events } = await handle.fetchHistory();
      expect(events).toHaveLength(12);
    },
    async 'shows how many conversations are open and closed while it waits'() {
      const handle = await start(scripted({ ...wait, waitMs: 3_600_000 }));
      await until('it waits', async () => (await handle.query<{ waiting?: number }>('status')).waiting === 2);
      const details = await detailsOf(handle);
      expect(details).toContain('Open conversations that are not idle yet or are closed next: 2. Next check at ');
      expect(details).toContain('Conversations that this run has closed: 3.');
      const { memo, searchAttributes } = await handle.describe();
      expect(memo).toEqual({ summary: 'acme: close conversations when they are idle, run 1' });
      expect(searchAttributes).toMatchObject({ GatewayKind: ['conversations'], GatewayProjectSlug: ['acme'] });
      await handle.terminate();
    },
    async 'keeps the text of a memory failure out of the history'() {
      let tries = 0;
      const handle = await start(async () => {
        if (tries++ === 0) throw gatewayError('query_failed', { message: planted, cause: new Error(planted) });
        return { kind: 'done', read: 1, title: planted } as CloseIdleResult;
      });
      expect(await handle.result()).toEqual({ outcome: 'done', read: 1 });
      expect(rawHistory(await handle.fetchHistory())).not.toContain('patient');
    },
  };
  const started = startTogether(Object.keys(cases), (title) => cases[title]?.() ?? Promise.reject(new Error('no such case')));

  test.each(Object.keys(cases))('%s', (title) => started(title));
});
