import { expect, test } from '@jest/globals';
import { createParkedCalls } from '../../src/journal/parked-calls.ts';
import { keepingLogger, settledCall } from './calls.ts';

test('a call that is being written is not given up for lack of memory', async () => {
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
