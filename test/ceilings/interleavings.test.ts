/**
 * Tests local quota and SQL together. Several processes admit, extend, settle, store, kill, recover and revoke in
 * random order.
 */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Database } from '../../src/db/database.ts';
import { describeAnyDatabase, describeDatabases } from '../db/databases.ts';
import { clockAt, noon } from '../journal/calls.ts';
import { eachCallIsCountedOnce, grantedIsWithinLimit, outstandingIsGrantedMinusReturned } from '../simulation/invariants.ts';
import { until } from '../support/until.ts';
import {
  type CounterRow,
  countersIn,
  createTestProcess,
  limitsOf,
  type RunningCall,
  storeAndCount,
  type TestProcess,
} from './quota-harness.ts';

const ceilings = { calls: 25, cost: 4_000, rpm: 20, tpm: 3_000 };

const step = fc.record({
  kind: fc.constantFrom('admit', 'admit', 'admit', 'settle', 'settle', 'store', 'kill', 'revoke', 'check'),
  process: fc.nat(2),
  amount: fc.integer({ min: 0, max: 700 }),
  /** The usage of the call in percent of its bound. */
  share: fc.integer({ min: 0, max: 130 }),
});

describeAnyDatabase('admission under random interleavings', (database) => {
  test('exceeds a ceiling by at most what running calls use beyond their reservations and what dead processes reserved', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 120 }), async (steps) => {
        const clock = clockAt(noon);
        const limits = limitsOf(ceilings);
        const start = async (): Promise<{ process: TestProcess; running: RunningCall[]; bounds: number[] }> => {
          const process = createTestProcess({ database: database(), clock });
          await process.admission.start();
          return { process, running: [], bounds: [] };
        };
        const all = [await start(), await start(), await start()];
        const dead: TestProcess[] = [];
        /** Usage beyond bounds, plus reservations of processes whose leases were revoked. */
        const excess = { calls: 0, amount: 0 };
        const pending: Promise<unknown>[] = [];
        try {
          for (const { kind, process: index, amount, share } of steps) {
            const one = all[index];
            if (!one) continue;
            const { process, running, bounds } = one;
            switch (kind) {
              case 'admit': {
                const call = process.admit(limits, { costNanos: amount, tokens: amount });
                // We await every other admission, and the rest overlap.
                const noted = call.then(async (admitted) => {
                  if (!admitted) return;
                  // Every third call is extended.
                  const larger = Math.min(700, amount * 2);
                  const grows = share % 3 === 0 && (await admitted.reservation.extend(() => ({ costNanos: larger, tokens: larger })));
                  running.push(admitted);
                  bounds.push(grows ? larger : amount);
                });
                if (share % 2 === 0) await noted;
                else pending.push(noted);
                break;
              }
              case 'settle': {
                const call = running.shift();
                const bound = bounds.shift() ?? 0;
                if (!call) break;
                const spent = Math.round((bound * share) / 100);
                excess.amount += Math.max(0, spent - bound);
                process.settle(call, { costNanos: spent, tokens: spent });
                break;
              }
              case 'store':
                await process.store();
                break;
              case 'kill': {
                await Promise.all(pending.splice(0));
                // Settled calls are in its journal, and recovery settles running ones as unknown.
                for (const call of running) process.settle(call, { costNanos: 10, tokens: 10 });
                const unstored = process.journal();
                // This process returns no quota.
                dead.push(process);
                await storeAndCount(database(), unstored);
                await storeAndCount(database(), unstored);
                await process.admission.leases.revokeAll(process.id);
                all[index] = await start();
                break;
              }
              case 'revoke': {
                // An operator considers the process dead, but it was only cut off and continues.
                await Promise.all(pending.splice(0));
                await process.admission.leases.revokeAll(process.id);
                process.admission.verifyLeases();
                const unstored = process.journal();
                excess.calls += running.length + unstored.length;
                excess.amount += bounds.reduce((sum, bound) => sum + bound, 0);
                excess.amount += unstored.reduce((sum, { result }) => sum + (result.costNanos ?? 0), 0);
                break;
              }
              case 'check':
                expectSound(await countersIn(database(), limits.projectId), excess);
            }
          }
          await Promise.all(pending);
          for (const { process, running } of all) {
            for (const call of running) process.settle(call, { costNanos: 10, tokens: 10 });
            await process.store();
          }
          expectSound(await countersIn(database(), limits.projectId), excess);
        } finally {
          for (const process of [...dead, ...all.map((one) => one.process)]) {
            await process.admission.stop();
            await process.admission.leases.revokeAll(process.id);
          }
        }
        const rows = await countersIn(database(), limits.projectId);
        expect(rows.map(({ leased, leases }) => [leased, leases])).toEqual(rows.map(() => [0, 0]));
      }),
      { numRuns: 12, seed: 5 },
    );
  });
});

