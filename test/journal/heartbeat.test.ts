/** Tests the table `processes`, which tells processes that others are alive. */
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { newId } from '../../src/core/ids.ts';
import type { Database } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { createHeartbeat, deleteIfStale, deleteProcess, type Heartbeat, listLiveProcesses } from '../../src/journal/heartbeat.ts';
import { describeDatabases } from '../db/databases.ts';
import { withFaultProxy } from '../support/fault-proxy.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { keepingLogger, noon } from './calls.ts';

const idsOf = async (database: Database): Promise<string[]> => (await listLiveProcesses(database)).map(({ id }) => id);

const setHeartbeatAge = (database: Database, id: string, seconds: number): Promise<unknown> =>
  database.query('update processes set heartbeat_at = now() - make_interval(secs => $2::double precision) where id = $1::uuid', [
    id,
    seconds,
  ]);

describeDatabases('processes', (database) => {
  const createTestHeartbeat = (): { id: string; heartbeat: Heartbeat } => {
    const id = newId(noon);
    return { id, heartbeat: createHeartbeat({ database: database(), journalId: id, logger: keepingLogger(), intervalMs: 5 }) };
  };

  test('lists a process as live from its start until it stops', async () => {
    const { id, heartbeat } = createTestHeartbeat();
    heartbeat.start();
    await until('it is listed', async () => (await idsOf(database())).includes(id));
    const [first] = await listLiveProcesses(database());
    await until(
      'the heartbeat is updated',
      async () => Number((await listLiveProcesses(database()))[0]?.heartbeatAt) > Number(first?.heartbeatAt),
    );
    const [later] = await listLiveProcesses(database());
    expect(later).toEqual({ ...first, heartbeatAt: expect.anything() });
    await heartbeat.stop();
    expect(await idsOf(database())).toEqual([]);
  });

  test('removes a process from the list of live processes after a minute without a heartbeat', async () => {
    const rows = async (): Promise<string[]> => (await database().query<{ id: string }>('select id from processes')).map(({ id }) => id);
    const [dead, dying] = [newId(noon), newId(noon)];
    for (const id of [dead, dying]) {
      await database().query('insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())', [id]);
    }
    await setHeartbeatAge(database(), dead, 61);
    await setHeartbeatAge(database(), dying, 30);
    expect(await idsOf(database())).toEqual([dying]);
    const { heartbeat } = createTestHeartbeat();
    heartbeat.start();
    await until('the heartbeat is written', async () => (await rows()).length === 3);
    expect(await rows()).toContain(dead);
    await heartbeat.stop();
    const healthy = createHeartbeat({
      database: database(),
      journalId: newId(noon),
      logger: keepingLogger(),
      intervalMs: 5,
      livenessTimeoutMs: 60,
    });
    await setHeartbeatAge(database(), dying, 0);
    healthy.start();
    await until('the stale row is deleted', async () => !(await rows()).includes(dead));
    await healthy.stop();
    await deleteProcess(database(), dying);
  });

  test('a process counts as dead only after a minute without a heartbeat', async () => {
    const id = newId(noon);
    const deleteIfDead = (): Promise<boolean> => database().transaction((tx) => deleteIfStale(tx, id));
    await database().query('insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())', [id]);
    await setHeartbeatAge(database(), id, -600);
    expect(await deleteIfDead()).toBe(false);
    expect(await idsOf(database())).toEqual([id]);
    await setHeartbeatAge(database(), id, 61);
    expect([await deleteIfDead(), await deleteIfDead()]).toEqual([true, true]);
    expect(await database().query('select id from processes')).toEqual([]);
  });
});

describePostgres('a process during a database outage', () => {
  let url = '';
  let drop = async (): Promise<void> => undefined;
  beforeAll(async () => {
    ({ url, drop } = await createTestDatabase());
  });
  afterAll(() => drop());

  test('lists a process as live again after a database outage', () =>
    withFaultProxy(url, async (proxy) => {
      const direct = openTestDatabase(url, 1);
      await migrate(direct);
      const database = openServerDatabase({ connectionString: proxy.url, maxConnections: 1 });
      const logger = keepingLogger();
      const id = newId(noon);
      let reconnects = 0;
      const onReturned = (): void => {
        reconnects += 1;
      };
      const heartbeat = createHeartbeat({ database, journalId: id, logger, intervalMs: 5, onReconnected: onReturned });
      try {
        await proxy.connect();
        heartbeat.start();
        await until('it is listed', async () => (await idsOf(direct)).length === 1);
        await until('the heartbeat is written', async () => {
          const [row] = await listLiveProcesses(direct);
          return row !== undefined && row.heartbeatAt > row.startedAt;
        });
        expect(reconnects).toBe(0);
        await proxy.sever();
        await until('the outage is logged', () => logger.lines.length > 0);
        await deleteProcess(direct, id);
        await proxy.connect();
        await until('it is listed again', async () => (await idsOf(direct)).includes(id));
        expect(logger.lines.map(({ level }) => level)).toEqual(['warn']);
        await until('onReconnected is called', () => reconnects > 0);
      } finally {
        await heartbeat.stop();
        expect(await idsOf(direct)).toEqual([]);
        await Promise.all([database.close(), direct.close()]);
      }
    }));

  test("doesn't remove other processes right after an outage, when every heartbeat is old", () =>
    withFaultProxy(url, async (proxy) => {
      const direct = openTestDatabase(url, 1);
      await migrate(direct);
      const database = openServerDatabase({ connectionString: proxy.url, maxConnections: 1 });
      const logger = keepingLogger();
      const [id, neighbour] = [newId(noon), newId(noon)];
      const staleMs = 1_500;
      const heartbeat = createHeartbeat({ database, journalId: id, logger, intervalMs: 5, livenessTimeoutMs: staleMs });
      const rows = async (): Promise<string[]> => (await direct.query<{ id: string }>('select id from processes')).map((row) => row.id);
      try {
        await proxy.connect();
        heartbeat.start();
        await until('the heartbeat is written', async () => (await rows()).includes(id));
        await proxy.sever();
        await until('the outage is logged', () => logger.lines.length > 0);
        // The neighbour is alive but has not reconnected yet, because the outage was longer than the liveness timeout.
        await direct.query('insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())', [neighbour]);
        for (const stale of [id, neighbour]) await setHeartbeatAge(direct, stale, 600);
        // The clock doesn't advance, so the process never counts as healthy for long, however slow the machine is.
        let now = performance.now() + 600_000;
        const clock = jest.spyOn(performance, 'now').mockReturnValue(now);
        await proxy.connect();
        const beats = async (): Promise<number> => Number((await listLiveProcesses(direct)).find((row) => row.id === id)?.heartbeatAt ?? 0);
        await until('the heartbeat is written again', async () => (await beats()) > 0);
        const first = await beats();
        await until('the heartbeat is updated', async () => (await beats()) > first);
        expect(await rows()).toContain(neighbour);
        await until('the row that is still stale is deleted', async () => {
          // A failed heartbeat starts the time again, so the clock has to advance more than once.
          now += staleMs;
          clock.mockReturnValue(now);
          return !(await rows()).includes(neighbour);
        });
      } finally {
        jest.restoreAllMocks();
        await heartbeat.stop();
        await Promise.all([database.close(), direct.close()]);
      }
    }));
});
