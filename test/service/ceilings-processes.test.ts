/**
 * Tests ceilings with several real processes and one database. Ceilings can't be exceeded, even with SIGKILL, and no
 * quota gets lost.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { countersIn } from '../ceilings/quota-harness.ts';
import { eachCallIsCountedOnce, grantedIsWithinLimit, outstandingIsGrantedMinusReturned } from '../simulation/invariants.ts';
import { callsOf, eventually, jsonOf, withGateway } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { createScriptedVendor } from '../support/scripted-vendor/server.ts';

const chat = { model: 'one/echo', max_tokens: 8, messages: [{ role: 'user', content: 'hi' }] };

async function issue({ admin }: GatewayProcess, ceilings: object): Promise<string> {
  await admin('PUT', '/provision/teams/acme', { cache: { enabled: false } });
  return (await jsonOf<{ key: string }>(admin('POST', '/provision/teams/acme/keys', { name: 'limited', ceilings }))).key;
}

/** Returns how many of `count` concurrent calls were admitted. A process that dies meanwhile admits none. */
async function admitted(gateways: readonly GatewayProcess[], key: string, count: number): Promise<number> {
  const statuses = await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const gateway = gateways[n % gateways.length];
      const answer = await gateway?.call(key, '/v1/chat/completions', chat).catch(() => null);
      await answer?.arrayBuffer().catch(() => null);
      return answer?.status ?? 0;
    }),
  );
  return statuses.filter((status) => status === 200).length;
}

describePostgres('three processes on one database', () => {
  const processes = createProcesses();
  const returns: (() => Promise<unknown>)[] = [() => processes.stopAll()];
  afterAll(async () => {
    for (const giveBack of returns) await giveBack();
  });

  test('never exceeds a ceiling that several processes share', async () => {
    const lent = await createTestDatabase();
    const vendor = await createScriptedVendor();
    returns.push(
      () => vendor.close(),
      () => lent.drop(),
    );
    const home = await processes.home('empty');
    const yaml = `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat }
models:
  one/echo: { input: 1, output: 1 }
`;
    await writeFile(join(home, 'gateway.yaml'), yaml);
    const start = (command: 'start' | 'serve') => processes.start(command, { home, env: { DATABASE_URL: lent.url } });
    const first = await start('start');
    const [second, third] = await Promise.all([start('serve'), start('serve')]);
    const all = [first, second, third];

    const whole = await issue(first, { calls: 60 });
    expect(await admitted(all, whole, 300)).toBeLessThanOrEqual(60);
    // Calls that were denied while others held leases are admitted now.
    await eventually(async () => {
      const { key } = await jsonOf<{ key: { ceilings: { calls: { used: number; remaining: number } } } }>(
        first.call(whole, '/status/peek'),
      );
      if (key.ceilings.calls.remaining > 0) await admitted(all, whole, 30);
      expect(key.ceilings.calls).toMatchObject({ used: 60, remaining: 0 });
    });
    expect(await admitted(all, whole, 30)).toBe(0);

    const key = await issue(first, { calls: 200 });
    const before = admitted(all, key, 240);
    await eventually(async () =>
      expect((await callsOf({ admin: first.admin, project: 'acme' }, '?limit=1000')).length).toBeGreaterThan(80),
    );
    await third.end('SIGKILL');
    await before;
    const survivors = [first, second];
    const rows = async () => (await callsOf({ admin: first.admin, project: 'acme' }, '?limit=1000')).length - 60;
    // All remaining quota is available within a minute, because another process takes over the dead one's journal and
    // revokes its leases.
    await eventually(async () => {
      await admitted(survivors, key, 20);
      expect(await rows()).toBe(200);
    });
    expect(await admitted(survivors, key, 20)).toBe(0);
    expect(await rows()).toBe(200);

    const database = openTestDatabase(lent.url, 1);
    const [project] = await database.query<{ id: string }>(`select id from projects where slug = 'acme'`);
    const counters = await countersIn(database, project?.id ?? '').finally(database.close);
    expect(counters).toHaveLength(2);
    for (const [index, { ceiling, settled, leased, leases, rows: usage }] of counters.entries()) {
      const counter = { name: ceiling, settled, leased, leases: [leases], usage };
      eachCallIsCountedOnce(counter);
      outstandingIsGrantedMinusReturned(counter);
      grantedIsWithinLimit(counter, index === 0 ? 60 : 200);
    }
  });
});

