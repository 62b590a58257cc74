import { expect, test } from '@jest/globals';
import { createBoundedWork } from '../../src/people/bounded-work.ts';

test('runs two pieces of work at once, the others in order, also after a failure', async () => {
  const work = createBoundedWork({ maxRunning: 2, maxWaiting: 2 });
  const started: number[] = [];
  const ends: (() => void)[] = [];
  const run = (id: number, fails = false) =>
    work.run(async () => {
      started.push(id);
      await new Promise<void>((resolve) => ends.push(resolve));
      if (fails) throw new Error('failed');
      return id;
    });
  const first = run(1, true);
  const others = [run(2), run(3)];
  expect(work.isBusy()).toBe(false);
  others.push(run(4));
  expect([started, work.isBusy()]).toEqual([[1, 2], true]);
  ends[0]?.();
  await expect(first).rejects.toThrow('failed');
  expect([started, work.isBusy()]).toEqual([[1, 2, 3], false]);
  ends[1]?.();
  await others[0];
  ends[2]?.();
  ends[3]?.();
  expect(await Promise.all(others)).toEqual([2, 3, 4]);
  const last = run(5);
  expect(started).toEqual([1, 2, 3, 4, 5]);
  ends[4]?.();
  await last;
});
