/** The rows of `processes`: who lives, as every other process sees it. */
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { newId } from '../../src/core/ids.ts';
import type { Database } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { createHeartbeat, deleteIfStale, deleteProcess, type Heartbeat, listLiveProcesses } from '../../src/journal/heartbeat.ts';
import { describeDatabases } from '../db/databases.ts';
import { withDatabaseDoor } from '../support/database-proxy.ts';
import { createTestDatabase, describePostgres } from '../support/postgres.ts';
import { keepingLogger, noon, until } from './calls.ts';

const idsOf = async (database: Database): Promise<string[]> => (await listLiveProcesses(database)).map(({ id }) => id);

const age = (database: Database, id: string, seconds: number): Promise<unknown> =>
  database.query('update processes set heartbeat_at = now() - make_interval(secs => $2::double precision) where id = $1::uuid', [
    id,
    seconds,
  ]);

describeDatabases('processes', (database) => {
  const present = (): { id: string; presence: Heartbeat } => {
    const id = newId(noon);
    return { id, presence: createHeartbeat({ database: database(), journalId: id, logger: keepingLogger(), intervalMs: 5 }) };
  };

  test('one that started is listed, its heartbeat goes on, and it is gone after its stop', async () => {
    const { id, presence } = present();
    presence.start();
    await until(async () => (await idsOf(database())).includes(id), 'it is listed');
    const [first] = await listLiveProcesses(database());
    await until(async () => Number((await listLiveProcesses(database()))[0]?.heartbeatAt) > Number(first?.heartbeatAt), 'its heart beats');
    const [later] = await listLiveProcesses(database());
    expect(later).toEqual({ ...first, heartbeatAt: expect.anything() });
    await presence.stop();
    expect(await idsOf(database())).toEqual([]);
  });

  test('one that was silent for more than a minute is not listed, and its row goes when somebody lived all that time', async () => {
    const rows = async (): Promise<string[]> => (await database().query<{ id: string }>('select id from processes')).map(({ id }) => id);
    const [dead, dying] = [newId(noon), newId(noon)];
    for (const id of [dead, dying]) {
      await database().query('insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())', [id]);
    }
    await age(database(), dead, 61);
    await age(database(), dying, 59);
    expect(await idsOf(database())).toEqual([dying]);
    const { presence } = present();
    presence.start();
    await until(async () => (await rows()).length === 3, 'it beats');
    expect(await rows()).toContain(dead);
    await presence.stop();
    const patient = createHeartbeat({
      database: database(),
      journalId: newId(noon),
      logger: keepingLogger(),
      intervalMs: 5,
      livenessTimeoutMs: 60,
    });
    await age(database(), dying, 0);
    patient.start();
    await until(async () => !(await rows()).includes(dead), 'the dead one is forgotten');
    await patient.stop();
    await deleteProcess(database(), dying);
  });

  test('one is taken for dead only after a minute of silence, also when it has no row any more', async () => {
    const id = newId(noon);
    const forget = (): Promise<boolean> => database().transaction((tx) => deleteIfStale(tx, id));
    await database().query('insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())', [id]);
    await age(database(), id, -600);
    expect(await forget()).toBe(false);
    expect(await idsOf(database())).toEqual([id]);
    await age(database(), id, 61);
    expect([await forget(), await forget()]).toEqual([true, true]);
    expect(await database().query('select id from processes')).toEqual([]);
  });
});

describePostgres('a process whose database is away', () => {
  let url = '';
  let drop = async (): Promise<void> => undefined;
  beforeAll(async () => {
    ({ url, drop } = await createTestDatabase());
  });
  afterAll(() => drop());

  test('goes on, says so once, hears that it may have been forgotten, and is listed again afterwards', () =>
    withDatabaseDoor(url, async (door) => {
      const direct = openServerDatabase({ connectionString: url, maxConnections: 1 });
      await migrate(direct);
      const database = openServerDatabase({ connectionString: door.url, maxConnections: 1 });
      const logger = keepingLogger();
      const id = newId(noon);
      let returned = 0;
      const onReturned = (): void => {
        returned += 1;
      };
      const presence = createHeartbeat({ database, journalId: id, logger, intervalMs: 5, onReconnected: onReturned });
      try {
        await door.open();
        presence.start();
        await until(async () => (await idsOf(direct)).length === 1, 'it is listed');
        await until(async () => {
          const [row] = await listLiveProcesses(direct);
          return row !== undefined && row.heartbeatAt > row.startedAt;
        }, 'it beats');
        expect(returned).toBe(0);
        await door.shut();
        await until(() => logger.lines.length > 0, 'it says that the database is away');
        await deleteProcess(direct, id);
        await door.open();
        await until(async () => (await idsOf(direct)).includes(id), 'it is listed again');
        expect(logger.lines.map(({ level }) => level)).toEqual(['warn']);
        await until(() => returned > 0, 'it hears of it');
      } finally {
        await presence.stop();
        expect(await idsOf(direct)).toEqual([]);
        await Promise.all([database.close(), direct.close()]);
      }
    }));

  test('takes no row away right after the outage, when every row is old; only who lived through a whole minute since then does', () =>
    withDatabaseDoor(url, async (door) => {
      const direct = openServerDatabase({ connectionString: url, maxConnections: 1 });
      await migrate(direct);
      const database = openServerDatabase({ connectionString: door.url, maxConnections: 1 });
      const logger = keepingLogger();
      const [id, neighbour] = [newId(noon), newId(noon)];
      const staleMs = 1_500;
      const presence = createHeartbeat({ database, journalId: id, logger, intervalMs: 5, livenessTimeoutMs: staleMs });
      const rows = async (): Promise<string[]> => (await direct.query<{ id: string }>('select id from processes')).map((row) => row.id);
      try {
        await door.open();
        presence.start();
        await until(async () => (await rows()).includes(id), 'it beats');
        await door.shut();
        await until(() => logger.lines.length > 0, 'it says that the database is away');
        // The neighbour lives and has not come back yet; so long an outage that this process would have been patient enough.
        await direct.query('insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())', [neighbour]);
        for (const silent of [id, neighbour]) await age(direct, silent, 600);
        const now = performance.now.bind(performance);
        jest.spyOn(performance, 'now').mockImplementation(() => now() + 600_000);
        await door.open();
        const beats = async (): Promise<number> => Number((await listLiveProcesses(direct)).find((row) => row.id === id)?.heartbeatAt ?? 0);
        await until(async () => (await beats()) > 0, 'it is heard again');
        const first = await beats();
        await until(async () => (await beats()) > first, 'it beats again');
        expect(await rows()).toContain(neighbour);
        jest.spyOn(performance, 'now').mockImplementation(() => now() + 600_000 + staleMs);
        await until(async () => !(await rows()).includes(neighbour), 'who is silent still is forgotten');
      } finally {
        jest.restoreAllMocks();
        await presence.stop();
        await Promise.all([database.close(), direct.close()]);
      }
    }));
});
