import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Database } from '../../../src/db/database.ts';
import { openEmbeddedDatabase } from '../../../src/db/embedded.ts';
import { migrate } from '../../../src/db/migrate.ts';
import { enqueue, type OutboxEntry } from '../../../src/db/outbox.ts';
import { openServerDatabase } from '../../../src/db/pool.ts';
import { type Dispatcher, type DispatcherOptions, startDispatcher } from '../../../src/temporal/outbox/dispatcher.ts';
import { deleteUndeliverableRows, PermanentStartError } from '../../../src/temporal/outbox/outbox-rows.ts';
import { copyEmbeddedTemplate } from '../../support/embedded-template.ts';
import { createTestDatabase, describePostgres } from '../../support/postgres.ts';
import { createTestLog, type LogLine, until } from '../../support/temporal.ts';

/** A fake Temporal that records starts and can be made unavailable. */
function createFakeTemporal(): { started: OutboxEntry[]; ids: () => string[]; isDown: boolean; probes: number; repairs: number } & Pick<
  DispatcherOptions,
  'start' | 'probe' | 'reenqueueUnfinished'
> {
  const fake = {
    started: [] as OutboxEntry[],
    isDown: false,
    probes: 0,
    repairs: 0,
    ids: () => fake.started.map((entry) => entry.workflowId),
    start: async (entry: OutboxEntry) => {
      await sleep(Math.random() * 5);
      if (fake.isDown) throw new Error('no connection');
      fake.started.push(entry);
    },
    probe: async () => {
      fake.probes++;
      if (fake.isDown) throw new Error('no connection');
    },
    reenqueueUnfinished: async () => {
      fake.repairs++;
    },
  };
  return fake;
}

function entry(workflowId: string, opened = 1): OutboxEntry {
  return { workflow: 'conversationIdle', workflowId, input: { conversation_id: workflowId, opened } };
}

/**
 * The tests, which are the same for each database. `connections` belong to two processes if the database allows two.
 */
