import { expect, test } from '@jest/globals';
import { createSharedReads } from '../../src/usage/shared-reads.ts';

/** A read that resolves with its number once we call `end`. */
function createReads() {
  const ends: ((error?: Error) => void)[] = [];
  const read = (): Promise<number> =>
    new Promise((resolve, reject) => {
      const number = ends.length + 1;
      ends.push((error) => (error ? reject(error) : resolve(number)));
    });
  return { ends, read };
}

test('starts a single new read for all callers that arrive during the current one', async () => {
  const { ends, read } = createReads();
  const reads = createSharedReads();
  const first = reads.run('a', read);
  const others = Array.from({ length: 11 }, () => reads.run('a', read));
  expect(ends).toHaveLength(1);
  ends[0]?.();
  expect(await first).toBe(1);
  expect(ends).toHaveLength(2);
  ends[1]?.();
  expect(await Promise.all(others)).toEqual(Array(11).fill(2));
  const later = reads.run('a', read);
  ends[2]?.();
  expect(await later).toBe(3);
});

test('never returns the result of a read that started before the caller asked', async () => {
  const { ends, read } = createReads();
  const reads = createSharedReads();
  void reads.run('a', read);
  const second = reads.run('a', read);
  ends[0]?.();
  await new Promise((done) => setImmediate(done));
  const third = reads.run('a', read);
  ends[1]?.();
  expect(await second).toBe(2);
  ends[2]?.();
  expect(await third).toBe(3);
});

test("doesn't make one key wait for another key's read", () => {
  const { ends, read } = createReads();
  const reads = createSharedReads();
  void reads.run('a', read);
  void reads.run('b', read);
  expect(ends).toHaveLength(2);
});

test('rejects only the callers that share a failed read', async () => {
  const { ends, read } = createReads();
  const reads = createSharedReads();
  const first = reads.run('a', read);
  const second = reads.run('a', read);
  ends[0]?.(new Error('no connection'));
  await expect(first).rejects.toThrow('no connection');
  ends[1]?.();
  expect(await second).toBe(2);
});