describePostgres('while the quota store is unavailable', () => {
  const run = (onDown: 'allow' | 'refuse', work: Parameters<typeof withGateway>[1]) =>
    withGateway(
      {
        database: 'server',
        yaml: (vendorUrl) => `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: any, dialect: chat }
models:
  one/echo: { input: 1, output: 1 }
on_budget_store_down: ${onDown}
`,
      },
      work,
    );

  test('admits up to a tenth of the calls ceiling during a database outage', async () => {
    await run('allow', async ({ admin, call, database, project }) => {
      const { key } = await jsonOf<{ key: string }>(
        admin('POST', `/provision/teams/${project}/keys`, { name: 'limited', ceilings: { calls: 40 } }),
      );
      const ask = async () => (await call('/v1/chat/completions', chat, { authorization: `Bearer ${key}` })).status;
      expect(await ask()).toBe(200);
      await database.query('alter table limit_counters rename to hidden_counters');
      const statuses: number[] = [];
      while (statuses.at(-1) !== 503) statuses.push(await ask());
      expect(new Set(statuses.slice(0, -1))).toEqual(new Set([200]));
      await database.query('alter table hidden_counters rename to limit_counters');
      await eventually(async () => expect(await ask()).toBe(200));
      type Rows = { data: { unmetered: boolean }[] };
      const { data } = await jsonOf<Rows>(admin('GET', `/provision/teams/${project}/calls`));
      expect(data.filter(({ unmetered }) => unmetered)).toHaveLength(4);
      const status = await jsonOf<{ key: { ceilings: { calls: { used: number } } } }>(
        call('/status/peek', undefined, { authorization: `Bearer ${key}` }),
      );
      expect(status.key.ceilings.calls.used).toBe(data.length);
    });
  });

  test.each<[string, 'allow' | 'refuse', object, object, number]>([
    ['503 if the key refuses unmetered calls', 'allow', { on_budget_store_down: 'refuse' }, {}, 503],
    ['503 if the project refuses unmetered calls', 'allow', {}, { on_budget_store_down: 'refuse' }, 503],
    [
      '200 if the key allows unmetered calls but the project refuses them',
      'allow',
      { on_budget_store_down: 'allow' },
      { on_budget_store_down: 'refuse' },
      200,
    ],
    ['200 if the project allows unmetered calls but the deployment refuses them', 'refuse', {}, { on_budget_store_down: 'allow' }, 200],
  ])("returns %s while the ceilings can't be read", async (_title, deployment, ofKey, ofProject, expected) => {
    await run(deployment, async ({ admin, call, database, project }) => {
      await admin('PUT', `/provision/teams/${project}`, ofProject);
      const { key } = await jsonOf<{ key: string }>(
        admin('POST', `/provision/teams/${project}/keys`, { name: 'limited', ceilings: { calls: 40 }, ...ofKey }),
      );
      await database.query('alter table limit_counters rename to hidden_counters');
      const answer = await call('/v1/chat/completions', chat, { authorization: `Bearer ${key}` });
      await database.query('alter table hidden_counters rename to limit_counters');
      expect(answer.status).toBe(expected);
    });
  });

  test('returns 503 budget_unavailable if unmetered calls are turned off', async () => {
    await run('refuse', async ({ admin, call, database, project }) => {
      const { key } = await jsonOf<{ key: string }>(
        admin('POST', `/provision/teams/${project}/keys`, { name: 'limited', ceilings: { calls: 3 } }),
      );
      const ask = () => call('/v1/chat/completions', chat, { authorization: `Bearer ${key}` });
      await database.query('alter table limit_counters rename to hidden_counters');
      const answer = await ask();
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
      expect(await answer.json()).toMatchObject({ error: { code: 'budget_unavailable' } });
      await database.query('alter table hidden_counters rename to limit_counters');
      await eventually(async () => expect((await ask()).status).toBe(200));
    });
  });
});
