/**
 * Tests counters and leases in the database, e.g. returning unused quota, deleting expired counters, and calls during a
 * statement that hangs.
 */
import { randomUUID } from 'node:crypto';
import { afterEach, expect, jest, test } from '@jest/globals';
import { deleteExpiredBatch, deleteExpiredCounters } from '../../src/ceilings/expired-counters.ts';
import { createLeaseStore } from '../../src/ceilings/lease-store.ts';
import { newId } from '../../src/core/ids.ts';
import { systemClock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { describeDatabases } from '../db/databases.ts';
import { clockAt, noon, settledCall } from '../journal/calls.ts';
import { eventually } from '../support/gateway.ts';
import { countersIn, createTestProcess, limitsOf, storeAndCount, type TestProcess } from './quota-harness.ts';

describeDatabases('ceiling counters and leases', (database) => {
  let process: TestProcess | null = null;
  afterEach(async () => {
    jest.restoreAllMocks();
    await process?.admission.stop();
  });

  const start = async (given: Database = database(), clock = clockAt(noon)): Promise<TestProcess> => {
    process = createTestProcess({ database: given, clock });
    await process.admission.start();
    return process;
  };

  test('returns unused quota to the database when no calls need it', async () => {
    const limits = limitsOf({ calls: 1_000, cost: 1_000_000 });
    const { admit, settle, store } = await start();
    const [ended, running] = [await admit(limits, { costNanos: 10 }), await admit(limits, { costNanos: 10 })];
    if (!ended || !running) throw new Error('both calls must be admitted');
    settle(ended, { costNanos: 4 });
    await store();
    const leases = async () =>
      (await countersIn(database(), limits.projectId)).map(({ settled, leased, leases }) => [settled, leased, leases]);
    expect(Math.min(...(await leases()).map(([, leased]) => leased ?? 0))).toBeGreaterThan(1);
    const now = performance.now.bind(performance);
    jest.spyOn(performance, 'now').mockImplementation(() => now() + 11_000);
    await eventually(async () =>
      expect(await leases()).toEqual([
        [1, 1, 1],
        [4, 10, 10],
      ]),
    );
    settle(running, { costNanos: 5 });
    await store();
    jest.spyOn(performance, 'now').mockImplementation(() => now() + 22_000);
    await eventually(async () =>
      expect(await leases()).toEqual([
        [2, 0, 0],
        [9, 0, 0],
      ]),
    );
  });

  test("counts usage above a call's estimate only once", async () => {
    const limits = limitsOf({ cost: 1_000, tpm: 1_000 });
    const { admit, settle, store } = await start();
    const spend = async (amount: number): Promise<boolean> => {
      const call = await admit(limits, { costNanos: 10, tokens: 10 });
      if (call) settle(call, { costNanos: amount, tokens: amount });
      return call !== null;
    };
    expect([await spend(500), await spend(450), await spend(10)]).toEqual([true, true, true]);
    await store();
    expect([await spend(35), await spend(100), await spend(1)]).toEqual([true, true, false]);
    await store();
    expect(await spend(1)).toBe(false);
    const counters = await countersIn(database(), limits.projectId);
    expect(counters.map(({ settled, rows, leased }) => [settled, rows, leased])).toEqual([
      [1_095, 1_095, 0],
      [1_095, 1_095, 0],
    ]);
  });

  test('counts a call once even if it ran before the process had a quota lease', async () => {
    const limits = limitsOf({ tpm: 1_000 });
    const { admit, settle, store } = await start();
    const call = await admit(limits, { tokens: 0 });
    if (call) settle(call, { tokens: 400 });
    await store();
    expect(await admit(limits, { tokens: 300 })).not.toBeNull();
    expect(await admit(limits, { tokens: 300 })).not.toBeNull();
    expect(await admit(limits, { tokens: 1 })).toBeNull();
  });

  test('keeps database connections free while the counters of one project are locked', async () => {
    const separate = database().separate?.({ name: 'status', maxConnections: 4, statementTimeoutMs: 5_000 });
    if (!separate) return; // The embedded database has a single session.
    const leases = createLeaseStore(separate);
    const processId = randomUUID();
    const acquire = (projectId: string) =>
      leases.acquire({
        ...{ process: processId, generation: 1, isLeaseExpected: false, takesRemainder: false },
        ...{ limit: 10, need: 5, demand: 5, defaultGrant: 5 },
        counter: { projectId, scope: 'key', scopeId: randomUUID(), ceiling: 'calls', window: 'month', start: noon, end: noon + 1_000 },
      });
    const [locked, other] = [randomUUID(), randomUUID()];
    const grants = [];
    for (let count = 0; count < 5; count += 1) grants.push(await acquire(locked));
    const keys = grants.map((grant) => ({ projectId: locked, process: processId, counterId: grant?.counterId ?? 0, generation: 1 }));
    const returned = await database().transaction(async (tx) => {
      await tx.query('select 1 from limit_counters where project_id = $1::uuid for update', [locked]);
      const waiting = keys.map((key, index) =>
        [() => leases.release(key, 5), () => leases.remove(key), () => leases.reconcile(key, 0, 0), () => leases.requestReturn(key)][
          index % 4
        ]?.(),
      );
      expect(await acquire(other)).toMatchObject({ granted: 5 });
      return waiting;
    });
    await Promise.all(returned);
    expect((await countersIn(database(), locked)).map(({ leased }) => leased).toSorted()).toEqual([0, 0, 0, 0, 5]);
  });

  test('keeps database connections free while the counters of many projects are locked', async () => {
    const separate = database().separate?.({ name: 'admission', maxConnections: 4, statementTimeoutMs: 5_000 });
    if (!separate) return;
    const leases = createLeaseStore(separate);
    const acquire = (projectId: string, scopeId = projectId) =>
      leases.acquire({
        ...{ process: randomUUID(), generation: 1, isLeaseExpected: false, takesRemainder: false },
        ...{ limit: 10, need: 5, demand: 5, defaultGrant: 5 },
        counter: { projectId, scope: 'key', scopeId, ceiling: 'calls', window: 'month', start: noon, end: noon + 1_000 },
      });
    const locked = Array.from({ length: 4 }, () => randomUUID());
    for (const projectId of locked) await acquire(projectId);
    const refused = await database().transaction(async (tx) => {
      await tx.query('select 1 from limit_counters where project_id = any($1::uuid[]) for update', [locked]);
      const waiting = Promise.allSettled(locked.map((projectId) => acquire(projectId)));
      expect(await acquire(randomUUID())).toMatchObject({ granted: 5 });
      return waiting;
    });
    expect((await refused).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'rejected']);
  });

  test("releases the quota of a call that can't be stored", async () => {
    const limits = limitsOf({ calls: 1 });
    const { admission, admit, settle, journal } = await start();
    const call = await admit(limits);
    if (!call) throw new Error('the call must be admitted');
    settle(call);
    expect(await admit(limits)).toBeNull();
    for (const unstored of journal()) admission.revert(unstored);
    expect(await admit(limits)).not.toBeNull();
  });

  test("doesn't count an exempt call towards the calls ceiling", async () => {
    const limits = limitsOf({ calls: 10, cost: 1_000_000, rpm: 10 });
    const { projectId, keyId, source } = limits;
    const slotless = () =>
      settledCall({
        metadata: { id: newId(noon), startedAt: noon, projectId, keyId, source, takesNoSlot: true },
        result: { costNanos: 5 },
      });
    const counted = async () => (await countersIn(database(), projectId)).map(({ ceiling, settled }) => [ceiling, settled]);
    await storeAndCount(database(), [slotless()]);
    const { admit } = await start();
    const running = await admit(limits, { costNanos: 10 });
    expect(await counted()).toEqual([
      ['calls', 0],
      ['cost', 5],
      ['rpm', 1],
    ]);
    await storeAndCount(database(), [slotless()]);
    expect(await counted()).toEqual([
      ['calls', 0],
      ['cost', 10],
      ['rpm', 2],
    ]);
    running?.reservation.release();
  });

  test('deletes ceiling counters of past minutes and days', async () => {
    const clock = clockAt(noon);
    const projectId = randomUUID();
    await database().query(
      `insert into limit_counters (project_id, holder, holder_id, ceiling, window_kind, window_start, window_end, settled)
       select $1::uuid, 'key', n::text, 'calls', kind.name, $2::timestamptz - kind.age, $2::timestamptz - kind.age + kind.length, 0
         from generate_series(1, 350) as n,
              (values ('minute', interval '3 hours', interval '1 minute'), ('day', interval '3 days', interval '1 day'),
                      ('month', interval '60 days', interval '30 days'), ('minute', interval '30 minutes', interval '1 minute'))
              as kind (name, age, length)`,
      [projectId, new Date(noon)],
    );
    const { admit } = await start(database(), clock);
    const limits = limitsOf({ calls: 10 });
    expect(await admit(limits)).not.toBeNull();
    clock.move(61_000);
    await eventually(async () => {
      const remaining = await database().query<{ kind: string; count: number }>(
        `select window_kind as kind, count(*) as count from limit_counters where project_id = $1::uuid group by 1 order by 1`,
        [projectId],
      );
      expect(remaining).toEqual([
        { kind: 'minute', count: 350 },
        { kind: 'month', count: 350 },
      ]);
    });
    await database().query(
      `insert into limit_counters (project_id, holder, holder_id, ceiling, window_kind, window_start, window_end, settled)
       select $1::uuid, 'project', '', 'cost', kind.name, '2026-11-01Z', kind.ends::timestamptz, 7
         from (values ('month', '2026-12-01Z'), ('total', null)) as kind (name, ends)`,
      [projectId],
    );
    const countRemaining = async (): Promise<object[]> => {
      for (let deleted = 1; deleted > 0; ) deleted = await deleteExpiredBatch(database(), clock);
      return database().query(
        `select window_kind as kind, count(*) as count from limit_counters where project_id = $1::uuid group by 1 order by 1`,
        [projectId],
      );
    };
    const lasting = [
      { kind: 'month', count: 1 },
      { kind: 'total', count: 1 },
    ];
    expect(await countRemaining()).toEqual([{ kind: 'minute', count: 350 }, ...lasting]);
    clock.move(86_400_000);
    expect(await countRemaining()).toEqual(lasting);
  });

  test('keeps the counter of a ceiling that never resets', async () => {
    const limits = limitsOf({ calls: 10 }, { window: 'total' });
    const { admit } = await start(database(), clockAt(noon));
    expect(await admit(limits)).not.toBeNull();
    const later = clockAt(noon + 10 * 365 * 86_400_000);
    await deleteExpiredCounters(database(), later);
    for (let deleted = 1; deleted > 0; ) deleted = await deleteExpiredBatch(database(), later);
    expect(await countersIn(database(), limits.projectId)).toHaveLength(1);
  });

  test("doesn't delete current ceiling counters if the host's clock is days ahead", async () => {
    const limits = limitsOf({ rpm: 10 });
    const { admit } = await start(database(), clockAt(systemClock.now()));
    await admit(limits);
    const ahead = { now: () => systemClock.now() + 2 * 86_400_000 };
    await deleteExpiredCounters(database(), ahead);
    await deleteExpiredBatch(database(), ahead);
    expect(await countersIn(database(), limits.projectId)).toHaveLength(1);
  });

  test("keeps admitting calls for other keys while one key's lease query hangs", async () => {
    let release = (): void => undefined;
    let hangs = true;
    const given = database();
    const hanging: Database = {
      ...given,
      kind: 'server',
      query(text, values) {
        if (!hangs || !text.includes('insert into limit_leases')) return given.query(text, values);
        hangs = false;
        return new Promise<void>((done) => {
          release = done;
        }).then(() => given.query(text, values));
      },
    };
    const [stuck, other] = [limitsOf({ calls: 50 }), limitsOf({ calls: 5 })];
    const { admit } = await start(hanging);
    // Waits until the statement is treated as stalled.
    expect((await admit(stuck))?.reservation.isUnmetered).toBe(true);
    expect((await admit(other))?.reservation.isUnmetered).toBe(false);
    expect((await admit(stuck))?.reservation.isUnmetered).toBe(true);
    release();
    await eventually(async () => expect((await admit(stuck))?.reservation.isUnmetered).toBe(false));
  });
});
