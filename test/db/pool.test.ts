import { afterEach, expect, test } from '@jest/globals';
import { isConnectionError } from '../../src/db/connection-errors.ts';
import type { Database } from '../../src/db/database.ts';
import { createListener } from '../../src/db/listener.ts';
import { createOutageMonitor } from '../../src/db/outage.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { type FaultProxy, withFaultProxy } from '../support/fault-proxy.ts';
import { describePostgres, withPostgres } from '../support/postgres.ts';

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const resource of open.splice(0).reverse()) await resource.close();
});

const closeLater = <Resource extends { close(): Promise<unknown> }>(resource: Resource): Resource => {
  open.push(resource);
  return resource;
};

test('a pool can be opened while the server is down, but its queries fail with a connection error', async () => {
  const database = closeLater(openServerDatabase({ connectionString: 'postgres://nobody@127.0.0.1:1/none' }));
  for (const work of [() => database.query('select 1'), () => database.transaction((tx) => tx.query('select 1'))]) {
    const error: unknown = await work().catch((reason: unknown) => reason);
    expect(isConnectionError(error)).toBe(true);
  }
  const { stop } = await database.listen('somewhere', () => undefined);
  await stop();
});

test('a query times out if the server never responds', () =>
  withFaultProxy('postgres://nobody@127.0.0.1:1/none', async (proxy) => {
    proxy.set({ silent: true });
    await proxy.connect();
    const database = openServerDatabase({ connectionString: proxy.url, connectTimeoutMs: 200 });
    const error: unknown = await database.query('select 1').catch((reason: unknown) => reason);
    expect(isConnectionError(error)).toBe(true);
    await database.close();
  }));

describePostgres('long texts', () => {
  test('compresses long texts with lz4 if PostgreSQL supports it', () =>
    withPostgres(async (url) => {
      const database = openServerDatabase({ connectionString: url });
      await database.query('create table texts (content text not null)');
      await database.query(
        `insert into texts select string_agg(md5(n::text), ' ') || repeat('text ', 2000) from generate_series(1, 100) n`,
      );
      const [row] = await database.query<{ used: string; supported: boolean }>(
        `select pg_column_compression(content) as used,
                (select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression') as supported
           from texts`,
      );
      await database.close();
      expect(row?.used).toBe(row?.supported ? 'lz4' : 'pglz');
    }));
});

