/**
 * Makes Temporal fail under load and recover, with and without its state. Callers don't notice, and waiting work is
 * done once and in order.
 */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { enqueue } from '../../src/db/outbox.ts';
import { eventually } from '../support/gateway.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { metricsOf, sumOf } from '../support/metrics.ts';
import { describePostgres } from '../support/postgres.ts';
import { createReplicas, createUsers, expectLearnedOnce, type Replicas, type Users } from '../support/replicas.ts';

describePostgres('a Temporal outage', () => {
  const callsMeanwhile = 8;
  const signals = 10;
  let replicas: Replicas;
  let users: Users;
  let processes: readonly GatewayProcess[];
  /** Learning workflows of idle projects, which only this test signals. */
  let quiet: readonly string[];
  let signalled = 0;

  beforeAll(async () => {
    replicas = await createReplicas();
    const serving = await replicas.start('serve');
    processes = [serving, await replicas.start('worker')];
    users = await createUsers(replicas, [serving]);
    for (const slug of ['quiet-a', 'quiet-b'])
      expect((await serving.admin('PUT', `/provision/teams/${slug}`, {})).status).toBeLessThan(300);
    const projects = await replicas.database.query<{ id: string }>(`select id from projects where slug like 'quiet-%'`);
    quiet = projects.map(({ id }) => `learning/${id}`);
    await users.chatDuring(() => eventually(async () => expect(await learnedRows()).toBeGreaterThan(4)));
  });
  afterAll(() => replicas?.stopAll());

  const count = async (query: string): Promise<number> => {
    const [row] = await replicas.database.query<{ n: number }>(`select count(*)::integer as n from ${query}`);
    return row?.n ?? 0;
  };
  const learnedRows = (): Promise<number> => count('memory_items');
  const waitingRows = (): Promise<number> => count('outbox');

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

  /** The readiness of the API process and of the worker. */
  const readiness = (): Promise<readonly unknown[]> =>
    Promise.all(
      processes.map(async ({ url }) => {
        const response = await fetch(`${url}/readyz`);
        return [response.status, await response.json()];
      }),
    );

  /** Kills Temporal while users chat, and returns once it has recovered. */
  async function killUnderLoad(state?: 'empty'): Promise<void> {
    const before = users.facts.length;
    await users.chatDuring(async () => {
      await replicas.server.kill();
      await eventually(async () => expect(users.facts.length).toBeGreaterThan(before + callsMeanwhile));
      await signalQuietOnes();
      await eventually(async () => expect(await waitingRows()).toBeGreaterThanOrEqual(2 * signals));
      await eventually(async () =>
        expect(await readiness()).toEqual([
          [200, { status: 'ready', reasons: [], degraded: ['durable work is paused: Temporal is unavailable'] }],
          [503, { status: 'not_ready', reasons: ['Temporal is unavailable'], degraded: [] }],
        ]),
      );
      // The figures of the outbox are read every few seconds.
      for (const gateway of processes)
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
    const ready = [200, { status: 'ready', reasons: [], degraded: [] }];
    await eventually(async () => expect(await readiness()).toEqual([ready, ready]));
    const metrics = (await Promise.all(processes.map(metricsOf))).flat();
    expect(['gateway_temporal_up', 'gateway_worker_polling'].map((name) => sumOf(metrics, name))).toEqual([2, 1]);
    await expectLearnedOnce(replicas, users, [`learning/${users.projectId}`, ...quiet]);
    const expected = Array.from({ length: signalled }, (_, index) => index + 1);
    for (const workflowId of quiet) expect(await signalsOf(workflowId)).toEqual(expected);
    const outcomes = await replicas.database.query(
      `select outcome, count(*)::integer as n from calls where source <> 'gateway-memory' group by outcome`,
    );
    expect(outcomes).toEqual([{ outcome: 'ok', n: users.facts.length }]);
  }

  it('learns everything exactly once if Temporal loses its state in an outage', async () => {
    await killUnderLoad('empty');
    await expectAllDone();
  });

  it('delivers waiting signals in order if Temporal keeps its state', async () => {
    await killUnderLoad();
    await expectAllDone();
    for (const gateway of processes) expect(await gateway.end('SIGTERM')).toBe(0);
  });
});
