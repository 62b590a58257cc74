/**
 * A long random run on a real database. After each settlement, usage and reservations can't exceed the ceiling by more
 * than one call.
 */
import { expect, test } from '@jest/globals';
import { describeAnyDatabase } from '../db/databases.ts';
import { clockAt, noon } from '../journal/calls.ts';
import {
  eachCallIsCountedOnce,
  grantedIsWithinLimit,
  outstandingIsGrantedMinusReturned,
  useIsWithinCeiling,
} from '../simulation/invariants.ts';
import { countersIn, createTestProcess, limitsOf, type RunningCall } from './quota-harness.ts';

/** A seeded generator that makes a run reproducible. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const calls = 5_000;
const ceilings = { cost: 900_000, tpm: 800_000 };

describeAnyDatabase('5,000 calls of random size', (database) => {
  test('never overshoots cost and tpm ceilings by more than one call', async () => {
    const random = randomFrom(7);
    const clock = clockAt(noon);
    const limits = limitsOf(ceilings);
    const process = createTestProcess({ database: database(), clock });
    await process.admission.start();
    const running: { call: RunningCall; bound: number }[] = [];
    let settled = 0;
    let reserved = 0;
    let largestExcess = 0;
    let refused = 0;
    try {
      for (let n = 0; n < calls; n += 1) {
        const bound = 1 + random(1_000);
        const call = await process.admit(limits, { costNanos: bound, tokens: bound });
        if (call) {
          running.push({ call, bound });
          reserved += bound;
        } else refused += 1;
        while (running.length > (call ? random(60) : 0)) {
          const [ended] = running.splice(random(running.length), 1);
          if (!ended) break;
          // One in a hundred responses exceeds its upper bound.
          const spent = random(100) === 0 ? ended.bound + random(400) : random(ended.bound + 1);
          process.settle(ended.call, { costNanos: spent, tokens: spent });
          largestExcess = Math.max(largestExcess, spent - ended.bound);
          settled += spent;
          reserved -= ended.bound;
          // An oversized call reserves less than its bound, so this sum exceeds the real reservations by at most one
          // bound.
          const limit = Math.min(ceilings.cost, ceilings.tpm);
          useIsWithinCeiling({ name: 'cost and tpm', limit, settled, reserved, excess: 1_000 + largestExcess });
        }
        if (n % 97 === 0) await process.store();
      }
      for (const { call } of running) process.settle(call, { costNanos: 3, tokens: 3 });
      await process.store();
    } finally {
      await process.admission.stop();
    }
    expect(refused).toBeGreaterThan(0);
    const rows = await countersIn(database(), limits.projectId);
    expect(rows.map(({ ceiling }) => ceiling).toSorted()).toEqual(['cost', 'tpm']);
    for (const row of rows) {
      const { ceiling: name, settled: counted, leased, leases, rows: usage } = row;
      const counter = { name, settled: counted, leased, leases: [leases], usage };
      eachCallIsCountedOnce(counter);
      outstandingIsGrantedMinusReturned(counter);
      grantedIsWithinLimit(counter, ceilings[name as keyof typeof ceilings], 1_000 + largestExcess);
    }
  });
});
