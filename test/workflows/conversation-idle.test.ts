import { describe, expect, test } from '@jest/globals';
import { type ConversationActivityDeps, createConversationActivities } from '../../activities/create-activities.ts';
import { gatewayError } from '../../src/core/errors.ts';
import { PermanentStartError } from '../../src/jobs/outbox/outbox-rows.ts';
import type { IdleCheckResult } from '../../workflows/contract.ts';
import { rawHistory } from '../support/histories.ts';
import { sharedTemporal, type TestTemporal, until } from '../support/temporal.ts';

const planted = 'the patient said she is pregnant';
const idleMs = 10_000;

type Read = ConversationActivityDeps['readConversation'];

function entryOf(id: string): { workflow: string; workflowId: string; input: { conversation_id: string; opened: number } } {
  return { workflow: 'conversationIdle', workflowId: `conversation/${id}/1`, input: { conversation_id: id, opened: 1 } };
}

/** A conversation that continues for the first `checks` checks. */
function quietAfter(checks: number, waitMs = 1_000): { read: Read; seen: () => number } {
  let seen = 0;
  return { seen: () => seen, read: async () => (seen++ < checks ? { kind: 'wait', waitMs } : { kind: 'read' }) };
}

/** The whole history as Temporal stores it. */
async function historyOf({ temporal }: TestTemporal, id: string): Promise<string> {
  const history = await temporal.client.workflow.getHandle(`conversation/${id}/1`).fetchHistory();
  return rawHistory(history);
}

