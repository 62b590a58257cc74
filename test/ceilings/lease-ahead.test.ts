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

  interface Started {
    admit(limits: Limits): Reservation | Promise<Reservation>;
    /** Where the windows start of which quota was leased: a row is visible in the database before the process knows of it. */
    readonly leasedStarts: readonly number[];
  }

  const start = async (clock: ReturnType<typeof clockAt>): Promise<Started> => {
    const leases = createLeaseStore(database());
    const leasedStarts: number[] = [];
    const acquire: LeaseStore['acquire'] = async (request) => {
      const grant = await leases.acquire(request);
      leasedStarts.push(request.counter.start);
      return grant;
    };
    const admission = createAdmission({
      database: database(),
      clock,
      logger: keepingLogger(),
      process: randomUUID(),
      onStoreDown: () => 'refuse',
      leases: { ...leases, acquire },
    });
    running.push(admission);
    await admission.start();
    return {
      admit: (limits) =>
        admission.admit({ limits, limitsReadAt: performance.now(), startedAt: clock.now(), bounds: () => ({ costNanos: 1, tokens: 1 }) }),
      leasedStarts,
    };
  };

  const untilLeasedAhead = ({ leasedStarts }: Started, counters: number): Promise<void> =>
    until(() => leasedStarts.filter((leasedStart) => leasedStart === noon + 60_000).length === counters, 'quota of the next minute');

  test('a key in use needs no statement when the next minute begins', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ calls: 1_000, cost: 1_000, rpm: 1_000, tpm: 1_000 });
    const started = await start(clock);
    (await started.admit(limits)).release();
    clock.move(58_500);
    await untilLeasedAhead(started, 2);
    clock.move(1_500);
    const second = started.admit(limits);
    expect(second).not.toBeInstanceOf(Promise);
    (await second).release();
  });

  test('a key that is not used lately leases nothing of the next minute', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 1_000 });
    const started = await start(clock);
    (await started.admit(limits)).release();
    // The minute is over when the process checks its counters next.
    clock.move(60_500);
    await sleep(1_500);
    expect(started.leasedStarts).toEqual([noon]);
  });

  test('a ceiling that is lowered before the minute begins applies to what is leased ahead', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 100 });
    const started = await start(clock);
    (await started.admit(limits)).release();
    clock.move(58_500);
    await untilLeasedAhead(started, 1);
    clock.move(1_500);
    const lowered = { ...limits, key: limitsOf({ rpm: 2 }).key };
    await started.admit(lowered);
    await started.admit(lowered);
    await expect((async () => started.admit(lowered))()).rejects.toMatchObject({ code: 'tenant_capped' });
  });

  test('another process gets what is leased ahead when it needs it', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 20 });
    const started = await start(clock);
    const elsewhere = await start(clockAt(noon + 60_000));
    (await started.admit(limits)).release();
    clock.move(58_500);
    await untilLeasedAhead(started, 1);
    for (let calls = 0; calls < 20; calls += 1) await elsewhere.admit(limits);
    await expect((async () => elsewhere.admit(limits))()).rejects.toMatchObject({ code: 'tenant_capped' });
  });
});
