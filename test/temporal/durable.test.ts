import { randomBytes } from 'node:crypto';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import { createConversationActivities } from '../../activities/create-activities.ts';
import { systemClock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { enqueue } from '../../src/db/outbox.ts';
import { reenqueueLearning } from '../../src/memory/triggers/learning-triggers.ts';
import { createTemporal } from '../../src/temporal/client/temporal.ts';
import { isUnavailable } from '../../src/temporal/connection/temporal-connection.ts';
import { type Durable, type DurableOptions, startDurable, type TemporalSettings } from '../../src/temporal/durable.ts';
import { createProject, putMemorySettings } from '../memory/calls.ts';
import { createTestLearning, storeReadConversation } from '../memory/learning.ts';
import { type AnyDatabase, openAnyDatabase } from '../support/any-database.ts';
import { withFaultProxy } from '../support/fault-proxy.ts';
import { createTestLog, describeSchedule, sharedTemporal, until, warningsIn } from '../support/temporal.ts';
import { temporalEnvironment } from '../support/temporal-program.ts';
import { prepareTestBundle } from '../support/workflow-bundle.ts';

describe('durable work', () => {
  let dataDir: string;
  let opened: AnyDatabase;
  let database: Database;
  let read: string[];
  let repairs: number;
  const { logger, lines } = createTestLog();
  const shared = sharedTemporal();
  const running: Durable[] = [];

  const start = (options: Partial<DurableOptions> = {}): Durable => {
    const memory = {
      idleMs: () => 1_000,
      closeConversation: async ({ conversationId }: { conversationId: string }) => {
        read.push(conversationId);
        return { kind: 'read' } as const;
      },
      closeIdle: async () => ({ kind: 'done', read: 0 }) as const,
    };
    const durable = startDurable({
      temporal: { mode: 'dev', address: null, namespace: 'default' },
      role: 'worker',
      environment: temporalEnvironment(),
      dataDir,
      database,
      activities: createConversationActivities(memory),
      batches: createTestLearning(database).batchRuns,
      clock: systemClock,
      reenqueueUnfinished: async () => {
        repairs++;
      },
      logger,
      graceMs: 10_000,
      ...options,
    });
    running.push(durable);
    return durable;
  };
  const put = (id: string): Promise<void> =>
    database.transaction((tx) =>
      enqueue(tx, [{ workflow: 'conversationIdle', workflowId: `conversation/${id}/1`, input: { conversation_id: id, opened: 1 } }]),
    );
  const waiting = async (): Promise<number> => (await database.query('select id from outbox')).length;
  const pidOfServer = async (): Promise<number> => JSON.parse(await readFile(join(dataDir, 'temporal.json'), 'utf8')).pid;

  beforeAll(async () => {
    opened = await openAnyDatabase();
    database = opened.database;
  });
  afterAll(() => opened?.close());
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-durable-'));
    const bundle = await prepareTestBundle();
    await copyFile(bundle, join(dataDir, basename(bundle)));
    read = [];
    repairs = 0;
    lines.length = 0;
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((durable) => durable.stop()));
    await database.query('delete from outbox');
    await rm(dataDir, { recursive: true });
  });

  test('runs durable work that was enqueued before Temporal was ready', async () => {
    await put('a');
    const ready: string[] = [];
    const durable = start({ onReady: ({ uiUrl }) => ready.push(uiUrl() ?? '') });
    expect(['fetching', 'connecting']).toContain(durable.state());
    expect(durable.uiUrl()).toBeNull();
    expect(durable.waitReasons()).toEqual(['Temporal has not been reached yet']);
    await until('the conversation is closed', () => read.includes('a'));
    await until('it is ready', () => durable.state() === 'ready');
    expect(await waiting()).toBe(0);
    expect(repairs).toBe(1);
    expect(ready).toEqual([durable.uiUrl()]);
    expect((await fetch(durable.uiUrl() ?? '')).status).toBe(200);
    await durable.stop();
    expect(durable.state()).toBe('off');
    // A busy server may not respond in time, which is logged as an outage.
    expect(warningsIn(lines).filter(({ fields }) => !isUnavailable(fields['err']))).toEqual([]);
  });

  test('continues durable work after Temporal has been killed', async () => {
    const durable = start();
    await until('it is ready', () => durable.state() === 'ready');
    process.kill(await pidOfServer(), 'SIGKILL');
    await put('b');
    await until('the conversation is closed', () => read.includes('b'));
    await until('it is ready again', () => durable.state() === 'ready');
    await until('unfinished work is re-enqueued', () => repairs === 2);
  });

  test('keeps durable work in the outbox while Temporal is disabled', async () => {
    const durable = start({ temporal: { mode: 'off', address: null, namespace: 'default' } });
    await put('c');
    expect(durable.state()).toBe('off');
    expect(await waiting()).toBe(1);
  });

  test('keeps durable work until an external Temporal is available', async () => {
    await put('d');
    const durable = start({ temporal: { mode: 'external', address: '127.0.0.1:1', namespace: 'default' } });
    const warnings = (): string[] => warningsIn(lines).map(({ message }) => message);
    await until('the worker and the dispatcher have logged it', () => warnings().length === 2);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(warnings().sort()).toEqual(['Temporal worker failed; retrying', 'outbox dispatch paused']);
    expect(durable.state()).toBe('connecting');
    expect(durable.waitReasons()).toEqual(['Temporal has not been reached yet']);
    expect(await waiting()).toBe(1);
  });

  test('creates the namespace of an external Temporal on request', async () => {
    const { server } = shared();
    const temporal = { mode: 'external', address: server.address, namespace: 'model-gateway', createNamespace: true } as const;
    await put('e');
    const client = start({ temporal, role: 'client' });
    await until('the row is delivered', async () => (await waiting()) === 0);
    expect(client.state()).toBe('ready');
    expect(client.uiUrl()).toBeNull();
    expect(read).toEqual([]);
    start({ temporal });
    await until('the conversation is closed', () => read.includes('e'));
    const observer = createTemporal({ address: server.address, namespace: 'model-gateway', logger });
    const handle = observer.client.workflow.getHandle('conversation/e/1');
    await until('the workflow has ended', async () => (await handle.describe()).status.name === 'COMPLETED');
    await observer.close();
  });

  test('delivers durable work exactly once after the network to Temporal has stalled', () =>
    withFaultProxy(`http://${shared().server.address}`, async (network) => {
      await network.connect();
      const temporal = { mode: 'external', address: new URL(network.url).host, namespace: 'half-open', createNamespace: true } as const;
      const durable = start({ temporal });
      await put('before');
      await until('a conversation is closed', () => read.includes('before'));
      network.set({ silent: true });
      await put('meanwhile');
      await until('the outage is noticed', () => durable.waitReasons().includes('Temporal is unavailable'));
      expect([await waiting(), read]).toEqual([1, ['before']]);
      network.set({});
      await until('the conversation is closed', () => read.includes('meanwhile'));
      await until('it is ready', () => durable.waitReasons().length === 0);
      expect([await waiting(), read]).toEqual([0, ['before', 'meanwhile']]);
      await durable.stop();
    }));

  test('stops a learning batch if an operator has ended its Temporal run', async () => {
    const { server } = shared();
    const temporal = { mode: 'external', address: server.address, namespace: 'batches', createNamespace: true } as const;
    start({ temporal, role: 'client' });
    const observer = createTemporal({ ...temporal, logger });
    const learning = createTestLearning(database);
    const projectId = await createProject(database);
    await putMemorySettings(database, projectId, { batch_of: 1 });
    await storeReadConversation(database, { projectId, subject: 'ann', texts: ['I am Ann.'] });
    await learning.activities.checkLearning(projectId);
    const delivered = () => until('the rows are delivered', async () => (await waiting()) === 0);
    await delivered();
    const [batch] = await learning.batches.list(projectId, null);
    const handle = observer.client.workflow.getHandle(batch?.workflowId ?? '');
    const { runId } = await handle.describe();
    await handle.terminate();
    await reenqueueLearning(database);
    await delivered();
    expect(await learning.batches.list(projectId, null)).toMatchObject([{ state: 'stopped', error: 'stopped_by_operator' }]);
    expect((await handle.describe()).runId).toBe(runId);
    // Simulates a replay by the previous version, whose signal is not called `replay`.
    await database.query(`update memory_batches set state = 'running'`);
    await reenqueueLearning(database);
    await delivered();
    expect(await learning.batches.list(projectId, null)).toMatchObject([{ state: 'running', error: null }]);
    const again = await handle.describe();
    expect([again.runId === runId, again.status.name]).toEqual([false, 'RUNNING']);
    await observer.close();
  });

  test('keeps durable work until the Temporal namespace exists', async () => {
    const { server, temporal: observer } = shared();
    await put('f');
    const durable = start({ temporal: { mode: 'external', address: server.address, namespace: 'missing' } });
    const reason = 'the Temporal namespace missing does not exist: create it, or set TEMPORAL_CREATE_NAMESPACE=true';
    await until('it is reported', () => durable.state() === 'down');
    expect(durable.waitReasons()).toEqual([reason]);
    expect(lines.filter(({ level }) => level === 'error')).toMatchObject([
      { message: 'Temporal namespace missing; retrying', fields: { err: { message: reason }, namespace: 'missing' } },
    ]);
    expect(await waiting()).toBe(1);
    await observer.client.workflowService.registerNamespace({
      namespace: 'missing',
      workflowExecutionRetentionPeriod: msToTs('1 day'),
    });
    await until('the conversation is closed', () => read.includes('f'));
    await until('it is ready', () => durable.waitReasons().length === 0);
  });

  test('continues with other durable work while a payload key is missing', async () => {
    const { server } = shared();
    const [keyA, keyB] = [randomBytes(32), randomBytes(32)];
    const startWith = (payloadKeys: TemporalSettings['payloadKeys'] & {}, role: 'client' | 'worker' = 'worker'): Durable =>
      start({ temporal: { mode: 'external', address: server.address, namespace: server.namespace, payloadKeys }, role });
    const observer = createTemporal({ address: server.address, namespace: server.namespace, payloadKeys: [keyA], logger });
    const stateOfRun = async (): Promise<string> =>
      (await observer.client.workflow.getHandle('conversation/waiting/1').describe()).status.name;

    await put('waiting');
    const before = startWith([keyA], 'client');
    await until('the run and the schedule of the first key exist', async () => (await waiting()) === 0);
    await before.stop();
    expect((await describeSchedule(observer.client.schedule.getHandle('daily-cleanup'))).action).toMatchObject({ args: [{ step: null }] });

    await put('other');
    let keys = [keyB];
    const after = startWith(() => keys);
    await until('deliveries and runs of the present key go on', () => read.includes('other'));
    await until('the missing key is reported', () => after.waitReasons().length > 0);
    expect(after.waitReasons()).toEqual([
      expect.stringMatching(
        /^payload key [0-9a-f]{16} is missing from TEMPORAL_PAYLOAD_KEY: append it, or terminate the runs that need it/,
      ),
    ]);
    const errors = lines.filter(({ level }) => level === 'error');
    expect(errors).toMatchObject([
      {
        message: 'payload key missing; append it to TEMPORAL_PAYLOAD_KEY, or terminate the runs that need it',
        fields: { workflowIds: ['conversation/waiting/1'] },
      },
    ]);
    expect(await stateOfRun()).toBe('RUNNING');

    keys = [keyB, keyA];
    after.reconnect();
    await until('the run goes on without a restart', () => read.includes('waiting'));
    await until('it has ended', async () => (await stateOfRun()) === 'COMPLETED');
    expect(after.waitReasons()).toEqual([]);
    await observer.close();
  });
});