function promises(open: () => Promise<{ connections: readonly [Database, Database]; close(): Promise<void> }>): void {
  let database: Database;
  let other: Database;
  let close: () => Promise<void>;
  const running: Dispatcher[] = [];

  const dispatch = (on: Database, options: Omit<DispatcherOptions, 'database' | 'logger'>): LogLine[] => {
    const { logger, lines } = createTestLog();
    running.push(startDispatcher({ database: on, logger, ...options }));
    return lines;
  };
  const waiting = async (): Promise<number> => (await database.query('select id from outbox')).length;
  const put = (entries: readonly OutboxEntry[]): Promise<void> => database.transaction((tx) => enqueue(tx, entries));
  const allDelivered = (): Promise<void> => until('the outbox is empty', async () => (await waiting()) === 0);

  beforeAll(async () => {
    const opened = await open();
    [database, other] = opened.connections;
    close = opened.close;
    await migrate(database);
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((dispatcher) => dispatcher.stop()));
    await database.query('delete from outbox');
  });
  afterAll(() => close());

  test('starts the workflow of an outbox entry and deletes its row', async () => {
    const temporal = createFakeTemporal();
    dispatch(database, temporal);
    await put([entry('conversation/a/1')]);
    await allDelivered();
    expect(temporal.started).toMatchObject([entry('conversation/a/1')]);
  });

  test('dispatches an outbox entry as soon as it is committed, without waiting for the next poll', async () => {
    const temporal = createFakeTemporal();
    dispatch(database, { ...temporal, pollIntervalMs: 3_600_000 });
    await until('the first dispatch is over', () => temporal.repairs === 1);
    await put([entry('conversation/a/1')]);
    await until('the workflow is started', () => temporal.started.length === 1);
  });

  test('starts each of 500 workflows once with two dispatchers', async () => {
    const temporal = createFakeTemporal();
    const entries = Array.from({ length: 500 }, (_, n) => entry(`conversation/${n}/1`));
    await put(entries);
    dispatch(database, temporal);
    dispatch(other, temporal);
    await allDelivered();
    expect(temporal.ids().sort()).toEqual(entries.map(({ workflowId }) => workflowId).sort());
  });

  test('delivers the outbox entries of a workflow in order, even with two dispatchers', async () => {
    const temporal = createFakeTemporal();
    await put(Array.from({ length: 60 }, (_, n) => entry(`conversation/${n % 6}/1`, n)));
    dispatch(database, temporal);
    dispatch(other, temporal);
    await allDelivered();
    for (let id = 0; id < 6; id++) {
      const opened = temporal.started
        .filter(({ workflowId }) => workflowId === `conversation/${id}/1`)
        .map(({ input }) => Number(input['opened']));
      expect(opened).toEqual([...opened].sort((left, right) => left - right));
      expect(opened).toHaveLength(10);
    }
  });

  test("doesn't let a project with many outbox entries delay other projects' entries", async () => {
    const temporal = createFakeTemporal();
    const entriesOf = (projectId: string, count: number) =>
      Array.from({ length: count }, (_, n) => ({ ...entry(`conversation/${projectId}-${n}/1`), projectId }));
    const [busy, quiet] = [randomUUID(), randomUUID()];
    await put(entriesOf(busy, 1_000));
    const withoutProject = entry('conversation/without-project/1');
    await put([...entriesOf(quiet, 2), withoutProject]);
    dispatch(database, temporal);
    await allDelivered();
    expect(temporal.started).toHaveLength(1_003);
    const isOfBusy = ({ projectId }: OutboxEntry): boolean => projectId === busy;
    // The dispatcher claims a hundred rows at a time.
    expect(temporal.started.slice(0, 100).filter((started) => !isOfBusy(started))).toHaveLength(3);
  });

  test('keeps outbox rows while Temporal is unavailable', async () => {
    const temporal = createFakeTemporal();
    temporal.isDown = true;
    const changes: boolean[] = [];
    const lines = dispatch(database, { ...temporal, probe: () => temporal.probe(), onChange: (reachable) => changes.push(reachable) });
    await put(Array.from({ length: 30 }, (_, n) => entry(`conversation/${n}/1`)));
    await until('Temporal was probed twice', () => temporal.probes >= 2);
    expect(await waiting()).toBe(30);
    temporal.isDown = false;
    await allDelivered();
    expect(temporal.started).toHaveLength(30);
    expect(lines).toMatchObject([
      { level: 'warn', message: 'outbox dispatch paused', fields: { dependency: 'Temporal', err: { message: 'no connection' } } },
      { level: 'info', message: 'outbox dispatch resumed', fields: { dependency: 'Temporal' } },
    ]);
    expect([changes[0], changes.at(-1)]).toEqual([false, true]);
  });

  test('re-enqueues unfinished work after an outage of Temporal', async () => {
    const temporal = createFakeTemporal();
    dispatch(database, temporal);
    await until('it is connected', () => temporal.repairs === 1);
    temporal.isDown = true;
    await put([entry('conversation/a/1'), entry('conversation/b/1')]);
    await until('a probe failed', () => temporal.probes >= 2);
    expect(await waiting()).toBe(2);
    temporal.isDown = false;
    await allDelivered();
    expect(temporal.ids().sort()).toEqual(['conversation/a/1', 'conversation/b/1']);
    expect(temporal.repairs).toBe(2);
  });

  test('reports the age of the oldest undelivered entry as the outbox lag', async () => {
    const temporal = createFakeTemporal();
    temporal.isDown = true;
    dispatch(database, temporal);
    const lagMs = (): number => running[0]?.lagMs() ?? 0;
    await until('Temporal was probed', () => temporal.probes >= 1);
    expect(lagMs()).toBe(0);
    await put([entry('conversation/a/1')]);
    await database.query(`update outbox set created_at = now() - interval '1 minute'`);
    await put([entry('conversation/b/1')]);
    await until('the older one counts', () => lagMs() >= 60_000);
    temporal.isDown = false;
    await until('nothing waits', () => temporal.started.length === 2 && lagMs() === 0);
  });

  test("doesn't count an entry that Temporal has rejected towards the outbox lag", async () => {
    const temporal = createFakeTemporal();
    const reject = async (): Promise<void> => {
      throw new PermanentStartError('never');
    };
    await database.query(
      `insert into outbox (workflow, workflow_id, input, attempts, created_at) values ('a', 'bad', '{}', 8, now() - interval '1 hour')`,
    );
    dispatch(database, { ...temporal, start: reject, pollIntervalMs: 100 });
    await until(
      'the row is postponed',
      async () => (await database.query('select 1 from outbox where next_try_at > now() + $1::interval', ['1 minute'])).length === 1,
    );
    await until('the lag is 0', () => running[0]?.lagMs() === 0);
  });

  test('passes the project and signal of an outbox entry to Temporal', async () => {
    const temporal = createFakeTemporal();
    const projectId = '0198c5f2-7d2e-7000-8000-000000000001';
    const signalled = { ...entry('learning/a'), projectId, signal: { name: 'batchEnded', input: { batch_id: 'b', learned: 3 } } };
    dispatch(database, temporal);
    await put([signalled, entry('conversation/a/1')]);
    await allDelivered();
    expect(temporal.started.find(({ workflowId }) => workflowId === 'learning/a')).toMatchObject(signalled);
    const plain = temporal.started.find(({ workflowId }) => workflowId === 'conversation/a/1') ?? {};
    expect(Object.keys(plain)).not.toContain('signal');
    expect(Object.keys(plain)).not.toContain('projectId');
  });

  test('delivers all outbox entries in order under load and during repeated outages', async () => {
    const temporal = createFakeTemporal();
    dispatch(database, temporal);
    dispatch(other, temporal);
    const written = new Map<string, number>();
    for (let round = 0; round < 30; round++) {
      temporal.isDown = round % 10 >= 5;
      if (round === 20) await running.shift()?.stop();
      const entries = Array.from({ length: 7 }, (_, n) => entry(`conversation/${n}/1`, round));
      for (const { workflowId } of entries) written.set(workflowId, (written.get(workflowId) ?? 0) + 1);
      await put(entries);
    }
    temporal.isDown = false;
    await allDelivered();
    expect(written.size).toBe(7);
    for (const [workflowId, count] of written) {
      const rounds = temporal.started.filter((row) => row.workflowId === workflowId).map(({ input }) => Number(input['opened']));
      expect(rounds).toEqual([...rounds].sort((left, right) => left - right));
      // Delivery is at least once. An outage between a start and the deletion of its row repeats the start.
      expect(new Set(rounds).size).toBe(count);
    }
  });

  test('re-enqueues unfinished work on `reconnect`', async () => {
    const temporal = createFakeTemporal();
    dispatch(database, { ...temporal, pollIntervalMs: 3_600_000 });
    await until('it is connected', () => temporal.repairs === 1);
    running[0]?.reconnect();
    await until('unfinished work is re-enqueued', () => temporal.repairs === 2);
  });

  test('updates schedules again if the Temporal server lacks search attributes', async () => {
    const temporal = createFakeTemporal();
    let [lacking, puts, checks] = [false, 0, 0];
    const schedules = {
      put: async () => {
        puts++;
        lacking = false;
        return true;
      },
      lackAttributes: () => {
        checks++;
        return lacking;
      },
    };
    dispatch(database, { ...temporal, schedules, pollIntervalMs: 10 });
    await until('the table was read several times', () => checks > 5);
    expect(puts).toBe(1);
    lacking = true;
    await until('they are updated', () => puts === 2);
    const before = checks;
    await until('the table was read several times more', () => checks > before + 5);
    expect(puts).toBe(2);
  });

  test('delivers the other outbox entries when Temporal rejects one', async () => {
    const temporal = createFakeTemporal();
    const start: typeof temporal.start = async (row) => {
      if (row.workflowId === 'bad') throw new PermanentStartError('there is no such workflow');
      await temporal.start(row);
    };
    await put([entry('bad'), entry('conversation/a/1')]);
    const rejections: LogLine[] = [];
    const isClaimed = async (attempts: number): Promise<boolean> => {
      const [row] = await database.query<{ attempts: number }>(`select attempts from outbox where workflow_id = 'bad'`);
      return (row?.attempts ?? 0) > attempts;
    };
    // The first attempt, then one that isn't logged, and then the first hourly one. After the first one the row is only
    // postponed by two seconds, so on a busy machine there may be more attempts.
    for (const attempts of [0, 9, 11]) {
      await database.query('update outbox set next_try_at = now(), attempts = $1::integer', [attempts]);
      const lines = dispatch(database, { ...temporal, start });
      await until('the row is claimed', () => isClaimed(attempts));
      // A claimed row isn't due either. Once the dispatcher has stopped, it has postponed the row.
      await running.pop()?.stop();
      const postponed = `select attempts from outbox where next_try_at > now() + interval '1 minute'`;
      if (attempts > 0) expect(await database.query(postponed)).toEqual([{ attempts: attempts + 1 }]);
      rejections.push(...lines.filter(({ level }) => level === 'error'));
    }
    expect(temporal.ids()).toEqual(['conversation/a/1']);
    const rejection = {
      message: 'Temporal rejected the start of a workflow; retrying',
      fields: { workflowId: 'bad', err: { message: 'there is no such workflow' } },
    };
    expect(rejections).toMatchObject([rejection, { ...rejection, fields: { attempts: 12 } }]);
  });

  test('deletes an outbox entry that Temporal has rejected for 30 days', async () => {
    await put([entry('old'), entry('new')]);
    await database.query(`update outbox set attempts = 100, next_try_at = now() + interval '1 hour'`);
    await database.query(`update outbox set created_at = now() - interval '31 days' where workflow_id = 'old'`);
    const { logger, lines } = createTestLog();
    expect(await deleteUndeliverableRows({ database, logger })).toBe(1);
    expect(await database.query('select workflow_id as id from outbox')).toEqual([{ id: 'new' }]);
    expect(lines).toMatchObject([{ level: 'error', fields: { rows: 1, workflowIds: ['old'] } }]);
  });

  test('delivers outbox rows that a dead process had claimed', async () => {
    const temporal = createFakeTemporal();
    await put([entry('conversation/a/1')]);
    await database.query(`update outbox set attempts = 1, next_try_at = now() + interval '1 second'`);
    dispatch(database, { ...temporal, pollIntervalMs: 200 });
    await allDelivered();
    expect(temporal.started).toHaveLength(1);
  });
}

describe('dispatching on the embedded database', () => {
  promises(async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'gateway-outbox-'));
    copyEmbeddedTemplate(dataDir);
    const database = await openEmbeddedDatabase({ dataDir });
    return {
      connections: [database, database],
      close: async () => {
        await database.close();
        await rm(dataDir, { recursive: true });
      },
    };
  });
});

describePostgres('dispatching on PostgreSQL', () => {
  promises(async () => {
    const { url, drop } = await createTestDatabase();
    const connections = [openServerDatabase({ connectionString: url }), openServerDatabase({ connectionString: url })] as const;
    return {
      connections,
      close: async () => {
        await Promise.all(connections.map((connection) => connection.close()));
        await drop();
      },
    };
  });
});
