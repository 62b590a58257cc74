/** Tests how many unmetered calls are allowed while PostgreSQL is unreachable, and which setting decides if any are. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { countersFor, type Limits } from '../../src/ceilings/counters.ts';
import { createUnmeteredQuotas } from '../../src/ceilings/unmetered-quotas.ts';
import type { StoreDownPolicy } from '../../src/core/windows.ts';
import type { Database } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { clockAt, noon } from '../journal/calls.ts';
import { createFaultProxy, type FaultProxy } from '../support/fault-proxy.ts';
import { createTestDatabase, describePostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { type Bounds, countersIn, createTestProcess, limitsOf, type RunningCall, type TestProcess } from './quota-harness.ts';

describePostgres('admission while the database is unavailable', () => {
  let network: FaultProxy;
  let database: Database;
  let drop: () => Promise<void>;
  const processes: TestProcess[] = [];

  beforeAll(async () => {
    const created = await createTestDatabase();
    drop = created.drop;
    network = await createFaultProxy(created.url);
    await network.connect();
    database = openServerDatabase({ connectionString: network.url, maxConnections: 4 });
    await migrate(database);
  });
  beforeEach(() => network.connect().catch(() => undefined));
  afterAll(async () => {
    await Promise.all(processes.map(({ admission }) => admission.stop()));
    await database.close();
    await network.sever();
    await drop();
  });

  const start = (onStoreDown: StoreDownPolicy = 'allow', clock = clockAt(noon)): TestProcess => {
    const process = createTestProcess({ database, clock, onStoreDown });
    processes.push(process);
    return process;
  };

  /** Resolves to null if the call is refused because its ceilings can't be checked. */
  const admit = (process: TestProcess, limits: Limits, bounds?: Bounds, startedAt?: number): Promise<RunningCall | null> =>
    process.admit(limits, bounds, startedAt).catch((error: unknown) => {
      expect(error).toMatchObject({ code: 'budget_unavailable' });
      return null;
    });
  const admitMany = async (process: TestProcess, limits: Limits, bounds: Bounds, count: number): Promise<RunningCall[]> =>
    (await Promise.all(Array.from({ length: count }, () => admit(process, limits, bounds)))).flatMap((call) => call ?? []);

  describe('with unmetered calls allowed', () => {
    test('admits a tenth of the calls ceiling during a database outage, even if all calls arrive at once', async () => {
      const process = start();
      const limits = limitsOf({ calls: 600 });
      await network.sever();
      const running = await admitMany(process, limits, {}, 500);
      expect(running).toHaveLength(60);
      expect(running.every(({ reservation }) => reservation.isUnmetered)).toBe(true);
      for (const call of running) process.settle(call);
      expect(await admit(process, limits)).toBeNull();
      await network.connect();
      await until('the store recovers', () => isMetered(process, limits));
      await process.store();
      const [counter] = await countersIn(database, limits.projectId);
      expect(counter).toMatchObject({ settled: 60, rows: 60 });
    });

    test('admits calls worth up to a tenth of the cost ceiling during a database outage', async () => {
      const process = start();
      const limits = limitsOf({ cost: 1_000_000 });
      await network.sever();
      const running = await admitMany(process, limits, { costNanos: 30_000 }, 20);
      expect(running).toHaveLength(3);
      for (const call of running) process.settle(call, { costNanos: 10_000 });
      const further = await admitMany(process, limits, { costNanos: 30_000 }, 20);
      expect(further).toHaveLength(2);
      further[0]?.reservation.release();
      expect(await admitMany(process, limits, { costNanos: 30_000 }, 20)).toHaveLength(1);
    });

    test('admits only one call that costs more than the share allowed during an outage', async () => {
      const process = start();
      const limits = limitsOf({ cost: 1_000_000 });
      await network.sever();
      const [first, ...others] = await admitMany(process, limits, { costNanos: 5_000_000 }, 20);
      expect(others).toEqual([]);
      if (!first) throw new Error('no call was admitted');
      process.settle(first, { costNanos: 400_000 });
      expect(await admitMany(process, limits, { costNanos: 1 }, 20)).toEqual([]);
    });

    test("doesn't let recalled memories raise the cost above the share allowed during an outage", async () => {
      const process = start();
      const limits = limitsOf({ cost: 1_000_000 });
      await network.sever();
      const [first] = await admitMany(process, limits, { costNanos: 60_000 }, 1);
      expect(await first?.reservation.extend(() => ({ costNanos: 90_000, tokens: 0 }))).toBe(true);
      expect(await first?.reservation.extend(() => ({ costNanos: 120_000, tokens: 0 }))).toBe(false);
      expect(await admit(process, limits, { costNanos: 20_000 })).toBeNull();
      expect(await admit(process, limits, { costNanos: 10_000 })).not.toBeNull();
    });

    test('enforces the full rpm ceiling during a database outage', async () => {
      const clock = clockAt(noon);
      const process = start('allow', clock);
      const limits = limitsOf({ rpm: 7 });
      await network.sever();
      expect(await admitMany(process, limits, {}, 50)).toHaveLength(7);
      clock.move(60_000);
      expect(await admitMany(process, limits, {}, 50)).toHaveLength(7);
    });

    test('admits a total of one tenth of a ceiling during two outages in the same window', async () => {
      const process = start();
      const limits = limitsOf({ calls: 100 }, { window: 'total' });
      await network.sever();
      for (const call of await admitMany(process, limits, {}, 6)) process.settle(call);
      await network.connect();
      await until('the store recovers', () => isMetered(process, limits));
      await network.sever();
      const unmetered = (await admitMany(process, limits, {}, 200)).filter(({ reservation }) => reservation.isUnmetered);
      expect(unmetered).toHaveLength(4);
    });

    test.each([0, 1])('admits exactly as many calls as a ceiling of %d allows', async (calls) => {
      const process = start();
      await network.sever();
      expect(await admitMany(process, limitsOf({ calls }), {}, 20)).toHaveLength(calls);
    });
  });

  test.each<[deployment: StoreDownPolicy, project: StoreDownPolicy | null, key: StoreDownPolicy | null, expected: StoreDownPolicy]>([
    ['allow', null, null, 'allow'],
    ['refuse', null, null, 'refuse'],
    ['allow', 'refuse', null, 'refuse'],
    ['refuse', 'allow', null, 'allow'],
    ['allow', 'allow', 'refuse', 'refuse'],
    ['refuse', 'refuse', 'allow', 'allow'],
  ])(
    'during an outage, deployment policy %s, project policy %s and key policy %s result in %s',
    async (deployment, ofProject, ofKey, expected) => {
      const process = start(deployment);
      const limits = { ...limitsOf({ calls: 1_000 }, { project: { onBudgetStoreDown: ofProject } }), onBudgetStoreDown: ofKey };
      await network.sever();
      expect((await admit(process, limits)) === null ? 'refuse' : 'allow').toBe(expected);
      expect(process.admission.uncheckedRefusals()).toEqual({ policy: expected === 'refuse' ? 1 : 0, exhausted: 0 });
    },
  );

  test('stays ready during an outage if only one key is configured to refuse calls', async () => {
    const process = start('allow');
    const limits = { ...limitsOf({ calls: 1_000 }), onBudgetStoreDown: 'refuse' as const };
    await network.sever();
    expect(await admitMany(process, limits, {}, 20)).toEqual([]);
    expect(process.admission.isRefusing()).toBe(false);
  });
});

/** Admits a call and tells whether its ceilings were checked in the database again. */
async function isMetered(process: TestProcess, limits: Limits): Promise<boolean> {
  const call = await process.admit(limits).catch(() => null);
  call?.reservation.release();
  return call?.reservation.isUnmetered === false;
}

test.each([
  ['day', 86_400_000, false],
  ['day', 86_400_000 + 1, true],
  ['total', 10 * 365 * 86_400_000, false],
] as const)('renews the share of unmetered calls of a %s window after %d ms: %p', (window, elapsedMs, isRenewed) => {
  const quotas = createUnmeteredQuotas({ warn: () => undefined });
  const midnight = Math.floor(noon / 86_400_000) * 86_400_000;
  const [counter] = countersFor(limitsOf({ calls: 10 }, { window }), midnight);
  if (!counter) throw new Error('the key has a ceiling');
  quotas.quotaFor(counter).reserve(1, counter);
  quotas.deleteEnded(midnight + elapsedMs);
  expect(quotas.quotaFor(counter).reserve(1, counter).kind).toBe(isRenewed ? 'granted' : 'denied');
});
