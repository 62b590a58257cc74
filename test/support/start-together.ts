/** Overlaps the waits of several tests. */
import { beforeAll } from '@jest/globals';

/** Starts `work` for every key before the tests; a test awaits the result of its key. */
export function startTogether<Key, Result>(keys: readonly Key[], work: (key: Key) => Promise<Result>): (key: Key) => Promise<Result> {
  const started = new Map<Key, Promise<Result>>();
  beforeAll(async () => {
    for (const key of keys) started.set(key, work(key));
    // A failure is that of the test which awaits it.
    await Promise.allSettled(started.values());
  });
  return async (key) => {
    const result = started.get(key);
    if (result === undefined) throw new Error('this key was not started');
    return result;
  };
}
