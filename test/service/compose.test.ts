/**
 * Starts the proxy, two replicas and a worker as in docker-compose.yml, but without containers. Under load, they go
 * through a rolling restart and a kill -9. Then we run the documented container commands in them.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { testContainerCommands } from '../deploy/container-commands.ts';
import { composeSecrets, observabilitySecrets } from '../support/compose.ts';
import { type ComposeRun, createComposeRun } from '../support/compose-run.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { root } from '../support/gateway-process.ts';
import { ensureHaproxy, type Haproxy } from '../support/haproxy.ts';
import { describeOwnPostgres } from '../support/own-postgres.ts';

const haproxy = await ensureHaproxy().catch(() => null);

const services = ['gateway-1', 'gateway-2', 'worker'];
const callers = 6;

interface Call {
  readonly taskId: string;
  readonly startedAt: number;
  /** True if the whole response arrived and it is the vendor's. */
  readonly isAnswered: boolean;
  readonly failure: string | null;
}

const describeProxy = haproxy === null && process.env.CI !== 'true' ? describe.skip : describe;

describeOwnPostgres('docker-compose.yml', () => {
  let composed: ComposeRun;
  let key = '';

  beforeAll(async () => {
    composed = await createComposeRun();
    const [said] = await Promise.all([composed.runJob('migrate'), composed.runJob('temporal-namespace')]);
    expect(said).toMatch(/^Applied \d+ migrations\.\n$/);
    await Promise.all(services.map(composed.start));
    const { admin } = composed.processOf('gateway-1');
    await admin('PUT', '/provision/teams/default', {});
    ({ key } = await jsonOf<{ key: string }>(admin('POST', '/provision/teams/default/keys', { name: 'load' })));
  });
  afterAll(() => composed?.stopAll());

  const connect = async (user: string, password: string, name: string): Promise<pg.Client> => {
    const url = Object.assign(new URL(composed.databaseUrl), { username: user, password, pathname: `/${name}` });
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    return client;
  };
  /** Connects and runs a statement. Returns the SQLSTATE if either of them is rejected, or null if both work. */
  const refusalOf = async (user: string, password: string, name: string, statement = 'select 1'): Promise<string | null> => {
    let client: pg.Client | undefined;
    try {
      client = await connect(user, password, name);
      await client.query(statement);
      return null;
    } catch (error) {
      return (error as pg.DatabaseError).code ?? String(error);
    } finally {
      await client?.end();
    }
  };

  it('gives each database role access only to its own databases', async () => {
    const rows = await composed.query('select rolname, rolsuper, rolcreatedb, rolcreaterole from pg_roles where rolcanlogin');
    const plain = { rolsuper: false, rolcreatedb: false, rolcreaterole: false };
    expect(rows).toEqual(
      expect.arrayContaining([
        { rolname: 'gateway', ...plain },
        { rolname: 'temporal', ...plain },
      ]),
    );
    const owners = await composed.query(`select distinct tableowner from pg_tables where schemaname = 'public'`);
    expect(owners).toEqual([{ tableowner: 'gateway' }]);
    const { GATEWAY_DB_PASSWORD: own, TEMPORAL_DB_PASSWORD: temporal } = composeSecrets;
    expect(await refusalOf('temporal', temporal, 'temporal_visibility')).toBeNull();
    expect(await refusalOf('temporal', temporal, 'gateway')).toBe('42501');
    expect(await refusalOf('gateway', own, 'temporal')).toBe('42501');
    expect(await refusalOf('gateway', 'wrong', 'gateway')).toBe('28P01');
  });

  it('lets the Grafana role read project costs but not calls', async () => {
    // Runs twice, like at two starts.
    for (const _start of [1, 2]) await composed.runJob('grafana-role');
    const ask = (statement: string): Promise<string | null> =>
      refusalOf('grafana', observabilitySecrets.GRAFANA_DB_PASSWORD, 'gateway', statement);
    const boards = await readFile(join(root, 'deploy/grafana/spend.json'), 'utf8');
    const queries = [...boards.matchAll(/"(?:rawSql|query)": ("select (?:[^"\\\\]|\\\\.)*")/g)].map((match) =>
      String(JSON.parse(match[1] ?? '')),
    );
    expect(queries.length).toBeGreaterThan(3);
    for (const query of queries) {
      const statement = query
        .replaceAll('$__timeFilter(start)', `start > now() - interval '1 day'`)
        .replace(/\$\{project:sqlstring\}/g, `'default'`);
      expect([query, await ask(statement)]).toEqual([query, null]);
    }
    for (const table of ['calls', 'virtual_keys', 'memory_items'])
      expect([table, await ask(`select * from ${table}`)]).toEqual([table, '42501']);
    expect(await ask('delete from usage_rollups')).toMatch(/^(?:25006|42501)$/);
  });

  describeProxy('behind the proxy', () => {
    let proxy: Haproxy;
    beforeAll(async () => {
      proxy = await composed.startProxy(haproxy ?? '');
    });
    afterAll(async () => {
      await proxy?.stop();
    });

    const send = (body: object, headers: Readonly<Record<string, string>> = {}, signal?: AbortSignal): Promise<Response> =>
      fetch(`${proxy.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
        ...(signal && { signal }),
      });

    /** Resolves with the exit status of the old process and the time when it ended. */
    const restart = async (name: string, signal: NodeJS.Signals): Promise<{ status: unknown; endedAt: number }> => {
      const status = await composed.processOf(name).end(signal);
      const endedAt = performance.now();
      await composed.start(name);
      await composed.checkHealth(name);
      return { status, endedAt };
    };

    it('serves both replicas at one address', async () => {
      const { url: workerUrl } = composed.processOf('worker');
      await eventually(async () => expect((await fetch(`${workerUrl}/readyz`)).status).toBe(200));
      await Promise.all(['postgres', ...services].map(composed.checkHealth));
      for (const name of services)
        expect(await (await fetch(await composed.metricsUrl(name))).text()).toContain('process_cpu_seconds_total');
      expect((await fetch(`${proxy.url}/readyz`)).status).toBe(200);
      const large = { model: 'standard', messages: [{ role: 'user', content: 'x'.repeat(4 * 1024 * 1024) }] };
      const response = await send(large);
      expect([response.status, (await response.text()).length]).toEqual([200, expect.any(Number)]);
    });

    it('notices when a client behind the proxy disconnects', async () => {
      const leaving = new AbortController();
      const body = { model: 'one/echo+pace-30+long-1000', stream: true, messages: [{ role: 'user', content: 'hi' }] };
      const response = await send(body, { 'x-gateway-task-id': 'left' }, leaving.signal);
      const reader = response.body?.getReader();
      await reader?.read();
      leaving.abort();
      await reader?.closed.catch(() => undefined);
      await eventually(async () => {
        const rows = await composed.query(`select outcome from calls where task_id = 'left'`);
        expect(rows).toEqual([{ outcome: 'client_left' }]);
      });
    });

    /**
     * Makes calls in a loop until `work` is done, half of them streamed. The pause between calls leaves most of the CPU
     * time to the processes that start.
     */
    async function callDuring(name: string, pauseMs: number, work: () => Promise<unknown>): Promise<readonly Call[]> {
      const calls: Call[] = [];
      let isDone = false;
      const loop = async (index: number): Promise<void> => {
        for (let n = 0; !isDone; n += 1) {
          const taskId = `${name}-${index}-${n}`;
          const startedAt = performance.now();
          const stream = n % 2 === 1;
          const body = { model: stream ? 'one/echo+pace-30+long-10' : 'one/echo', stream, messages: [{ role: 'user', content: 'hi' }] };
          const said = await send(body, { 'x-gateway-task-id': taskId, 'cache-control': 'no-cache' })
            .then(async (response) => `${response.status} ${await response.text()}`)
            .catch(String);
          const isAnswered = said.startsWith('200 ') && said.includes(stream ? '[DONE]' : '"finish_reason"');
          calls.push({ taskId, startedAt, isAnswered, failure: isAnswered ? null : said.slice(0, 200) });
          await new Promise((resolve) => setTimeout(resolve, pauseMs));
        }
      };
      const loops = Promise.all(Array.from({ length: callers }, (_, index) => loop(index)));
      try {
        await work();
      } finally {
        isDone = true;
        await loops;
      }
      return calls;
    }

    /** Waits until the rows of the calls are stored. */
    const expectStored = (name: string, answered: readonly Call[]): Promise<void> =>
      eventually(async () => {
        const rows = await composed.query(`select task_id, outcome from calls where task_id like $1`, [`${name}-%`]);
        const outcomes = new Map(rows.map((row) => [row.task_id, row.outcome]));
        expect(outcomes.size).toBe(rows.length);
        expect(answered.filter(({ taskId }) => outcomes.get(taskId) !== 'ok')).toEqual([]);
      });

    it('restarts both replicas under load without failing a call', async () => {
      const streams: Promise<string>[] = [];
      const calls = await callDuring('rolling', 200, async () => {
        const body = { model: 'one/echo+pace-200+long-30', stream: true, messages: [{ role: 'user', content: 'hi' }] };
        const started = await Promise.all([1, 2, 3, 4].map(() => send(body)));
        streams.push(...started.map((response) => response.text()));
        expect(await restart('gateway-1', 'SIGTERM')).toMatchObject({ status: 0 });
        expect(await restart('gateway-2', 'SIGTERM')).toMatchObject({ status: 0 });
      });
      expect(calls.filter(({ isAnswered }) => !isAnswered)).toEqual([]);
      expect(calls.length).toBeGreaterThan(100);
      expect((await Promise.all(streams)).filter((text) => !/data: \[DONE\]\s*$/.test(text))).toEqual([]);
      await expectStored('rolling', calls);
    });

    it('loses only the calls in flight when a replica is killed', async () => {
      let endedAt = 0;
      const calls = await callDuring('killed', 50, async () => {
        await eventually(async () => {
          const rows = await composed.query(`select 1 from calls where task_id like 'killed-%' limit 1`);
          expect(rows).toHaveLength(1);
        });
        const killed = await restart('gateway-1', 'SIGKILL');
        expect(killed.status).toBe('SIGKILL');
        ({ endedAt } = killed);
      });
      const failed = calls.filter(({ isAnswered }) => !isAnswered);
      expect(failed.length).toBeLessThanOrEqual(callers);
      expect(failed.filter(({ startedAt }) => startedAt > endedAt)).toEqual([]);
      await expectStored(
        'killed',
        calls.filter(({ isAnswered }) => isAnswered),
      );
      const rows = await composed.query(`select distinct outcome from calls where task_id = any($1)`, [failed.map(({ taskId }) => taskId)]);
      // The call was settled as `ok`, but its last byte was not sent.
      expect(rows.filter(({ outcome }) => outcome !== 'unknown' && outcome !== 'ok')).toEqual([]);
    });
  });

  describe('commands for containers', () => testContainerCommands(() => composed));
});
