import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { type ConversationActivityDeps, createConversationActivities } from '../../activities/create-activities.ts';
import { gatewayError } from '../../src/core/errors.ts';
import { PermanentStartError } from '../../src/temporal/outbox/outbox-rows.ts';
import type { RunningWorker } from '../../src/temporal/worker/temporal-worker.ts';
import type { IdleCheckResult } from '../../workflows/contract.ts';
import { localOptions } from '../../workflows/retries.ts';
import { rawHistory } from '../support/histories.ts';
import { startTogether } from '../support/start-together.ts';
import { sharedTemporal, type TestTemporal, until, warningsIn } from '../support/temporal.ts';

const planted = 'the patient said she is pregnant';
const idleMs = 10_000;

type Read = ConversationActivityDeps['closeConversation'];

function entryOf(id: string): { workflow: string; workflowId: string; input: { conversation_id: string; opened: number } } {
  return { workflow: 'conversationIdle', workflowId: `conversation/${id}/1`, input: { conversation_id: id, opened: 1 } };
}

/** A conversation that continues for the first `checks` checks. */
function quietAfter(checks: number, waitMs = 1_000): { read: Read; seen: () => number } {
  let seen = 0;
  return { seen: () => seen, read: async () => (seen++ < checks ? { kind: 'wait', waitMs } : { kind: 'read' }) };
}

/** Returns the whole history as Temporal stores it. */
async function historyOf({ temporal }: TestTemporal, id: string): Promise<string> {
  const history = await temporal.client.workflow.getHandle(`conversation/${id}/1`).fetchHistory();
  return rawHistory(history);
}

