/** Tests that the gateway copes with a vendor that reports an absurd number of tokens. */
import { afterEach, expect, test } from '@jest/globals';
import { describeAnyDatabase } from '../db/databases.ts';
import { clockAt, noon } from '../journal/calls.ts';
import { createTestProcess, limitsOf, type TestProcess } from './quota-harness.ts';

describeAnyDatabase('a cost above Number.MAX_SAFE_INTEGER', (database) => {
  let process: TestProcess | null = null;
  afterEach(async () => process?.admission.stop());

  test('admits no more calls after a call with an implausibly high cost', async () => {
    process = createTestProcess({ database: database(), clock: clockAt(noon) });
    await process.admission.start();
    const [limits, others] = [limitsOf({ cost: 1_000, tpm: 1_000 }), limitsOf({ cost: 1_000 })];
    const call = await process.admit(limits, { costNanos: 10, tokens: 10 });
    if (!call) throw new Error('the call must be admitted');
    process.settle(call, { costNanos: 9e19, tokens: Number.MAX_SAFE_INTEGER });
    expect(await process.admit(limits, { costNanos: 10, tokens: 10 })).toBeNull();
    expect((await process.admit(others, { costNanos: 10 }))?.reservation.isUnmetered).toBe(false);
    await process.store();
    expect(await process.admit(limits, { costNanos: 10, tokens: 10 })).toBeNull();
  });
});
