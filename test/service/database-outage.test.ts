/**
 * Kills, freezes, locks and slows down PostgreSQL under load. Calls have to continue, and afterwards the stored rows
 * have to match them exactly.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { generateSecret } from '../../src/keys/secret.ts';
import { createFaultProxy, type FaultProxy } from '../support/fault-proxy.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess } from '../support/gateway-process.ts';
import { metricsOf, sumOf } from '../support/metrics.ts';
import { describeOwnPostgres, startMigratedPostgres } from '../support/own-postgres.ts';
import type { PostgresServer } from '../support/postgres-server.ts';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';

const chatPath = '/v1/chat/completions';
const callers = 8;
/** The number of calls that have to complete before the next fault. */
const callsPerPhase = 40;

const recalling = [{ 'x-gateway-memory': 'recall' }, { 'x-gateway-memory': 'recall', 'x-gateway-memory-subject': 'ann' }];

interface Load {
  /** Resolves when this many more calls have completed. */
  answered(more: number): Promise<void>;
  /** Stops the load and returns the statuses of all calls, keyed by task id. */
  stop(): Promise<ReadonlyMap<string, number>>;
}

interface Row {
  readonly id: string;
  readonly task_id: string;
  readonly outcome: string;
  readonly cost: number;
}

describeOwnPostgres('a PostgreSQL outage under load', () => {
  const processes = createProcesses();
  let server: PostgresServer;
  /** Between the service and the database server. */
  let network: FaultProxy;
  let vendor: ScriptedVendor;
  let gateway: GatewayProcess;
  let key = '';

  beforeAll(async () => {
    [server, vendor] = await Promise.all([startMigratedPostgres(), createScriptedVendor()]);
    network = await createFaultProxy(server.url);
    await network.connect();
    const env = { DATABASE_URL: network.url };
    const home = await processes.home('empty');
    await writeFile(
      join(home, 'gateway.yaml'),
      `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat }
models:
  one/echo: { input: 1, output: 4 }
  one/echo+long-30: { input: 1, output: 4 }
tiers:
  standard: [one/echo]
`,
    );
    gateway = await processes.start('serve', { home, env });
    // The cache is off, because each call has to reach the vendor.
    expect((await gateway.admin('PUT', '/provision/teams/acme', { cache: { enabled: false } })).status).toBe(201);
    key = await issueKey();
  });
  afterAll(async () => {
    await processes.stopAll();
    await vendor.close();
    await network.sever();
    await server.stop();
  });

  const issueKey = async (): Promise<string> =>
    (await jsonOf<{ key: string }>(gateway.admin('POST', '/provision/teams/acme/keys', { name: 'test' }))).key;

  /** Starts concurrent callers that repeat plain and streamed calls. */
  const startLoad = (name: string): Load => {
    const statuses = new Map<string, number>();
    let isOver = false;
    const call = async (taskId: string, stream: boolean): Promise<void> => {
      const body = { model: stream ? 'one/echo+long-30' : 'standard', stream, messages: [{ role: 'user', content: 'hi' }] };
      const answer = await gateway.call(key, chatPath, body, { 'x-gateway-task-id': taskId });
      const text = await answer.text();
      statuses.set(taskId, stream && !text.includes('[DONE]') ? 0 : answer.status);
    };
    const running = Array.from({ length: callers }, async (_, caller) => {
      for (let turn = 0; !isOver; turn += 1) {
        await call(`${name}-${caller}-${turn}`, (caller + turn) % 2 === 0);
        // The faults last for seconds, and without a pause the callers would use up the CPU in the meantime.
        await sleep(100);
      }
    });
    return {
      async answered(more) {
        const target = statuses.size + more;
        await eventually(async () => expect(statuses.size).toBeGreaterThanOrEqual(target));
      },
      async stop() {
        isOver = true;
        await Promise.all(running);
        return statuses;
      },
    };
  };

  const allRows = async (name: string): Promise<readonly Row[]> => {
    const rows: Row[] = [];
    for (;;) {
      const before = rows.length === 0 ? '' : `&before=${rows.at(-1)?.id}`;
      const { data } = await jsonOf<{ data: readonly Row[] }>(gateway.admin('GET', `/provision/teams/acme/calls?limit=250${before}`));
      if (data.length === 0) return rows.filter((row) => row.task_id.startsWith(name));
      rows.push(...data);
    }
  };

  const expectEachCallOnce = async (name: string, statuses: ReadonlyMap<string, number>): Promise<void> => {
    expect(new Set(statuses.values())).toEqual(new Set([200]));
    await eventually(async () => {
      const rows = await allRows(name);
      expect(rows.map((row) => row.task_id).toSorted()).toEqual([...statuses.keys()].toSorted());
      expect(rows.filter((row) => row.outcome !== 'ok' || row.cost <= 0)).toEqual([]);
    });
  };

  const readiness = async (): Promise<number> => (await gateway.call(key, '/readyz')).status;

  const errorCodeOf = async (someKey: string, path: string): Promise<unknown> => {
    const answer = await gateway.call(someKey, path);
    const { error } = await jsonOf<{ error: { code: string } }>(answer);
    return [answer.status, error.code];
  };

  it('serves calls while the database is down and stores each one once', async () => {
    const unread = generateSecret().secret;
    const load = startLoad('killed');
    await load.answered(callsPerPhase);
    await server.kill();
    await load.answered(callsPerPhase);
    expect(await errorCodeOf(unread, '/v1/models')).toEqual([503, 'keystore_unavailable']);
    expect(await errorCodeOf(key, '/usage/me')).toEqual([503, 'no_db']);
    expect(await readiness()).toBe(200);
    await eventually(async () => expect(gateway.logs()).toContainEqual(expect.objectContaining({ msg: 'database unavailable; retrying' })));
    expect(await jsonOf(gateway.admin('GET', '/provision/status'))).toMatchObject({ status: 'ready', work: null });
    await load.answered(callsPerPhase);
    const metrics = await metricsOf(gateway);
    expect([sumOf(metrics, 'gateway_database_up'), sumOf(metrics, 'gateway_journal_lag_seconds') > 0]).toEqual([0, true]);
    await server.restart();
    await load.answered(callsPerPhase);
    await expectEachCallOnce('killed', await load.stop());
    expect(await readiness()).toBe(200);
    expect((await gateway.call(unread, '/v1/models')).status).toBe(401);
    await eventually(async () => expect(sumOf(await metricsOf(gateway), 'gateway_database_up')).toBe(1));
    expect(await jsonOf(gateway.admin('GET', '/provision/status'))).toMatchObject({ work: { prompts_to_convert: 0 } });
    const errors = gateway.logs().filter(({ level }) => level === 'error');
    expect(errors.map(({ msg }) => msg)).toEqual(['database unavailable; retrying']);
  });

  it('keeps serving while the database is locked or slow', async () => {
    const unread = generateSecret().secret;
    const load = startLoad('slow');
    await load.answered(callsPerPhase);
    const locker = new pg.Client({ connectionString: server.url });
    await locker.connect();
    await locker.query('begin');
    await locker.query('lock table calls, virtual_keys, limit_counters, projects in access exclusive mode');
    expect(await errorCodeOf(unread, '/v1/models')).toEqual([503, 'keystore_unavailable']);
    await load.answered(callsPerPhase);
    expect(await readiness()).toBe(200);
    await locker.end();
    network.set({ delayMs: 100 });
    expect((await gateway.call(unread, '/v1/models')).status).toBe(401);
    await load.answered(callsPerPhase);
    expect(await readiness()).toBe(200);
    network.set({});
    await expectEachCallOnce('slow', await load.stop());
  });

  it('answers in bounded time while the database hangs', async () => {
    const unread = generateSecret().secret;
    const load = startLoad('frozen');
    await load.answered(callsPerPhase);
    network.set({ silent: true });
    try {
      expect(await errorCodeOf(unread, '/v1/models')).toEqual([503, 'keystore_unavailable']);
      await load.answered(callsPerPhase);
      expect(await readiness()).toBe(200);
      const question = { model: 'standard', messages: [{ role: 'user', content: 'Which tea do I drink?' }] };
      for (const [turn, headers] of recalling.entries()) {
        const answer = await gateway.call(key, chatPath, question, { 'x-gateway-task-id': `recall-${turn}`, ...headers });
        expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('Which tea do I drink?')]);
      }
    } finally {
      network.set({});
    }
    await load.answered(callsPerPhase);
    await expectEachCallOnce('frozen', await load.stop());
    expect((await gateway.call(unread, '/v1/models')).status).toBe(401);
    expect(await gateway.end('SIGTERM')).toBe(0);
  });
});
