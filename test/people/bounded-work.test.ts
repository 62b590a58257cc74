import { expect, test } from '@jest/globals';
import { createBoundedWork } from '../../src/people/bounded-work.ts';

test('is busy until enough tasks have ended or failed', async () => {
  const bounded = createBoundedWork({ maxTasks: 2 });
  const failing = Promise.withResolvers<string>();
  const running = Promise.withResolvers<string>();
  const first = bounded.run(() => failing.promise);
  expect(bounded.isBusy()).toBe(false);
  const second = bounded.run(() => running.promise);
  expect(bounded.isBusy()).toBe(true);
  failing.reject(new Error('failed'));
  await expect(first).rejects.toThrow('failed');
  expect(bounded.isBusy()).toBe(false);
  running.resolve('done');
  expect(await second).toBe('done');
});
