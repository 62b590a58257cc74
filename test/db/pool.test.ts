import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { isConnectionError } from '../../src/db/connection-errors.ts';
import type { Database } from '../../src/db/database.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { describePostgres, withPostgres } from '../support/postgres.ts';

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const thing of open.splice(0).reverse()) await thing.close();
});

const lend = <Thing extends { close(): Promise<unknown> }>(thing: Thing): Thing => {
  open.push(thing);
  return thing;
};

test('opening needs no server; each query says that there is none', async () => {
  const database = lend(openServerDatabase({ connectionString: 'postgres://nobody@127.0.0.1:1/none' }));
  for (const work of [() => database.query('select 1'), () => database.transaction((tx) => tx.query('select 1'))]) {
    const error: unknown = await work().catch((fault: unknown) => fault);
    expect(isConnectionError(error)).toBe(true);
  }
  const { stop } = await database.listen('somewhere', () => undefined);
  await stop();
});

test('a server that takes the connection and says nothing is given up in time', async () => {
  const silent = lend(await startProxy(null));
  const database = lend(openServerDatabase({ connectionString: `postgres://nobody@127.0.0.1:${silent.port}/none`, connectTimeoutMs: 200 }));
  const error: unknown = await database.query('select 1').catch((fault: unknown) => fault);
  expect(isConnectionError(error)).toBe(true);
});

describePostgres('behind a network that fails', () => {
  const withProxy = (work: (given: { database: Database; direct: Database; proxy: Proxy }) => Promise<void>): Promise<void> =>
    withPostgres(async (url) => {
      const target = new URL(url);
      const proxy = await startProxy(Number(target.port), target.hostname);
      const through = new URL(url);
      through.hostname = '127.0.0.1';
      through.port = String(proxy.port);
      const database = openServerDatabase({ connectionString: through.href, heartbeatMs: 100, connectTimeoutMs: 500 });
      const direct = openServerDatabase({ connectionString: url, maxConnections: 2 });
      try {
        await work({ database, direct, proxy });
      } finally {
        await Promise.all([database.close(), direct.close()]);
        await proxy.close();
      }
    });

  test('connections that were cut harm nobody, and the next query has a new one', () =>
    withProxy(async ({ database, proxy }) => {
      await Promise.all([database.query('select 1'), database.query('select 1')]);
      proxy.cut();
      await untilAsync(async () => {
        await database.query('select 1');
        return true;
      });
    }));

  test('a transaction whose connection is cut is rolled back and reported as a fault of the connection', () =>
    withProxy(async ({ database, direct, proxy }) => {
      await direct.query('create table money (n integer)');
      const error: unknown = await database
        .transaction(async (tx) => {
          await tx.query('insert into money values (1)');
          proxy.cut();
          await tx.query('insert into money values (2)');
        })
        .catch((fault: unknown) => fault);
      expect(isConnectionError(error)).toBe(true);
      expect(await direct.query('select n from money')).toEqual([]);
    }));

  test('LISTEN comes back after a cut, says so, and hears again', () =>
    withProxy(async ({ database, direct, proxy }) => {
      const heard: string[] = [];
      let reconnects = 0;
      await database.listen(
        'news',
        (payload) => heard.push(payload),
        () => (reconnects += 1),
      );
      await direct.query(`select pg_notify('news', 'one')`);
      await until(() => heard.length === 1);
      proxy.cut();
      await until(() => reconnects === 1);
      await direct.query(`select pg_notify('news', 'two')`);
      await until(() => heard.length === 2);
      expect(heard).toEqual(['one', 'two']);
    }));

  test('LISTEN on many channels at once, while others are given up, hears on each of them', () =>
    withProxy(async ({ database, direct }) => {
      const heard: string[] = [];
      const { stop } = await database.listen('first', () => undefined);
      const channels = Array.from({ length: 20 }, (_, n) => `channel_${n}`);
      await Promise.all([stop(), ...channels.map((channel) => database.listen(channel, (payload) => heard.push(payload)))]);
      for (const channel of channels) await direct.query('select pg_notify($1::text, $1::text)', [channel]);
      await until(() => heard.length === channels.length);
      expect(heard).toEqual(channels);
    }));

  test('LISTEN notices a connection that died without a word', () =>
    withProxy(async ({ database, direct, proxy }) => {
      const heard: string[] = [];
      let reconnects = 0;
      await database.listen(
        'news',
        (payload) => heard.push(payload),
        () => (reconnects += 1),
      );
      proxy.freeze();
      await until(() => reconnects === 1);
      await direct.query(`select pg_notify('news', 'after')`);
      await until(() => heard.length === 1);
    }));

  test('LISTEN that began without a server hears as soon as there is one', () =>
    withProxy(async ({ database, direct, proxy }) => {
      proxy.refuse(true);
      const heard: string[] = [];
      let reconnects = 0;
      await database.listen(
        'news',
        (payload) => heard.push(payload),
        () => (reconnects += 1),
      );
      expect(reconnects).toBe(0);
      proxy.refuse(false);
      await until(() => reconnects === 1);
      await direct.query(`select pg_notify('news', 'late')`);
      await until(() => heard.length === 1);
    }));

  test('a statement that takes too long ends, and its connection is good afterwards', () =>
    withPostgres(async (url) => {
      const database = lend(openServerDatabase({ connectionString: url, maxConnections: 1, statementTimeoutMs: 100 }));
      await expect(database.query('select pg_sleep(5)')).rejects.toMatchObject({ code: '57014' });
      expect(await database.query('select 1 as one')).toEqual([{ one: 1 }]);
      await database.close();
    }));
});

interface Proxy {
  readonly port: number;
  /** Resets every connection. */
  cut(): void;
  /** Connections of now pass nothing on any more, but stay open. */
  freeze(): void;
  /** Takes no new connections, or takes them again. */
  refuse(refusing: boolean): void;
  close(): Promise<void>;
}

/** A TCP proxy to a port, or to nothing: then it only holds its connections. */
async function startProxy(targetPort: number | null, targetHost = '127.0.0.1'): Promise<Proxy> {
  const pairs = new Set<readonly Socket[]>();
  let refusing = false;
  const server: Server = createServer((client) => {
    if (refusing) {
      client.destroy();
      return;
    }
    const sockets = [client, ...(targetPort === null ? [] : [connect(targetPort, targetHost)])];
    pairs.add(sockets);
    const end = (): void => {
      pairs.delete(sockets);
      for (const socket of sockets) socket.destroy();
    };
    for (const socket of sockets) socket.on('error', end).on('close', end);
    const [, target] = sockets;
    if (target) {
      client.on('data', (bytes) => target.write(bytes));
      target.on('data', (bytes) => client.write(bytes));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  const cut = (): void => {
    for (const sockets of pairs) for (const socket of sockets) socket.destroy();
  };
  return {
    port: address.port,
    cut,
    freeze() {
      for (const sockets of pairs) for (const socket of sockets) socket.removeAllListeners('data').resume();
    },
    refuse(now) {
      refusing = now;
    },
    close() {
      cut();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

async function until(condition: () => boolean): Promise<void> {
  await untilAsync(async () => condition());
}

/** Networks take their time; what throws is tried again. */
async function untilAsync(condition: () => Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + 60_000;
  while (!(await condition().catch(() => false))) {
    if (performance.now() > giveUpAt) throw new Error('it did not happen within a minute');
    await new Promise((resolve) => setImmediate(resolve));
  }
}
