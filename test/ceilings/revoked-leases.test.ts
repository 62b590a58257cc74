/**
 * Tests a process whose leases were revoked although it was only cut off from the database. Other processes may have
 * its quota by now.
 */
import { afterEach, expect, test } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { describeAnyDatabase } from '../db/databases.ts';
import { clockAt, noon } from '../journal/calls.ts';
import { countersIn, createTestProcess, limitsOf, type RunningCall, type TestProcess } from './quota-harness.ts';

describeAnyDatabase('revoked leases', (database) => {
  let processes: TestProcess[] = [];
  afterEach(async () => {
    for (const { admission } of processes) await admission.stop();
    processes = [];
  });

  const start = async (given: Database = database()): Promise<TestProcess> => {
    const process = createTestProcess({ database: given, clock: clockAt(noon) });
    processes.push(process);
    await process.admission.start();
    return process;
  };

  const admitted = async (process: TestProcess, limits: ReturnType<typeof limitsOf>, count: number): Promise<RunningCall[]> => {
    const calls = await Promise.all(Array.from({ length: count }, () => process.admit(limits)));
    return calls.filter((call) => call !== null);
  };

  test("doesn't admit calls from a revoked quota lease", async () => {
    const limits = limitsOf({ calls: 100 });
    const [cutOff, other] = [await start(), await start()];
    const running = await admitted(cutOff, limits, 1);
    expect(await cutOff.admission.leases.revokeAll(cutOff.id)).toBe(1);
    cutOff.admission.verifyLeases();
    // The other processes can now use the whole ceiling, although a call of the process that seemed dead is still
    // running.
    expect(await admitted(other, limits, 120)).toHaveLength(100);
    expect(await admitted(cutOff, limits, 3)).toHaveLength(0);
    for (const call of running) cutOff.settle(call);
    await cutOff.store();
    expect(await countersIn(database(), limits.projectId)).toEqual([{ ceiling: 'calls', settled: 1, leased: 100, leases: 100, rows: 1 }]);
  });

  test('acquires a new quota lease after the old one was revoked', async () => {
    const limits = limitsOf({ calls: 100 });
    const cutOff = await start();
    // A lease for two calls, one reserved and one available.
    const [first] = await admitted(cutOff, limits, 1);
    await cutOff.admission.leases.revokeAll(cutOff.id);
    const others = await admitted(cutOff, limits, 3);
    expect(others).toHaveLength(3);
    for (const call of [first, ...others]) if (call) cutOff.settle(call);
    await cutOff.store();
    const [counter] = await countersIn(database(), limits.projectId);
    expect(counter).toMatchObject({ settled: 4, rows: 4, leased: counter?.leases });
    expect(counter?.leased).toBeGreaterThanOrEqual(0);
    expect(await admitted(cutOff, limits, 120)).toHaveLength(96);
  });

  test("keeps using quota leases that weren't revoked", async () => {
    const limits = limitsOf({ calls: 100 });
    const process = await start();
    await admitted(process, limits, 10);
    process.admission.verifyLeases();
    expect(await admitted(process, limits, 100)).toHaveLength(90);
    const [counter] = await countersIn(database(), limits.projectId);
    expect(counter).toMatchObject({ leased: 100, leases: 100 });
  });
});
