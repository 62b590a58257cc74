/**
 * Kills and freezes PostgreSQL during calls with ceilings. During the outage, `on_budget_store_down` has to apply.
 * Afterwards, every call has to be counted.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createFaultProxy, type FaultProxy } from '../support/fault-proxy.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess } from '../support/gateway-process.ts';
import { describeOwnPostgres, startMigratedPostgres } from '../support/own-postgres.ts';
import type { PostgresServer } from '../support/postgres-server.ts';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';

const chatPath = '/v1/chat/completions';
const chat = { model: 'one/echo', max_tokens: 16, messages: [{ role: 'user', content: 'hi' }] };
/** The duration of the outage. Set `GATEWAY_OUTAGE_MS=60000` for a longer run. */
const outageMs = Number(process.env.GATEWAY_OUTAGE_MS ?? 3_000);
const limitMs = outageMs + 480_000;

interface Row {
  readonly id: string;
  readonly key: string;
  readonly cost: number;
  readonly unmetered: boolean;
}

interface Ceiling {
  readonly used: number;
  readonly reserved: number;
  readonly remaining: number;
}

describeOwnPostgres('a quota store outage under load', () => {
  const processes = createProcesses();
  let server: PostgresServer;
  /** The network between the service and the database server. */
  let network: FaultProxy;
  let vendor: ScriptedVendor;
  let allowing: GatewayProcess;
  let refusing: GatewayProcess;
  /**
   * We issue the keys before the second process starts. A late notification about a new key makes a process forget the
   * key, and during an outage it couldn't read it again.
   */
  let keys: Readonly<Record<'large' | 'tight' | 'small', string>>;
  /** The number of served calls of each key. */
  const admitted = new Map<string, number>();

  beforeAll(async () => {
    [server, vendor] = await Promise.all([startMigratedPostgres(), createScriptedVendor()]);
    network = await createFaultProxy(server.url);
    await network.connect();
    const start = async (onDown: 'allow' | 'refuse'): Promise<GatewayProcess> => {
      const home = await processes.home('empty');
      const yaml = `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat }
models:
  one/echo: { input: 1, output: 4 }
on_budget_store_down: ${onDown}
`;
      await writeFile(join(home, 'gateway.yaml'), yaml);
      const env = { DATABASE_URL: network.url };
      return processes.start('serve', { home, env });
    };
    allowing = await start('allow');
    await allowing.admin('PUT', '/provision/teams/acme', { cache: { enabled: false } });
    keys = {
      large: await issue({ calls: 1_000_000, cost: 100, rpm: 500_000 }),
      // This ceiling is too small to lease several calls at once, so each call needs the database.
      tight: await issue({ calls: 40 }),
      small: await issue({ calls: 10 }),
    };
    refusing = await start('refuse');
  });
  afterAll(async () => {
    await processes.stopAll();
    await vendor.close();
    await network.sever();
    await server.stop();
  });

  const issue = async (ceilings: object): Promise<string> =>
    (await jsonOf<{ key: string }>(allowing.admin('POST', '/provision/teams/acme/keys', { name: 'limited', ceilings }))).key;

  const ask = async (gateway: GatewayProcess, key: string): Promise<string> => {
    const answer = await gateway.call(key, chatPath, chat);
    const { error } = await jsonOf<{ error?: { code: string } }>(answer);
    if (!error) admitted.set(key, (admitted.get(key) ?? 0) + 1);
    return error ? `${answer.status} ${error.code} ${answer.headers.get('retry-after')}` : String(answer.status);
  };

  const ceilingsOf = async (key: string): Promise<Readonly<Record<string, Ceiling>>> =>
    (await jsonOf<{ key: { ceilings: Record<string, Ceiling> } }>(allowing.call(key, '/status/peek'))).key.ceilings;

  const rowsOf = async (key: string): Promise<readonly Row[]> => {
    const rows: Row[] = [];
    for (;;) {
      const before = rows.length === 0 ? '' : `&before=${rows.at(-1)?.id}`;
      const { data } = await jsonOf<{ data: readonly Row[] }>(allowing.admin('GET', `/provision/teams/acme/calls?limit=1000${before}`));
      if (data.length === 0) return rows.filter((row) => key.includes(row.key));
      rows.push(...data);
    }
  };

  /** Expects one row per served call, and counters that equal the sums of the rows to the nano-dollar. */
  const expectAllCounted = (key: string): Promise<void> =>
    eventually(async () => {
      const rows = await rowsOf(key);
      expect(rows).toHaveLength(admitted.get(key) ?? 0);
      const { calls, cost } = await ceilingsOf(key);
      expect(calls).toMatchObject({ used: rows.length, reserved: 0 });
      expect(nanosOf(cost?.used ?? 0)).toBe(rows.reduce((sum, row) => sum + nanosOf(row.cost), 0));
    });

  /** Calls both gateways repeatedly until `stop`, which returns how often each response occurred. */
  const startLoad = (key: string) => {
    let isOver = false;
    const counts = { allowing: new Map<string, number>(), refusing: new Map<string, number>() };
    const run = async (name: 'allowing' | 'refusing'): Promise<void> => {
      while (!isOver) {
        const answer = await ask(name === 'allowing' ? allowing : refusing, key);
        counts[name].set(answer, (counts[name].get(answer) ?? 0) + 1);
        // The outage lasts for seconds, and without a pause the callers would use up the CPU in the meantime.
        await sleep(100);
      }
    };
    const running = [run('allowing'), run('allowing'), run('allowing'), run('refusing')];
    return {
      counts,
      async stop() {
        isOver = true;
        await Promise.all(running);
      },
    };
  };

  const unavailable = '503 budget_unavailable 5';

  test(
    'counts the calls admitted during a database outage once the database is back',
    async () => {
      const { large: key, tight } = keys;
      expect([await ask(allowing, key), await ask(refusing, key), await ask(allowing, tight), await ask(refusing, tight)]).toEqual(
        Array(4).fill('200'),
      );
      const [load, tightLoad] = [startLoad(key), startLoad(tight)];
      await server.kill();
      await eventually(async () => expect(tightLoad.counts.refusing.get(unavailable) ?? 0).toBeGreaterThan(5));
      await sleep(outageMs);
      await server.restart();
      await eventually(async () => expect(await ask(allowing, tight)).toBe('429 tenant_capped 60'));
      await Promise.all([load.stop(), tightLoad.stop()]);
      const known = (answers: readonly string[]) => answers.filter((answer) => answer !== '200' && answer !== '429 tenant_capped 60');
      expect(known([...load.counts.allowing.keys()])).toEqual([]);
      // The first process allows unmetered calls only up to a tenth of the ceiling. Then it rejects calls, too.
      expect(known([...tightLoad.counts.allowing.keys()])).toEqual([unavailable]);
      await expectAllCounted(key);
      await expectAllCounted(tight);
      const unmetered = (await rowsOf(tight)).filter((row) => row.unmetered);
      expect(unmetered).toHaveLength(4);
      if (process.env.GATEWAY_OUTAGE_MS) console.log({ load: load.counts, tight: tightLoad.counts, unmetered: unmetered.length });
    },
    limitMs,
  );

  test('checks ceilings without a long delay even if the database hangs', async () => {
    const { small: key } = keys;
    expect([await ask(allowing, key), await ask(refusing, key)]).toEqual(['200', '200']);
    network.set({ silent: true });
    try {
      const answers = await Promise.all(Array.from({ length: 15 }, () => ask(allowing, key)));
      expect(new Set(answers)).toEqual(new Set(['200', unavailable]));
      await eventually(async () => expect(await ask(refusing, key)).toBe(unavailable));
      // This process rejects every call, so it is not ready. The other one serves calls.
      await eventually(async () => {
        expect(await ask(refusing, key)).toBe(unavailable);
        expect((await refusing.call(key, '/readyz')).status).toBe(503);
      });
      expect(await jsonOf(refusing.call(key, '/readyz'))).toMatchObject({ reasons: [expect.stringContaining('on_budget_store_down')] });
      expect([(await allowing.call(key, '/readyz')).status, (await refusing.call(key, '/healthz')).status]).toEqual([200, 200]);
    } finally {
      network.set({});
    }
    await eventually(async () => {
      expect([await ask(allowing, key), await ask(refusing, key)]).toEqual(['429 tenant_capped 60', '429 tenant_capped 60']);
    });
    expect((await refusing.call(key, '/readyz')).status).toBe(200);
    await expectAllCounted(key);
    // The process that allows unmetered calls admitted a tenth of the ceiling. The other process served at most what it
    // had leased.
    expect((await rowsOf(key)).filter((row) => row.unmetered)).toHaveLength(1);
    const { calls } = await ceilingsOf(key);
    expect(calls?.used).toBeGreaterThanOrEqual(10);
    expect(calls?.used).toBeLessThanOrEqual(11);
  });
});

function nanosOf(usd: number): number {
  return Math.round(usd * 1e9);
}
