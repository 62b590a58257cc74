/**
 * Tests the error codes for stores that are unavailable (see docs/api/reference.md#error-codes), on every route that
 * the table lists.
 */
import { afterAll, describe, expect, it } from '@jest/globals';
import { keyChannel } from '../../src/keys/key-store.ts';
import { withFaultProxy } from '../support/fault-proxy.ts';
import type { TestGateway } from '../support/gateway.ts';
import { eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import { createProcesses } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres } from '../support/postgres.ts';
import { ask, expectChatError, expectRouteError, projectLender, routes } from './inference-routes.ts';
import { expectCode, type Method, memoryRoutes, send } from './memory-routes.ts';

const episode = '/v1/memory/episodes/01936b1e-0000-7000-8000-000000000000';
const mediaPaths = ['images/generations', 'audio/speech', 'video/generations', 'video/operations', 'video/download'].map(
  (path) => `/v1/${path}`,
);
const readRoutes = ['/v1/models', '/status/peek', '/usage/me', episode];

describe('failures of the database', () => {
  const lent = shareGateway({ database: 'any' });
  const lendProject = projectLender(lent, 'stores');

  /** Renames the table while `work` runs, so that queries fail. */
  async function withoutTable(table: string, work: () => Promise<void>): Promise<void> {
    await lent().database.query(`alter table ${table} rename to hidden_${table}`);
    try {
      await work();
    } finally {
      await lent().database.query(`alter table hidden_${table} rename to ${table}`);
    }
  }

  async function expectOnAllRoutes(gateway: TestGateway, code: string): Promise<void> {
    for (const route of routes) await expectRouteError(await ask(gateway, route, 'first/echo'), route, { status: 503, code });
    for (const path of mediaPaths) await expectChatError(await gateway.call(path, { model: 'first/echo', prompt: 'hi' }), 503, code);
    for (const path of readRoutes) await expectChatError(await gateway.call(path), 503, code);
  }

  it.each([
    ['keystore_unavailable', 'virtual_keys'],
    ['limits_unavailable', 'key_ceilings'],
  ])("returns 503 %s if the table %s can't be read", async (code, table) => {
    const gateway = await lendProject();
    await withoutTable(table, async () => {
      // The process may have loaded the key before we used it.
      await lent().database.query('select pg_notify($1::text, $2::text)', [keyChannel, gateway.key.split('-')[2]]);
      await eventually(async () => expect((await gateway.call('/v1/models')).status).toBe(503));
      await expectOnAllRoutes(gateway, code);
    });
    for (const route of routes) expect((await ask(gateway, route, 'first/echo')).status).toBe(200);
  });

  it('returns 500 query_failed if a query for usage or memory fails', async () => {
    const gateway = await lendProject();
    expect((await gateway.call('/status/peek')).status).toBe(200);
    await withoutTable('conversations', async () =>
      expectChatError(await gateway.call(episode), 500, 'query_failed', 'the database query failed'),
    );
    await withoutTable('calls', async () => {
      await expectChatError(await gateway.call('/usage/me'), 500, 'query_failed', 'the database query failed');
      await expectChatError(await gateway.call('/status/peek'), 503, 'limits_unavailable');
    });
  });
});

const everyMemoryRoute: readonly { method: Method; path: string; good?: unknown }[] = [
  ...memoryRoutes,
  { method: 'DELETE', path: '/subjects/ann' },
];

describePostgres('503 no_db', () => {
  const processes = createProcesses();
  afterAll(processes.stopAll);

  it('returns 503 no_db for usage and memory while the database is down', async () => {
    const database = await createTestDatabase();
    try {
      const home = await processes.home('empty');
      await withFaultProxy(database.url, async (proxy) => {
        await proxy.connect();
        const env = { DATABASE_URL: proxy.url, OPENAI_API_KEY: 'any', ANTHROPIC_API_KEY: 'any' };
        const gateway = await processes.start('serve', { home, env });
        await gateway.admin('PUT', '/provision/teams/acme', {});
        const { key } = await jsonOf<{ key: string }>(gateway.admin('POST', '/provision/teams/acme/keys', { name: 'test' }));
        await eventually(async () => {
          await proxy.connect();
          expect((await gateway.call(key, '/usage/me')).status).toBe(200);
          await proxy.sever();
          // The notification about the new key drops it from the cache, and may arrive after we used the key.
          await expectChatError(await gateway.call(key, '/usage/me'), 503, 'no_db');
        });
        for (const { method, path, good } of everyMemoryRoute)
          await expectCode(send({ url: gateway.url, key }, method, path, good), 503, 'no_db');
        await expectChatError(await gateway.call(key, '/status/peek'), 503, 'limits_unavailable');
        expect((await gateway.call(key, '/v1/models')).status).toBe(200);
        await proxy.connect();
        expect(await gateway.end('SIGTERM')).toBe(0);
      });
    } finally {
      await database.drop();
    }
  });
});
