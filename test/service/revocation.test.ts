/**
 * Runs two `gateway serve` processes on one database. If something is changed through one of them, the other one has to
 * use the change too.
 */
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { withFaultProxy } from '../support/fault-proxy.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { activeModel, createProcesses, type GatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { createScriptedVendor } from '../support/scripted-vendor/server.ts';

interface IssuedKey {
  readonly key: string;
  readonly prefix: string;
}

const body = { model: 'standard', messages: [{ role: 'user', content: 'hi' }] };
/** `application_name` of the second process's connections. */
const secondName = 'second-process';

describePostgres('two processes on one database', () => {
  const processes = createProcesses();
  const returns: (() => Promise<unknown>)[] = [];
  const homes: string[] = [];
  let databaseUrl = '';
  let database: Database;
  let first: GatewayProcess;
  let second: GatewayProcess;

  beforeAll(async () => {
    const lent = await createTestDatabase();
    returns.push(() => lent.drop());
    databaseUrl = lent.url;
    database = openTestDatabase(databaseUrl, 1);
    returns.push(() => database.close());
    const vendor = await createScriptedVendor();
    returns.push(() => vendor.close());
    returns.push(() => processes.stopAll());
    const yaml = `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat }
  two: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat }
models:
  one/echo: { input: 1, output: 4 }
  two/echo: { input: 1, output: 4 }
tiers:
  standard: [one/echo, two/echo]
`;
    startServe = async (url) => {
      const home = await processes.home('empty');
      homes.push(home);
      await writeFile(join(home, 'gateway.yaml'), yaml);
      return processes.start('serve', { home, env: { DATABASE_URL: url } });
    };
    const named = new URL(databaseUrl);
    named.searchParams.set('application_name', secondName);
    [first, second] = await Promise.all([startServe(databaseUrl), startServe(named.href)]);
    expect((await first.admin('PUT', '/provision/teams/acme', {})).status).toBe(201);
  });

  afterAll(async () => {
    for (const giveBack of returns.reverse()) await giveBack();
  });

  let startServe: (url: string) => Promise<GatewayProcess>;

  const issueKey = (): Promise<IssuedKey> => jsonOf(first.admin('POST', '/provision/teams/acme/keys', { name: 'test' }));

  const statusOf = async (gateway: GatewayProcess, { key }: IssuedKey): Promise<number> => {
    const answer = await gateway.call(key, '/v1/chat/completions', body);
    await answer.arrayBuffer();
    return answer.status;
  };

  const revoke = async (gateway: GatewayProcess, { prefix }: IssuedKey): Promise<void> => {
    expect((await gateway.admin('DELETE', `/provision/teams/acme/keys/${prefix}`)).status).toBe(200);
  };

  const expectRefused = (gateway: GatewayProcess, key: IssuedKey): Promise<void> =>
    eventually(async () => expect(await statusOf(gateway, key)).toBe(401));

  it('rejects a revoked key in every process within a second', async () => {
    const key = await issueKey();
    expect(await Promise.all([statusOf(first, key), statusOf(second, key)])).toEqual([200, 200]);
    await revoke(second, key);
    expect(await statusOf(second, key)).toBe(401);
    await expectRefused(first, key);
  });

  it('applies new project settings in both processes', async () => {
    const { key } = await issueKey();
    expect([await activeModel(first, key), await activeModel(second, key)]).toEqual(['one/echo', 'one/echo']);
    expect((await first.admin('PUT', '/provision/teams/acme', { tiers: { standard: ['two/echo'] } })).status).toBe(200);
    expect(await activeModel(first, key)).toBe('two/echo');
    await eventually(async () => expect(await activeModel(second, key)).toBe('two/echo'));
  });

  it('includes calls from both processes in usage reports', async () => {
    const key = await issueKey();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => first.call(key.key, '/v1/chat/completions', body, { 'x-gateway-source': 'first-only' })),
    );
    const ids = answers.map(({ headers }) => headers.get('x-gateway-call-id'));
    await Promise.all(answers.map((answer) => answer.arrayBuffer()));
    await eventually(async () => {
      const usage = await jsonOf<{ by_source: unknown[] }>(second.call(key.key, '/usage/me'));
      expect(usage.by_source).toContainEqual({ source: 'first-only', calls: 20, cost: expect.any(Number), tokens: expect.any(Number) });
    });
    const { data } = await jsonOf<{ data: { id: string }[] }>(second.admin('GET', '/provision/teams/acme/calls?source=first-only'));
    expect(data.map(({ id }) => id).sort()).toEqual(ids.sort());
  });

  it('rejects a revoked key even if the LISTEN connection was lost', async () => {
    const key = await issueKey();
    expect(await statusOf(second, key)).toBe(200);
    const ended = await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1::text and query ~ '^(listen|select 1$)'`,
      [secondName],
    );
    expect(ended).toHaveLength(1);
    await revoke(first, key);
    await expectRefused(second, key);
  });

  /**
   * Returns the settings in effect: the model of a tier for the project and for an application, and the price of a
   * model.
   */
  const settingsOf = async (gateway: GatewayProcess, { key }: IssuedKey): Promise<unknown> => {
    const { data } = await jsonOf<{ data: { id: string; price: { input: number } }[] }>(gateway.admin('GET', '/provision/catalog'));
    const ofApplication = await gateway.call(key, '/v1/chat/completions', body, { 'x-gateway-source': 'special' });
    await ofApplication.arrayBuffer();
    return {
      project: await activeModel(gateway, key),
      application: ofApplication.headers.get('x-gateway-model'),
      price: data.find(({ id }) => id === 'two/imported')?.price.input,
    };
  };

  const changeSettings = async (gateway: GatewayProcess, project: string, application: string, price: number): Promise<void> => {
    const changes: readonly (readonly [string, object])[] = [
      ['/provision/teams/acme', { tiers: { standard: [project] } }],
      ['/provision/teams/acme/applications/special', { tiers: { standard: [application] } }],
      ['/provision/catalog', { models: { 'two/imported': { input: String(price), output: '1' } } }],
    ];
    for (const [path, change] of changes) expect((await gateway.admin('PUT', path, change)).status).toBe(200);
  };

  it('applies imported prices in both processes', async () => {
    const key = await issueKey();
    await changeSettings(first, 'one/echo', 'two/echo', 7);
    const first7 = { project: 'one/echo', application: 'two/echo', price: 7 };
    expect(await settingsOf(first, key)).toEqual(first7);
    await eventually(async () => expect(await settingsOf(second, key)).toEqual(first7));
    await changeSettings(second, 'two/echo', 'one/echo', 8);
    const second8 = { project: 'two/echo', application: 'one/echo', price: 8 };
    await eventually(async () => expect(await settingsOf(first, key)).toEqual(second8));
  });

  it('rejects a revoked key once the process has reconnected to the database', () =>
    withFaultProxy(databaseUrl, async (proxy) => {
      await proxy.connect();
      const third = await startServe(proxy.url);
      const [revoked, kept] = [await issueKey(), await issueKey()];
      await changeSettings(first, 'one/echo', 'two/echo', 1);
      const before = { project: 'one/echo', application: 'two/echo', price: 1 };
      // A late notification makes the process forget what it has cached, so it may have to read everything once more.
      await eventually(async () => {
        await proxy.connect();
        await eventually(async () => {
          expect([await statusOf(third, revoked), await settingsOf(third, kept)]).toEqual([200, before]);
        });
        await proxy.sever();
        expect([await statusOf(third, revoked), await settingsOf(third, kept)]).toEqual([200, before]);
      });
      await revoke(first, revoked);
      await changeSettings(first, 'two/echo', 'one/echo', 2);
      expect(await statusOf(third, revoked)).toBe(200);
      expect(await settingsOf(third, kept)).toEqual(before);
      await proxy.connect();
      const after = { project: 'two/echo', application: 'one/echo', price: 2 };
      await Promise.all([expectRefused(third, revoked), eventually(async () => expect(await settingsOf(third, kept)).toEqual(after))]);
      expect(await third.end('SIGTERM')).toBe(0);
    }));

  it('stores all calls before the processes shut down', async () => {
    expect(await Promise.all([first.end('SIGTERM'), second.end('SIGINT')])).toEqual([0, 0]);
    expect(homes).toHaveLength(3);
    for (const home of homes) expect(await readdir(join(home, 'data', 'journal'))).toEqual([]);
  });
});