describe('conversationIdle', () => {
  const shared = sharedTemporal();

  /** Runs one workflow to its end with these results of the memory. */
  async function run(id: string, read: Read): Promise<void> {
    const { temporal, work } = shared();
    const worker = work(createConversationActivities({ idleMs: () => idleMs, readConversation: read }));
    try {
      await temporal.probe();
      await temporal.start(entryOf(id));
      await temporal.client.workflow.getHandle(`conversation/${id}/1`).result();
    } finally {
      await worker.stop();
    }
  }

  test('passes the conversation, its opening and the idle time to the memory, and ends when it is read', async () => {
    const requests: unknown[] = [];
    await run('a', async (request) => {
      requests.push(request);
      return { kind: 'read' };
    });
    expect(requests).toEqual([{ conversationId: 'a', opened: 1, idleMs }]);
  });

  test('sleeps and checks again while the conversation continues', async () => {
    const { read, seen } = quietAfter(2);
    const startedAt = performance.now();
    await run('b', read);
    expect(seen()).toBe(3);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(2_000);
  });

  test.each<IdleCheckResult['kind']>(['gone', 'superseded'])('ends when the conversation is %s', async (kind) => {
    let seen = 0;
    await run(kind, async () => {
      seen++;
      return { kind } as IdleCheckResult;
    });
    expect(seen).toBe(1);
  });

  test('waits at least a second, so that it never spins', async () => {
    const { read } = quietAfter(1, 0);
    const startedAt = performance.now();
    await run('c', read);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1_000);
  });

  test('retries when the memory fails, and no text of the failure reaches the history', async () => {
    let seen = 0;
    await run('d', async () => {
      if (seen++ === 0) throw gatewayError('query_failed', { message: planted, cause: new Error(planted) });
      if (seen === 2) throw new Error(planted, { cause: planted });
      return { kind: 'read' };
    });
    expect(seen).toBe(3);
    expect(await historyOf(shared(), 'd')).not.toContain('patient');
  });

  test("passes only the kind and the wait of the memory's result to Temporal", async () => {
    const results: IdleCheckResult[] = [{ kind: 'wait', waitMs: 1.5 }, { kind: 'read' }];
    await run('e', async () => ({ ...(results.shift() ?? { kind: 'gone' as const }), title: planted }));
    const history = await historyOf(shared(), 'e');
    expect(history).toContain('waitMs');
    expect(history).not.toContain('patient');
  });

  test('takes one workflow task and six events for one turn with a delayed start', async () => {
    const { temporal, work } = shared();
    let checkedAt = 0;
    const read: Read = async () => {
      checkedAt = performance.now();
      return { kind: 'read' };
    };
    const worker = work(createConversationActivities({ idleMs: () => idleMs, readConversation: read }));
    await temporal.probe();
    const startedAt = performance.now();
    await temporal.start(entryOf('j'), { delayMs: 2_000 });
    await temporal.client.workflow.getHandle('conversation/j/1').result();
    await worker.stop();
    expect(checkedAt - startedAt).toBeGreaterThanOrEqual(1_900);
    const { events } = await temporal.client.workflow.getHandle('conversation/j/1').fetchHistory();
    expect(events).toHaveLength(6);
  });

  test('is not started with text: the start fails, not the workflow', async () => {
    const { temporal } = shared();
    await temporal.probe();
    const bad = { ...entryOf('f'), input: { conversation_id: planted, opened: 1 } };
    const error = await temporal.start(bad).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(PermanentStartError);
    expect(String(error)).not.toContain('patient');
    await expect(temporal.start({ ...entryOf('f'), workflow: 'noSuchWorkflow' })).rejects.toBeInstanceOf(PermanentStartError);
    await expect(temporal.client.workflow.getHandle('conversation/f/1').describe()).rejects.toThrow();
  });

  test('runs once for concurrent starts, and again after its end', async () => {
    const { temporal, work } = shared();
    await temporal.probe();
    await Promise.all(Array.from({ length: 5 }, () => temporal.start(entryOf('g'))));
    let seen = 0;
    const worker = work(
      createConversationActivities({ idleMs: () => idleMs, readConversation: async () => ({ kind: seen++ < 0 ? 'gone' : 'read' }) }),
    );
    await temporal.client.workflow.getHandle('conversation/g/1').result();
    expect(seen).toBe(1);
    await temporal.start(entryOf('g'));
    await temporal.client.workflow.getHandle('conversation/g/1').result();
    expect(seen).toBe(2);
    await worker.stop();
  });

  test('shows its stack and definition to the web UI while it waits', async () => {
    const { temporal, work } = shared();
    await temporal.probe();
    const { read, seen } = quietAfter(1, 3_000);
    const worker = work(createConversationActivities({ idleMs: () => idleMs, readConversation: read }));
    await temporal.start(entryOf('h'));
    const handle = temporal.client.workflow.getHandle('conversation/h/1');
    await until('it waits', () => seen() === 1);
    expect(await handle.query('__stack_trace')).toContain('conversation-idle.ts');
    expect(await handle.query('__enhanced_stack_trace')).toMatchObject({ sdk: { name: 'typescript' } });
    expect(await handle.query('__temporal_workflow_metadata')).toMatchObject({ definition: { type: 'conversationIdle' } });
    await handle.result();
    await worker.stop();
  });

  test('completes although Temporal is killed and restarted while it waits', async () => {
    const { temporal, server, work, lines } = shared();
    await temporal.probe();
    const { read, seen } = quietAfter(1, 4_000);
    const worker = work(createConversationActivities({ idleMs: () => idleMs, readConversation: read }));
    await temporal.start(entryOf('i'));
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
    await until('the conversation is read', () => seen() === 2);
    await until(
      'the workflow has ended',
      async () => (await temporal.client.workflow.getHandle('conversation/i/1').describe()).status.name === 'COMPLETED',
    );
    expect(worker.isPolling()).toBe(true);
    const warnings = lines.filter(({ level }) => level === 'warn' || level === 'error').map(({ message }) => message);
    // The killed server may have recorded the activity's completion without responding to the worker.
    expect(warnings.filter((message) => message !== 'temporal: Task not found when completing')).toEqual([
      'Temporal dev server died; restarting it',
    ]);
    await worker.stop();
  });
});