/** An oversized call may reserve less than its bound, so its usage within the bound may exceed the ceiling too. */
function expectSound(rows: readonly CounterRow[], excess: { readonly calls: number; readonly amount: number }): void {
  for (const { ceiling, settled, leased, leases, rows: usage } of rows) {
    const counter = { name: ceiling, settled, leased, leases: [leases], usage };
    eachCallIsCountedOnce(counter);
    outstandingIsGrantedMinusReturned(counter);
    grantedIsWithinLimit(counter, ceilings[ceiling], ceiling === 'calls' || ceiling === 'rpm' ? excess.calls : excess.amount + 700);
  }
}

describeAnyDatabase('quota that another process has already used', (database) => {
  test('stores settled usage immediately if another process needs the remaining quota', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ cost: 1_000 });
    let requests = 0;
    const one: TestProcess = createTestProcess({
      database: database(),
      clock,
      onQuotaRequested() {
        requests += 1;
        void one.store();
      },
    });
    const other = createTestProcess({ database: database(), clock });
    try {
      await Promise.all([one.admission.start(), other.admission.start()]);
      const settled = await one.admit(limits, { costNanos: 600 });
      if (settled) one.settle(settled, { costNanos: 600 });
      // While the usage is part of a lease, it counts as quota that another process may still return. The other process
      // refuses a call if that takes too long, which happens on a busy machine.
      await until('the call is admitted', async () => (await other.admit(limits, { costNanos: 500 })) !== null);
      expect([requests > 0, one.journal()]).toEqual([true, []]);
    } finally {
      await Promise.all([one.admission.stop(), other.admission.stop()]);
    }
  });
});

describeDatabases('eight processes that receive no notifications', (database) => {
  test('admits exactly as many calls as the rpm ceiling allows, even if idle processes hold the quota', async () => {
    const clock = clockAt(noon);
    const limits = limitsOf({ rpm: 10 });
    const withoutNotifications: Database = {
      ...database(),
      async listen(_channel, _onPayload, onReconnect) {
        onReconnect?.();
        return { stop: async () => undefined };
      },
    };
    const processes = Array.from({ length: 8 }, () => createTestProcess({ database: withoutNotifications, clock }));
    try {
      await Promise.all(processes.map(({ admission }) => admission.start()));
      for (const process of processes) (await process.admit(limits))?.reservation.release();
      const [first, second] = processes;
      // Two processes need the quota that the other six hold.
      const admitted: (RunningCall | null)[] = [];
      for (let n = 0; n < 10; n += 1) admitted.push((await (n % 2 === 0 ? first : second)?.admit(limits)) ?? null);
      expect(admitted.map((call) => call !== null)).toEqual(Array.from({ length: 10 }, () => true));
      for (const call of admitted) call?.reservation.release();
      const inTurn: boolean[] = [];
      for (let n = 0; n < 10; n += 1) inTurn.push((await processes[n % 8]?.admit(limits)) !== null);
      expect(inTurn).toEqual(Array.from({ length: 10 }, () => true));
      for (const process of processes) expect(await process.admit(limits)).toBeNull();
    } finally {
      await Promise.all(processes.map(({ admission }) => admission.stop()));
    }
  });
});
