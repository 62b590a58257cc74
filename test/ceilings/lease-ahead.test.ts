/** Quota that is leased before a call needs it, so that no call waits for the database at each full minute. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { type Admission, createAdmission } from '../../src/ceilings/admission.ts';
import type { Limits } from '../../src/ceilings/counters.ts';
import { createLeaseStore, type LeaseStore } from '../../src/ceilings/lease-store.ts';
import type { Reservation } from '../../src/ceilings/reservation.ts';
import { describeDatabases } from '../db/databases.ts';
import { clockAt, keepingLogger, noon, until } from '../journal/calls.ts';
import { limitsOf } from './quota-harness.ts';

describeDatabases('quota leased ahead', (database) => {
  const running: Admission[] = [];
  afterEach(() => Promise.all(running.splice(0).map((admission) => admission.stop())));

  const start = async (
    clock: ReturnType<typeof clockAt>,
    leases: LeaseStore,
  ): Promise<(limits: Limits) => Reservation | Promise<Reservation>> => {
    const admission = createAdmission({
      database: database(),
      clock,
      logger: keepingLogger(),
      process: randomUUID(),
      onStoreDown: () => 'refuse',
      leases,
    });
    running.push(admission);
    await admission.start();
    const { admit } = admission;
    return (limits) =>
      admit({ limits, limitsReadAt: performance.now(), startedAt: clock.now(), bounds: () => ({ costNanos: 1, tokens: 1 }) });
  };

  const countLeasedAhead = async ({ projectId }: Limits): Promise<number> => {
    const rows = await database().query(
      `select 1 from limit_leases l join limit_counters c on c.id = l.counter_id
        where c.project_id = $1::uuid and c.window_start = $2::timestamptz and l.amount > 0`,
      [projectId, new Date(noon + 60_000)],
    );
    return rows.length;
  };

  test('a key in use needs no statement when the next minute begins', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ calls: 1_000, cost: 1_000, rpm: 1_000, tpm: 1_000 });
    const admit = await start(clock, createLeaseStore(database()));
    (await admit(limits)).release();
    clock.move(58_500);
    await until(async () => (await countLeasedAhead(limits)) === 2, 'quota of the next minute');
    clock.move(1_500);
    const second = admit(limits);
    expect(second).not.toBeInstanceOf(Promise);
    (await second).release();
  });

  test('a key that is not used lately leases nothing of the next minute', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 1_000 });
    const asked: string[] = [];
    const leases = createLeaseStore(database());
    const admit = await start(clock, {
      ...leases,
      acquire: (request) => {
        asked.push(new Date(request.counter.start).toISOString());
        return leases.acquire(request);
      },
    });
    (await admit(limits)).release();
    // The minute is over when the process checks its counters next.
    clock.move(60_500);
    await sleep(1_500);
    expect(asked).toEqual([new Date(noon).toISOString()]);
  });

  test('a ceiling that is lowered before the minute begins applies to what is leased ahead', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 100 });
    const admit = await start(clock, createLeaseStore(database()));
    (await admit(limits)).release();
    clock.move(58_500);
    await until(async () => (await countLeasedAhead(limits)) === 1, 'quota of the next minute');
    clock.move(1_500);
    const lowered = { ...limits, key: limitsOf({ rpm: 2 }).key };
    await admit(lowered);
    await admit(lowered);
    await expect((async () => admit(lowered))()).rejects.toMatchObject({ code: 'tenant_capped' });
  });

  test('another process gets what is leased ahead when it needs it', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 20 });
    const admit = await start(clock, createLeaseStore(database()));
    const admitElsewhere = await start(clockAt(noon + 60_000), createLeaseStore(database()));
    (await admit(limits)).release();
    clock.move(58_500);
    await until(async () => (await countLeasedAhead(limits)) === 1, 'quota of the next minute');
    for (let calls = 0; calls < 20; calls += 1) await admitElsewhere(limits);
    await expect((async () => admitElsewhere(limits))()).rejects.toMatchObject({ code: 'tenant_capped' });
  });
});
