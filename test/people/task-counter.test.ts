import { expect, test } from '@jest/globals';
import { createTaskCounter } from '../../src/people/task-counter.ts';

test('reports that it is busy while the maximum number of tasks is running', async () => {
  const counter = createTaskCounter({ maxTasks: 2 });
  const failing = Promise.withResolvers<string>();
  const running = Promise.withResolvers<string>();
  const first = counter.run(() => failing.promise);
  expect(counter.isBusy()).toBe(false);
  const second = counter.run(() => running.promise);
  expect(counter.isBusy()).toBe(true);
  failing.reject(new Error('failed'));
  await expect(first).rejects.toThrow('failed');
  expect(counter.isBusy()).toBe(false);
  running.resolve('done');
  expect(await second).toBe('done');
});
