/** Tests which batches are reopened by a replay, and which batches are closed when a run has ended. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { reenqueueLearning } from '../../../src/memory/triggers/learning-triggers.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject, putMemorySettings } from '../calls.ts';
import { createTestLearning, learnEveryMessage, listItems, storeReadConversation, type TestLearning } from '../learning.ts';

describeDatabases('replaying a learning batch', (database) => {
  interface Started {
    readonly projectId: string;
    readonly id: string;
    readonly learning: TestLearning;
    readonly stateOf: () => Promise<string | undefined>;
    /** Closes the batch because this run has ended. By default, this was because of an operator. */
    readonly end: (runId: string, byOperator?: boolean) => Promise<void>;
  }

  async function startBatch(): Promise<Started> {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.'] });
    const learning = createTestLearning(database());
    learning.respond = learnEveryMessage;
    await learning.activities.checkLearning(projectId);
    const [batch] = await learning.batches.list(projectId, null);
    const id = batch?.id ?? '';
    return {
      projectId,
      id,
      learning,
      stateOf: async () => (await learning.batches.list(projectId, null))[0]?.state,
      end: (runId, byOperator = true) => learning.batchRuns.close({ workflowId: batch?.workflowId ?? '', runId, byOperator }),
    };
  }
  const deliverOutbox = () => database().query('delete from outbox');

  test('stops a learning batch when its Temporal run ends and checks the project again', async () => {
    const { projectId, stateOf, end } = await startBatch();
    await deliverOutbox();
    await end('run-1');
    expect(await stateOf()).toBe('stopped');
    expect(await database().query('select workflow from outbox where project_id = $1::uuid', [projectId])).toEqual([
      { workflow: 'projectLearning' },
    ]);
    await deliverOutbox();
    await end('run-1');
    expect(await database().query('select workflow from outbox where project_id = $1::uuid', [projectId])).toEqual([]);
  });

  test("doesn't stop a learning batch while it is being replayed", async () => {
    const { id, learning, stateOf, end } = await startBatch();
    await deliverOutbox();
    // This batch was replayed before we noticed that its run had ended.
    await learning.batches.replay(null, id);
    await end('run-1');
    expect(await stateOf()).toBe('running');
    await deliverOutbox();
    await end('run-2');
    expect(await stateOf()).toBe('stopped');
    // This batch was replayed afterwards, and the new run hasn't started yet.
    await learning.batches.replay(null, id);
    await deliverOutbox();
    await end('run-2');
    expect(await stateOf()).toBe('running');
    await end('run-3');
    expect(await stateOf()).toBe('stopped');
  });

  test('counts a learning batch as stopped rather than failed if an operator stops it', async () => {
    const { projectId, id, learning, stateOf, end } = await startBatch();
    await expect(learning.batches.stop(null, id)).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('is running'),
    });
    await end('run-1', false);
    expect(await learning.batches.count(projectId)).toMatchObject({ failed: 1, stopped: 0 });
    for (let n = 0; n < 2; n += 1) expect(await learning.batches.stop(null, id)).toMatchObject({ id, state: 'stopped' });
    expect(await learning.batches.count(projectId)).toMatchObject({ failed: 0, stopped: 1 });
    await reenqueueLearning(database());
    expect(await learning.activities.replayBatches(projectId)).toBe(0);
    expect(await stateOf()).toBe('stopped');
    await learning.batches.replay(null, id);
    expect(await stateOf()).toBe('running');
    await expect(learning.batches.stop(null, randomUUID())).rejects.toMatchObject({ code: 'not_found' });
  });

  test("finishes a stopped learning batch only when it's replayed", async () => {
    const { projectId, id, learning, stateOf, end } = await startBatch();
    learning.respond = () => ({ kind: 'failure', failure: { kind: 'vendor', code: 'upstream_failed', message: 'away' } });
    await learning.runBatches(projectId);
    expect((await learning.batches.show(null, id)).nextTryAt).not.toBeNull();
    await end('run-1');
    const stopped = await learning.batches.show(null, id);
    expect([stopped.nextTryAt, stopped.groups[0]?.nextTryAt, stopped.error]).toEqual([null, null, 'stopped_by_operator']);
    // Simulates that the last call of the run has stored its result.
    await database().query(`update memory_batch_groups set state = 'done' where batch_id = $1::uuid`, [id]);
    expect(await learning.activities.replayBatches(projectId)).toBe(0);
    expect(await learning.batches.replayAll(projectId, 'failed')).toEqual([]);
    expect(await learning.batches.replayAll(projectId, 'stopped')).toEqual([id]);
    await learning.runBatches(projectId, 'run-2');
    expect(await stateOf()).toBe('done');
    expect(await learning.activities.replayBatches(projectId)).toBe(0);
  });

  /** Simulates that this run calls the model for the first group of the batch. */
  const callFrom = (runId: string, id: string, until: string) =>
    database().query(
      `update memory_batch_groups set calling_run = $3::text, calling_until = now() + $2::interval where batch_id = $1::uuid`,
      [id, until, runId],
    );
  const learn = (learning: TestLearning, id: string, runId: string) =>
    learning.activities.learnGroup({ batchId: id, position: 0, runId }, new AbortController().signal);

  test("reports a learning batch's failed Temporal run in the API and the log", async () => {
    const { projectId, id, learning, end } = await startBatch();
    await end('run-1', false);
    expect(await learning.batches.show(null, id)).toMatchObject({
      state: 'failed',
      error: 'run_failed',
      errorMessage: 'its Temporal run failed',
    });
    const [project] = await database().query<{ slug: string }>('select slug from projects where id = $1::uuid', [projectId]);
    const fields = { batch: id, project: project?.slug, runId: 'run-1', state: 'failed' };
    expect(learning.lines).toMatchObject([{ level: 'warn', message: 'learning batch closed because its run ended in Temporal', fields }]);
  });

  test("doesn't list the Temporal run of a stopped batch as open", async () => {
    const { projectId, id, learning, end } = await startBatch();
    const ended = (runId: string) => ({ workflowId: `learning/${projectId}/batch/${id}`, runId, byOperator: true });
    const runs = [ended('run-1'), ended('run-2'), { ...ended('run-3'), workflowId: 'learning/no-batch' }];
    expect(await learning.batchRuns.filterOpen(runs)).toEqual(runs.slice(0, 2));
    await deliverOutbox();
    await end('run-1');
    expect(await learning.batchRuns.filterOpen(runs)).toEqual([]);
    await learning.batches.replay(null, id);
    expect(await learning.batchRuns.filterOpen(runs)).toEqual([runs[1]]);
  });

  test("doesn't retry a learning batch that a worker of an older version gave up on", async () => {
    const { id, learning, stateOf } = await startBatch();
    await database().query(`update memory_batch_groups set state = 'failed' where batch_id = $1::uuid`, [id]);
    await database().query(`update memory_batches set state = 'failed', finished_at = now() where id = $1::uuid`, [id]);
    expect(await learning.activities.openBatch({ batchId: id, runId: 'run-1' })).toEqual({ groups: [], total: 1 });
    expect(await stateOf()).toBe('failed');
  });

  test('starts a Temporal run for a project that has a batch to replay', async () => {
    const { projectId, end } = await startBatch();
    await deliverOutbox();
    await end('run-1');
    await deliverOutbox();
    await database().query('update conversations set learnable = false where project_id = $1::uuid', [projectId]);
    await reenqueueLearning(database());
    expect(await database().query('select workflow from outbox where project_id = $1::uuid', [projectId])).toEqual([
      { workflow: 'projectLearning' },
    ]);
  });

  test("waits until a dead worker's call to the memory model has expired before repeating it", async () => {
    const { projectId, id, learning } = await startBatch();
    await callFrom('run-1', id, '1 hour');
    expect(await learn(learning, id, 'run-2')).toMatchObject({ kind: 'wait', waitMs: 10_000, code: 'call_under_way', blocked: false });
    expect(learning.requests).toEqual([]);
    await callFrom('run-1', id, '-1 second');
    await learning.runBatches(projectId, 'run-2');
    expect((await listItems(database(), projectId)).map(({ text }) => text)).toEqual(['I am Ann.']);
  });

  test('replays a batch without waiting for a model call that failed after the batch was stopped', async () => {
    const { projectId, id, learning, stateOf, end } = await startBatch();
    learning.respond = async () => {
      await deliverOutbox();
      await end('run-1');
      return { kind: 'failure', failure: { kind: 'vendor', code: 'upstream_failed', message: 'away' } };
    };
    expect(await learn(learning, id, 'run-1')).toEqual({ kind: 'settled' });
    expect(await stateOf()).toBe('stopped');
    learning.respond = learnEveryMessage;
    await learning.batches.replay(null, id);
    expect(await learning.runBatches(projectId, 'run-2')).toEqual([]);
    expect(await stateOf()).toBe('done');
  });

  test("doesn't call the memory model for a Temporal run that has ended", async () => {
    const { id, learning, stateOf, end } = await startBatch();
    await callFrom('run-1', id, '1 hour');
    expect(await learn(learning, id, 'run-2')).toMatchObject({ kind: 'wait' });
    await deliverOutbox();
    await end('run-2');
    await callFrom('run-1', id, '-1 second');
    expect([await learn(learning, id, 'run-2'), learning.requests, await stateOf()]).toEqual([{ kind: 'settled' }, [], 'stopped']);
  });

  test('aborts a call to the memory model if the same run has already repeated it', async () => {
    const { projectId, id, learning } = await startBatch();
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    learning.respond = async (call) => {
      const isFirst = learning.requests.length === 1;
      (isFirst ? first : second).resolve();
      if (isFirst) await new Promise((resolve) => call.signal.addEventListener('abort', resolve));
      if (!isFirst) await released.promise;
      return isFirst ? { kind: 'failure', failure: { kind: 'vendor', code: 'upstream_failed', message: 'away' } } : learnEveryMessage(call);
    };
    const released = Promise.withResolvers<void>();
    const missed = learn(learning, id, 'run-1');
    await first.promise;
    const repeated = learn(learning, id, 'run-1');
    await second.promise;
    expect(await missed).toMatchObject({ kind: 'wait', code: 'upstream_failed' });
    expect(learning.requests.map(({ signal }) => signal.aborted)).toEqual([true, false]);
    expect(await learn(learning, id, 'run-2')).toMatchObject({ kind: 'wait', code: 'call_under_way' });
    released.resolve();
    expect(await repeated).toMatchObject({ kind: 'settled' });
    expect((await listItems(database(), projectId)).map(({ text }) => text)).toEqual(['I am Ann.']);
  });
});
