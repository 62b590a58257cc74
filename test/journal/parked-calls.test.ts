/**
 * Tests settled calls that wait in memory while the journal can't be written, and what happens if that memory is full.
 */
import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import { createJournal } from '../../src/journal/journal.ts';
import { createParkedCalls } from '../../src/journal/parked-calls.ts';
import { createTestProcess, limitsOf } from '../ceilings/quota-harness.ts';
import { describeAnyDatabase } from '../db/databases.ts';
import { createBrokenDisk } from './broken-disk.ts';
import { clockAt, keepingLogger, noon, settledCall, withFolder } from './calls.ts';

test("doesn't drop a parked call that is being written when memory runs out", async () => {
  const lost: string[] = [];
  const parked = createParkedCalls({ maxBytes: 3_000, logger: keepingLogger(), onLost: ({ metadata }) => void lost.push(metadata.id) });
  const [first, second, ...others] = Array.from({ length: 8 }, () => settledCall());
  if (!first || !second) throw new Error('there are eight calls');
  parked.add(first);
  parked.add(second);
  const { promise: written, resolve: finish } = Promise.withResolvers<void>();
  const writing = parked.writeOldest(({ metadata }) => {
    expect(metadata.id).toBe(first.metadata.id);
    return written;
  });
  for (const call of others) parked.add(call);
  expect(lost).toContain(second.metadata.id);
  expect(lost).not.toContain(first.metadata.id);
  finish();
  expect(await writing).toBe(true);
});

describeAnyDatabase('a lost call', (database) => {
  test('releases the reserved quota of a lost call', () =>
    withFolder(async (dataDir) => {
      const [clock, disk] = [clockAt(noon), createBrokenDisk()];
      const process = createTestProcess({ database: database(), clock });
      const onLost = (call: SettledCall): void => process.admission.revert(call);
      const shared = { dataDir, clock, logger: keepingLogger(), sync: false, ballastBytes: 100, files: disk.files };
      const journal = await createJournal({ ...shared, parkedBytes: 1, onLost });
      const limits = limitsOf({ calls: 3 });
      const running = await Promise.all(Array.from({ length: 3 }, () => process.admit(limits)));
      expect(await process.admit(limits)).toBeNull();
      for (const call of running) if (call) process.settle(call);
      disk.fail('ENOSPC');
      for (const call of process.journal()) await journal.settle(call);
      expect(journal.state()).toMatchObject({ lostCalls: 3, parkedCalls: 0, openCalls: 0 });
      for (let call = 0; call < 3; call += 1) expect(await process.admit(limits)).not.toBeNull();
      expect(await process.admit(limits)).toBeNull();
      disk.fail(null);
      await journal.close();
      await process.admission.stop();
    }));
});
