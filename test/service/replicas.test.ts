/**
 * Runs two API processes and two workers on one PostgreSQL and one Temporal server. Under load, workers stop and crash,
 * and Temporal fails and recovers, with and without its state. Callers don't notice, no message is lost or learned
 * twice, and waiting work is done in order.
 */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { enqueue } from '../../src/db/outbox.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { eventually } from '../support/gateway.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { metricsOf, sumOf } from '../support/metrics.ts';
import { describePostgres } from '../support/postgres.ts';
import { createReplicas, createUsers, expectLearnedOnce, type Replicas, type Users } from '../support/replicas.ts';

/** Every restart costs the CPU time of a new worker, and the users go on chatting meanwhile. */
const ends = isExhaustive ? (['SIGTERM', 'SIGKILL', 'SIGKILL', 'SIGTERM'] as const) : (['SIGTERM', 'SIGKILL'] as const);
const callsMeanwhile = 8;
const signals = 10;

describePostgres('a service with two API processes and two workers', () => {
  let replicas: Replicas;
  let users: Users;
  let serving: readonly GatewayProcess[];
  let workers: GatewayProcess[];
  /** Learning workflows of idle projects, which only this test signals. */
  let quiet: readonly string[];
  let signalled = 0;

  beforeAll(async () => {
    replicas = await createReplicas();
    const [first, second] = [await replicas.start('serve'), await replicas.start('serve')];
    serving = [first, second];
    workers = [await replicas.start('worker'), await replicas.start('worker')];
    users = await createUsers(replicas, [first, second]);
    for (const slug of ['quiet-a', 'quiet-b']) expect((await first.admin('PUT', `/provision/teams/${slug}`, {})).status).toBeLessThan(300);
    const projects = await replicas.database.query<{ id: string }>(`select id from projects where slug like 'quiet-%'`);
    quiet = projects.map(({ id }) => `learning/${id}`);
  });
  afterAll(() => replicas?.stopAll());

  const count = async (query: string): Promise<number> => {
    const [row] = await replicas.database.query<{ n: number }>(`select count(*)::integer as n from ${query}`);
    return row?.n ?? 0;
  };

  /** Resolves once a new batch is being processed. */
  async function untilBusy(): Promise<void> {
    const last = await count('memory_batches');
    await eventually(async () => {
      expect(await count('memory_batches')).toBeGreaterThan(last);
      expect(await count(`memory_batch_groups where state in ('waiting', 'learned') and attempts > 0`)).toBeGreaterThan(0);
    });
  }

  /** Enqueues numbered rows in one transaction after the other. */
  async function signalQuietOnes(): Promise<void> {
    for (const last = signalled + signals; signalled < last; ) {
      signalled += 1;
      const entries = quiet.map((workflowId) => ({
        workflow: 'projectLearning',
        workflowId,
        input: { project_id: workflowId.replace('learning/', '') },
        signal: { name: 'look', input: { n: signalled } },
      }));
      await replicas.database.transaction((tx) => enqueue(tx, entries));
    }
  }

  /** The numbers in the workflow's signals, in the order of its history, without repeats. */
  async function signalsOf(workflowId: string): Promise<readonly number[]> {
    const { events } = await replicas.temporal.client.workflow.getHandle(workflowId).fetchHistory();
    const numbers = (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: signal }) => {
      const data = signal?.input?.payloads?.[0]?.data;
      const input: unknown = data ? JSON.parse(Buffer.from(data).toString()) : null;
      return typeof input === 'object' && input !== null && 'n' in input && typeof input.n === 'number' ? [input.n] : [];
    });
    return numbers.filter((number, index) => number !== numbers[index - 1]);
  }

  /** The readiness of the API processes and of the workers. */
  const readiness = (): Promise<readonly unknown[]> =>
    Promise.all(
      [...serving, ...workers].map(async ({ url }) => {
        const response = await fetch(`${url}/readyz`);
        return [response.status, await response.json()];
      }),
    );

  /** Kills Temporal while users chat, and returns once it has recovered. */
  async function killUnderLoad(state?: 'empty'): Promise<void> {
    await users.chatDuring(async () => {
      await eventually(async () => expect(await count('memory_items')).toBeGreaterThan(4));
      const before = users.facts.length;
      await replicas.server.kill();
      await eventually(async () => expect(users.facts.length).toBeGreaterThan(before + callsMeanwhile));
      await signalQuietOnes();
      await eventually(async () => expect(await count('outbox')).toBeGreaterThanOrEqual(2 * signals));
      await eventually(async () =>
        expect(await readiness()).toEqual([
          ...serving.map(() => [200, { status: 'ready', reasons: [], degraded: ['durable work is paused: Temporal is unavailable'] }]),
          ...workers.map(() => [503, { status: 'not_ready', reasons: ['Temporal is unavailable'], degraded: [] }]),
        ]),
      );
      // The figures of the outbox are read every few seconds.
      for (const gateway of [...serving, ...workers])
        await eventually(async () => {
          const metrics = await metricsOf(gateway);
          expect([sumOf(metrics, 'gateway_temporal_up'), sumOf(metrics, 'gateway_outbox_lag_seconds') > 0]).toEqual([0, true]);
        });
      await replicas.server.start(state);
      const atReturn = users.facts.length;
      await eventually(async () => expect(users.facts.length).toBeGreaterThan(atReturn + 5));
    });
  }

  async function expectAllDone(): Promise<void> {
    const processes = [...serving, ...workers];
    await eventually(async () =>
      expect(await readiness()).toEqual(processes.map(() => [200, { status: 'ready', reasons: [], degraded: [] }])),
    );
    const metrics = (await Promise.all(processes.map(metricsOf))).flat();
    expect(['gateway_temporal_up', 'gateway_worker_polling'].map((name) => sumOf(metrics, name))).toEqual([
      processes.length,
      workers.length,
    ]);
    await expectLearnedOnce(replicas, users, [`learning/${users.projectId}`, ...quiet]);
    const expected = Array.from({ length: signalled }, (_, index) => index + 1);
    for (const workflowId of quiet) expect(await signalsOf(workflowId)).toEqual(expected);
    const outcomes = await replicas.database.query(
      `select outcome, count(*)::integer as n from calls where source <> 'gateway-memory' group by outcome`,
    );
    expect(outcomes).toEqual([{ outcome: 'ok', n: users.facts.length }]);
  }

  it('learns each fact exactly once while workers stop and crash under load', async () => {
    await users.chatDuring(async () => {
      for (const signal of ends) {
        await untilBusy();
        expect(await workers.shift()?.end(signal)).toBe(signal === 'SIGTERM' ? 0 : 'SIGKILL');
        // The last one isn't replaced, so the other worker has to finish its work.
        if (signal !== ends.at(-1)) workers.push(await replicas.start('worker'));
      }
    }, 600);
    await expectLearnedOnce(replicas, users, [`learning/${users.projectId}`]);
  });

  it('learns each fact exactly once even if Temporal loses its state in an outage', async () => {
    await killUnderLoad('empty');
    await expectAllDone();
  });

  it('delivers pending signals in order after an outage in which Temporal kept its state', async () => {
    await killUnderLoad();
    await expectAllDone();
    for (const gateway of [...serving, ...workers]) expect(await gateway.end('SIGTERM')).toBe(0);
  });
});
