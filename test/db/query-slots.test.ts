import { expect, test } from '@jest/globals';
import { createQuerySlots } from '../../src/db/query-slots.ts';

test('queues queries above the concurrency limit and skips those of disconnected clients', async () => {
  const { run } = createQuerySlots(2);
  const started: number[] = [];
  const ends = new Map<number, () => void>();
  const query = (id: number) => () =>
    new Promise<number>((resolve) => {
      started.push(id);
      ends.set(id, () => resolve(id));
    });
  const client = new AbortController();
  const [first, second, third] = [run(query(1)), run(query(2)), run(query(3))];
  const abandoned = run(query(4), client.signal);
  const fifth = run(query(5), client.signal);
  expect(started).toEqual([1, 2]);
  ends.get(2)?.();
  await second;
  expect(started).toEqual([1, 2, 3]);
  client.abort(new Error('disconnected'));
  await expect(abandoned).rejects.toThrow('disconnected');
  await expect(fifth).rejects.toThrow('disconnected');
  await expect(run(query(6), client.signal)).rejects.toThrow('disconnected');
  const seventh = run(query(7));
  ends.get(1)?.();
  expect(await first).toBe(1);
  expect(started).toEqual([1, 2, 3, 7]);
  ends.get(3)?.();
  ends.get(7)?.();
  expect(await Promise.all([third, seventh])).toEqual([3, 7]);
});

test('frees the slot of a query that fails', async () => {
  const { run } = createQuerySlots(1);
  await expect(run(() => Promise.reject(new Error('timeout')))).rejects.toThrow('timeout');
  expect(await run(async () => 'next')).toBe('next');
});