describe('conversationIdle', () => {
  const shared = sharedTemporal();

  /** The memory's results, by conversation. */
  const reads = new Map<string, Read>();
  let worker: RunningWorker;
  beforeAll(async () => {
    const closeConversation: Read = async (request) => {
      const read = reads.get(request.conversationId);
      if (!read) throw new Error('no test has started this conversation');
      return read(request);
    };
    worker = shared().work(createConversationActivities({ idleMs: () => idleMs, closeConversation, closeIdle: undefined as never }));
    await shared().temporal.probe();
  });
  afterAll(() => worker.stop());

  async function start(id: string, read: Read, options: { delayMs?: number } = {}): Promise<WorkflowHandle> {
    const { temporal } = shared();
    reads.set(id, read);
    await temporal.start(entryOf(id), options);
    return temporal.client.workflow.getHandle(`conversation/${id}/1`);
  }
  /** Runs one workflow to its end with these results from memory. */
  async function run(id: string, read: Read): Promise<void> {
    await (await start(id, read)).result();
  }

  async function endsWhen(kind: IdleCheckResult['kind']): Promise<void> {
    let seen = 0;
    await run(kind, async () => {
      seen++;
      return { kind } as IdleCheckResult;
    });
    expect(seen).toBe(1);
  }

  /** We run these together, so that their waits overlap. */
  const cases: Readonly<Record<string, () => Promise<void>>> = {
    async 'passes the conversation and the idle time to the activity that closes it'() {
      const requests: unknown[] = [];
      await run('a', async (request) => {
        requests.push(request);
        return { kind: 'read' };
      });
      expect(requests).toEqual([{ conversationId: 'a', opened: 1, idleMs }]);
    },
    async 'checks again while the conversation continues'() {
      const { read, seen } = quietAfter(2);
      const startedAt = performance.now();
      await run('b', read);
      expect(seen()).toBe(3);
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(2_000);
    },
    'ends when the conversation has been deleted': () => endsWhen('gone'),
    'ends when a newer run has taken over': () => endsWhen('superseded'),
    async 'waits at least a second between checks'() {
      const { read } = quietAfter(1, 0);
      const startedAt = performance.now();
      await run('c', read);
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1_000);
    },
    async 'keeps the text of a memory failure out of the history'() {
      let seen = 0;
      await run('d', async () => {
        if (seen++ === 0) throw gatewayError('query_failed', { message: planted, cause: new Error(planted) });
        if (seen === 2) throw new Error(planted, { cause: planted });
        return { kind: 'read' };
      });
      expect(seen).toBe(3);
      expect(await historyOf(shared(), 'd')).not.toContain('patient');
    },
    async "keeps the texts of the memory's result out of the history"() {
      const results: IdleCheckResult[] = [{ kind: 'wait', waitMs: 1.5 }, { kind: 'read' }];
      await run('e', async () => ({ ...(results.shift() ?? { kind: 'gone' as const }), title: planted }));
      const history = await historyOf(shared(), 'e');
      expect(history).toContain('waitMs');
      expect(history).not.toContain('patient');
    },
    async 'needs only six history events for one turn'() {
      let checkedAt = 0;
      const read: Read = async () => {
        checkedAt = performance.now();
        return { kind: 'read' };
      };
      const startedAt = performance.now();
      const handle = await start('j', read, { delayMs: 2_000 });
      await handle.result();
      expect(checkedAt - startedAt).toBeGreaterThanOrEqual(1_900);
      const { events } = await handle.fetchHistory();
      expect(events).toHaveLength(6);
    },
    async 'fails to start with text in its input'() {
      const { temporal } = shared();
      const bad = { ...entryOf('f'), input: { conversation_id: planted, opened: 1 } };
      const error = await temporal.start(bad).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(PermanentStartError);
      expect(String(error)).not.toContain('patient');
      await expect(temporal.start({ ...entryOf('f'), workflow: 'noSuchWorkflow' })).rejects.toBeInstanceOf(PermanentStartError);
      await expect(temporal.client.workflow.getHandle('conversation/f/1').describe()).rejects.toThrow();
    },
    async 'runs once for concurrent starts'() {
      const allStarted = Promise.withResolvers<void>();
      let seen = 0;
      const read: Read = async () => {
        seen++;
        await allStarted.promise; // The run has not ended before the last start.
        return { kind: 'read' };
      };
      const [handle] = await Promise.all(Array.from({ length: 5 }, () => start('g', read)));
      allStarted.resolve();
      await handle?.result();
      expect(seen).toBe(1);
      await run('g', read);
      expect(seen).toBe(2);
    },
    async 'shows its stack in the web UI while it waits'() {
      const { read, seen } = quietAfter(1, 3_600_000);
      const handle = await start('h', read);
      await until('it waits', () => seen() === 1);
      expect(await handle.query('__stack_trace')).toContain('conversation-idle.ts');
      expect(await handle.query('__enhanced_stack_trace')).toMatchObject({ sdk: { name: 'typescript' } });
      expect(await handle.query('__temporal_workflow_metadata')).toMatchObject({ definition: { type: 'conversationIdle' } });
      await handle.terminate();
    },
  };
  const started = startTogether(Object.keys(cases), (title) => cases[title]?.() ?? Promise.reject(new Error('no such case')));

  test.each(Object.keys(cases))('%s', (title) => started(title));

  test('keeps waiting for a conversation to become idle after Temporal is killed with kill -9', async () => {
    const { temporal, server, lines } = shared();
    const { read, seen } = quietAfter(1, 4_000);
    const handle = await start('i', read);
    await until('it waits', () => seen() === 1);
    lines.length = 0;
    const killed = server.pid();
    process.kill(killed, 'SIGKILL');
    await until(
      'a new server responds',
      async () =>
        server.pid() !== killed &&
        temporal.probe().then(
          () => true,
          () => false,
        ),
    );
    await until('the conversation is closed', () => seen() === 2);
    await until('the workflow has ended', async () => (await handle.describe()).status.name === 'COMPLETED');
    expect(worker.isPolling()).toBe(true);
    expect(warningsIn(lines).map(({ message }) => message)).toEqual(['Temporal dev server died; restarting it']);
  });
});

test('waits no longer than ten minutes after a database outage, however long it lasted', () => {
  expect(localOptions.retry).toMatchObject({ maximumInterval: 10 * 60_000 });
  expect(localOptions.retry).not.toHaveProperty('maximumAttempts');
});
