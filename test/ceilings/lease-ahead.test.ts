/**
 * Tests that quota is leased before a call needs it, so that calls don't have to wait for the database at the start of
 * each minute.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { type Admission, createAdmission } from '../../src/ceilings/admission.ts';
import { countersFor, type Limits } from '../../src/ceilings/counters.ts';
import { createLeaseStore, type LeaseStore } from '../../src/ceilings/lease-store.ts';
import type { Reservation } from '../../src/ceilings/reservation.ts';
import type { Database } from '../../src/db/database.ts';
import { describeAnyDatabase } from '../db/databases.ts';
import { clockAt, keepingLogger, noon } from '../journal/calls.ts';
import { until } from '../support/until.ts';
import { limitsOf } from './quota-harness.ts';

describeAnyDatabase('quota leased ahead of time', (database) => {
  const running: Admission[] = [];
  let returned = Promise.withResolvers<void>();
  beforeEach(() => {
    returned = Promise.withResolvers();
  });
  afterEach(() => Promise.all(running.splice(0).map((admission) => admission.stop())));

  interface Started {
    admit(limits: Limits): Reservation | Promise<Reservation>;
    /**
     * The window starts for which quota was leased. A row is visible in the database before the process knows about it.
     */
    readonly leasedStarts: readonly number[];
  }

  /** With `isDelayed`, no response about the next minute arrives before another process asks for quota. */
  const start = async (clock: ReturnType<typeof clockAt>, { isDelayed = false } = {}): Promise<Started> => {
    const leases = createLeaseStore(database());
    const leasedStarts: number[] = [];
    const asked = Promise.withResolvers<void>();
    const acquire: LeaseStore['acquire'] = async (request) => {
      const grant = await leases.acquire(request);
      leasedStarts.push(request.counter.start);
      if (isDelayed && request.counter.start > noon) await asked.promise;
      return grant;
    };
    const listen: Database['listen'] = (channel, onPayload, onReconnect) => {
      const onRequest = (payload: string): void => {
        onPayload(payload);
        asked.resolve();
      };
      return database().listen(channel, onRequest, onReconnect);
    };
    const release: LeaseStore['release'] = async (...released) => {
      await leases.release(...released);
      returned.resolve();
    };
    // A busy machine may take longer to return quota than a process waits for it.
    const requestReturn: LeaseStore['requestReturn'] = async (key) => {
      await leases.requestReturn(key);
      await Promise.race([returned.promise, sleep(1_000, undefined, { ref: false })]);
    };
    const admission = createAdmission({
      database: { ...database(), listen },
      clock,
      logger: keepingLogger(),
      process: randomUUID(),
      onStoreDown: () => 'refuse',
      leases: { ...leases, acquire, release, requestReturn },
    });
    running.push(admission);
    await admission.start();
    return {
      admit: (limits) => admission.admit({ limits, startedAt: clock.now(), bounds: () => ({ costNanos: 1, tokens: 1 }) }),
      leasedStarts,
    };
  };

  const untilLeasedAhead = ({ leasedStarts }: Started, counters: number): Promise<void> =>
    until('quota of the next minute', () => leasedStarts.filter((leasedStart) => leasedStart === noon + 60_000).length === counters);

  test('leases quota for the next minute in advance if a key is in use', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ calls: 1_000, cost: 1_000, rpm: 1_000, tpm: 1_000 });
    const started = await start(clock);
    (await started.admit(limits)).release();
    clock.move(58_500);
    await untilLeasedAhead(started, 2);
    clock.move(1_500);
    const leased = started.leasedStarts.length;
    (await started.admit(limits)).release();
    expect(started.leasedStarts).toHaveLength(leased);
  });

  test("doesn't lease quota in advance for a key that hasn't been used recently", async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 1_000 });
    const started = await start(clock);
    (await started.admit(limits)).release();
    // The minute is over when the process checks its counters the next time.
    clock.move(60_500);
    await sleep(1_500);
    expect(started.leasedStarts).toEqual([noon]);
  });

  test('enforces a lowered rpm ceiling even if quota for the minute was already leased', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 100 });
    const started = await start(clock);
    (await started.admit(limits)).release();
    clock.move(58_500);
    await untilLeasedAhead(started, 1);
    clock.move(1_500);
    const { projectId, keyId } = limits;
    const lowered = limitsOf({ rpm: 2 }, { projectId, keyId });
    await started.admit(lowered);
    await started.admit(lowered);
    await expect((async () => started.admit(lowered))()).rejects.toMatchObject({ code: 'tenant_capped' });
  });

  const admitAll = async (process: Started, limits: Limits, calls: number): Promise<void> => {
    for (let call = 0; call < calls; call += 1) await process.admit(limits);
    await expect((async () => process.admit(limits))()).rejects.toMatchObject({ code: 'tenant_capped' });
  };

  test.each([false, true])('returns quota that was leased in advance if another process needs it (delayed: %s)', async (isDelayed) => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 20 });
    const slow = await start(clock, { isDelayed });
    const fast = await start(clockAt(noon + 60_000));
    (await slow.admit(limits)).release();
    clock.move(58_500);
    await untilLeasedAhead(slow, 1);
    await admitAll(fast, limits, 20);
  });

  test("leaves a minute's remaining quota to a process whose clock is behind", async () => {
    const clock = clockAt(noon + 57_000);
    const limits = limitsOf({ rpm: 20 });
    const fast = await start(clock);
    const slow = await start(clockAt(noon + 57_000));
    (await fast.admit(limits)).release();
    clock.move(4_000);
    // Gives the process time to check its counters.
    await sleep(1_500);
    await admitAll(slow, limits, 20);
  });

  test("doesn't lease quota in advance while another process is waiting for it", async () => {
    const limits = limitsOf({ rpm: 20 });
    const [counter] = countersFor(limits, noon);
    if (!counter) throw new Error('no counter');
    const leases = createLeaseStore(database());
    const wanted = {
      generation: 1,
      isLeaseExpected: false,
      counter: counter.key,
      limit: 20,
      need: 1,
      defaultGrant: 2,
      takesRemainder: false,
    };
    const [slow, fast] = [randomUUID(), randomUUID()];
    const lease = await leases.acquire({ ...wanted, process: fast, demand: 1 });
    await leases.requestReturn({ projectId: limits.projectId, process: fast, counterId: lease?.counterId ?? 0, generation: 1 });
    const granted = async (process: string, demand: number) => (await leases.acquire({ ...wanted, process, demand }))?.granted;
    expect([await granted(slow, 0), await granted(slow, 1), await granted(fast, 0)]).toEqual([0, 1, 1]);
  });
});