describePostgres('on an unreliable network', () => {
  interface Given {
    readonly database: Database;
    readonly direct: Database;
    readonly proxy: FaultProxy;
    /** The log lines of `database`. */
    readonly lines: string[];
  }
  const withProxy = (work: (given: Given) => Promise<void>, connectTimeoutMs = 60_000): Promise<void> =>
    withPostgres((url) =>
      withFaultProxy(url, async (proxy) => {
        await proxy.connect();
        const lines: string[] = [];
        const write = (_fields: unknown, line: string): void => void lines.push(line);
        const logger = { debug: write, info: write, warn: write, error: write };
        const database = openServerDatabase({ connectionString: proxy.url, heartbeatMs: 100, connectTimeoutMs, logger });
        const direct = openServerDatabase({ connectionString: url, maxConnections: 2 });
        try {
          await work({ database, direct, proxy, lines });
        } finally {
          await Promise.all([database.close(), direct.close()]);
        }
      }),
    );
  const cut = async (proxy: FaultProxy): Promise<void> => {
    await proxy.sever();
    await proxy.connect();
  };

  test('a separate connection pool has its own statement timeout', () =>
    withPostgres(async (url) => {
      const database = openServerDatabase({ connectionString: url, maxConnections: 1 });
      const separate = database.separate?.({ name: 'status', maxConnections: 1, statementTimeoutMs: 50 });
      await database.transaction(async () => {
        expect(await separate?.query('select 1 as one')).toEqual([{ one: 1 }]);
        await expect(separate?.query('select pg_sleep(60)')).rejects.toMatchObject({ code: '57014' });
      });
      await database.close();
      await expect(separate?.query('select 1')).rejects.toThrow('Cannot use a pool');
    }));

  test('disables JIT on every connection', () =>
    withPostgres(async (url) => {
      const database = openServerDatabase({ connectionString: url });
      const separate = database.separate?.({ name: 'status', maxConnections: 1, statementTimeoutMs: 1_000 });
      for (const queries of [database, separate]) expect(await queries?.query('show jit')).toEqual([{ jit: 'off' }]);
      await database.close();
    }));

  test('releases locks if the process dies in the middle of a transaction', () =>
    withProxy(async ({ database, direct, proxy }) => {
      await direct.query('create table locked (id integer)');
      await direct.query('insert into locked values (1)');
      const mine = database.separate?.({ name: 'admission', maxConnections: 1, statementTimeoutMs: 200 });
      let isFree = false;
      const gone = mine?.transaction(async (tx) => {
        await tx.query('select id from locked for update');
        proxy.set({ silent: true });
        await direct.query('select id from locked for update');
        isFree = true;
        await proxy.sever();
        await tx.query('select 1');
      });
      await expect(gone).rejects.toThrow();
      expect(isFree).toBe(true);
    }));

  test('opens a new connection after a connection reset', () =>
    withProxy(async ({ database, proxy }) => {
      await Promise.all([database.query('select 1'), database.query('select 1')]);
      await cut(proxy);
      await untilAsync(async () => {
        await database.query('select 1');
        return true;
      });
    }));

  test('rolls back a transaction if its connection is reset', () =>
    withProxy(async ({ database, direct, proxy }) => {
      await direct.query('create table payments (n integer)');
      const error: unknown = await database
        .transaction(async (tx) => {
          await tx.query('insert into payments values (1)');
          await cut(proxy);
          await tx.query('insert into payments values (2)');
        })
        .catch((reason: unknown) => reason);
      expect(isConnectionError(error)).toBe(true);
      expect(await direct.query('select n from payments')).toEqual([]);
    }));

  test('reconnects LISTEN after a connection reset', () =>
    withProxy(async ({ database, direct, proxy }) => {
      const payloads: string[] = [];
      let reconnects = 0;
      await database.listen(
        'news',
        (payload) => payloads.push(payload),
        () => (reconnects += 1),
      );
      await direct.query(`select pg_notify('news', 'one')`);
      await until(() => payloads.length === 1);
      await cut(proxy);
      await until(() => reconnects === 1);
      await direct.query(`select pg_notify('news', 'two')`);
      await until(() => payloads.length === 2);
      expect(payloads).toEqual(['one', 'two']);
    }));

  test('receives notifications on many channels while other channels unsubscribe', () =>
    withProxy(async ({ database, direct }) => {
      const payloads: string[] = [];
      const { stop } = await database.listen('first', () => undefined);
      const channels = Array.from({ length: 20 }, (_, n) => `channel_${n}`);
      await Promise.all([stop(), ...channels.map((channel) => database.listen(channel, (payload) => payloads.push(payload)))]);
      for (const channel of channels) await direct.query('select pg_notify($1::text, $1::text)', [channel]);
      await until(() => payloads.length === channels.length);
      expect(payloads).toEqual(channels);
    }));

  test('calls onReconnect at each heartbeat while no notifications arrive', () =>
    withPostgres(async (url) => {
      const lines: string[] = [];
      let calls = 0;
      const listener = createListener({
        connection: { connectionString: url },
        heartbeatMs: 5,
        connectTimeoutMs: 60_000,
        logger: { warn: (_fields, line) => void lines.push(line) },
        outage: createOutageMonitor(undefined),
        // A pooler that shares connections drops the notification.
        notify: async () => undefined,
      });
      await listener.listen(
        'news',
        () => undefined,
        () => (calls += 1),
      );
      await until(() => calls > 2);
      await listener.close();
      expect(lines).toEqual(['database notifications not arriving; polling instead']);
    }));

  test('reconnects LISTEN even if sending the heartbeat notification hangs', () =>
    withPostgres(async (url) => {
      let reconnects = 0;
      const listener = createListener({
        connection: { connectionString: url, application_name: 'listener' },
        heartbeatMs: 60_000,
        connectTimeoutMs: 60_000,
        logger: undefined,
        outage: createOutageMonitor(undefined),
        notify: () => new Promise(() => undefined),
      });
      const database = openServerDatabase({ connectionString: url, maxConnections: 1 });
      await listener.listen(
        'news',
        () => undefined,
        () => (reconnects += 1),
      );
      await database.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'listener'`);
      await until(() => reconnects > 0);
      await Promise.all([listener.close(), database.close()]);
    }));

  test('detects a LISTEN connection that was dropped silently', () =>
    withProxy(async ({ database, direct, proxy, lines }) => {
      const payloads: string[] = [];
      let reconnects = 0;
      await database.listen(
        'news',
        (payload) => payloads.push(payload),
        () => (reconnects += 1),
      );
      proxy.set({ silent: true });
      await until(() => lines.includes('database unavailable; retrying'));
      proxy.set({});
      await until(() => reconnects > 0);
      // On a busy machine the short timeout may also end a working connection, and then a notification is lost.
      await untilAsync(async () => {
        await direct.query(`select pg_notify('news', 'after')`);
        return payloads.length > 0;
      });
    }, 500));

  test('starts receiving notifications once the database becomes available', () =>
    withProxy(async ({ database, direct, proxy }) => {
      await proxy.sever();
      const payloads: string[] = [];
      let reconnects = 0;
      await database.listen(
        'news',
        (payload) => payloads.push(payload),
        () => (reconnects += 1),
      );
      expect(reconnects).toBe(0);
      await proxy.connect();
      await until(() => reconnects === 1);
      await direct.query(`select pg_notify('news', 'late')`);
      await until(() => payloads.length === 1);
    }));

  test('cancels a statement that exceeds its timeout', () =>
    withPostgres(async (url) => {
      const database = closeLater(openServerDatabase({ connectionString: url, maxConnections: 1, statementTimeoutMs: 500 }));
      await expect(database.query('select pg_sleep(600)')).rejects.toMatchObject({ code: '57014' });
      expect(await database.query('select 1 as one')).toEqual([{ one: 1 }]);
      await database.close();
    }));
});

async function until(condition: () => boolean): Promise<void> {
  await untilAsync(async () => condition());
}

/** Repeats the check if the condition throws. */
async function untilAsync(condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!(await condition().catch(() => false))) {
    if (performance.now() > deadline) throw new Error('the condition did not hold within a minute');
    await new Promise((resolve) => setImmediate(resolve));
  }
}
