import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { createBoundedWork } from '../../src/people/bounded-work.ts';

test('runs one task at a time, and pauses after each for as long as it took', async () => {
  const bounded = createBoundedWork({ maxWaiting: 2 });
  const times: { startedAt: number; endedAt: number }[] = [];
  const work = () =>
    bounded.run(async () => {
      const startedAt = performance.now();
      await sleep(20);
      times.push({ startedAt, endedAt: performance.now() });
    });
  const running = [work(), work(), work().catch(() => undefined)];
  expect(bounded.isBusy()).toBe(true);
  await Promise.all(running);
  expect(times).toHaveLength(3);
  for (const [index, { startedAt }] of times.entries()) {
    const before = times[index - 1];
    if (before) expect(startedAt - before.endedAt).toBeGreaterThanOrEqual(Math.floor(before.endedAt - before.startedAt) - 1);
  }
  expect(bounded.isBusy()).toBe(false);
});

test('runs the next task after one has failed', async () => {
  const bounded = createBoundedWork({ maxWaiting: 1 });
  const failing = bounded.run(async () => {
    throw new Error('failed');
  });
  const next = bounded.run(async () => 'done');
  await expect(failing).rejects.toThrow('failed');
  expect(await next).toBe('done');
});
