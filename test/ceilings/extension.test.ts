/** Tests reservations of calls that become longer after admission, because recalled memories are added. */
import { afterEach, expect, test } from '@jest/globals';
import { describeAnyDatabase } from '../db/databases.ts';
import { clockAt, noon } from '../journal/calls.ts';
import { countersIn, createTestProcess, limitsOf, type TestProcess } from './quota-harness.ts';

describeAnyDatabase('extending the reservation of a running call', (database) => {
  let process: TestProcess | null = null;
  afterEach(async () => process?.admission.stop());

  const start = async (): Promise<TestProcess> => {
    process = createTestProcess({ database: database(), clock: clockAt(noon) });
    await process.admission.start();
    return process;
  };

  test('settles the full amount of an extended reservation', async () => {
    const limits = limitsOf({ cost: 1_000, tpm: 1_000 });
    const { admit, settle, store } = await start();
    const call = await admit(limits, { costNanos: 100, tokens: 100 });
    if (!call) throw new Error('the call must be admitted');
    expect(await call.reservation.extend(() => ({ costNanos: 1_000, tokens: 1_000 }))).toBe(true);
    const [large, small] = [admit(limits, { costNanos: 900, tokens: 900 }), admit(limits, { costNanos: 200, tokens: 200 })];
    settle(call, { costNanos: 800, tokens: 800 });
    expect(await large).toBeNull();
    expect(await small).not.toBeNull();
    await store();
    const rows = await countersIn(database(), limits.projectId);
    expect(rows.map(({ settled, leased }) => [settled, leased])).toEqual([
      [800, 200],
      [800, 200],
    ]);
  });

  test('leaves a reservation unchanged if any ceiling denies its extension', async () => {
    const limits = limitsOf({ cost: 1_000, tpm: 500 });
    const { admit, settle } = await start();
    const call = await admit(limits, { costNanos: 100, tokens: 100 });
    if (!call) throw new Error('the call must be admitted');
    expect(await call.reservation.extend(() => ({ costNanos: 400, tokens: 600 }))).toBe(false);
    expect(await call.reservation.extend(() => ({ costNanos: 300, tokens: 300 }))).toBe(true);
    expect(await call.reservation.extend(() => ({ costNanos: 200, tokens: 200 }))).toBe(true);
    const other = await admit(limits, { costNanos: 700, tokens: 200 });
    expect(other).not.toBeNull();
    expect(await admit(limits, { costNanos: 1, tokens: 1 })).toBeNull();
    settle(call);
    expect(await admit(limits, { costNanos: 300, tokens: 300 })).not.toBeNull();
  });

  test("doesn't extend a reservation after the quota lease has been revoked", async () => {
    const limits = limitsOf({ cost: 1_000 });
    const { id, admission, admit, settle } = await start();
    const call = await admit(limits, { costNanos: 100 });
    if (!call) throw new Error('the call must be admitted');
    await admission.leases.revokeAll(id);
    admission.verifyLeases();
    expect(await call.reservation.extend(() => ({ costNanos: 600, tokens: 0 }))).toBe(false);
    settle(call, { costNanos: 100 });
    expect(await admit(limits, { costNanos: 1_000 })).not.toBeNull();
  });

  test("doesn't extend a reservation beyond a ceiling that was lowered during the call", async () => {
    const limits = limitsOf({ cost: 1_000 });
    const { projectId, keyId } = limits;
    const lowered = limitsOf({ cost: 200 }, { projectId, keyId });
    const { admit } = await start();
    const call = await admit(limits, { costNanos: 100 });
    // Calls of other processes make the third call wait, because those processes could return what they hold.
    const other = createTestProcess({ database: database(), clock: clockAt(noon) });
    await other.admit(limits, { costNanos: 10 });
    await admit(lowered, { costNanos: 50 });
    const waiting = admit(lowered, { costNanos: 100 });
    const extended = call?.reservation.extend(() => ({ costNanos: 600, tokens: 0 }));
    expect([await extended, (await waiting) === null ? 'denied' : 'admitted']).toEqual([false, 'denied']);
    await other.admission.stop();
  });
});
