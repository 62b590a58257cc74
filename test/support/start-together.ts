/** Overlaps the waits of several tests. */
import { beforeAll } from '@jest/globals';

/** We run a few at a time, because responses have time limits that a busy machine would exceed with all of them. */
const atOnce = 16;

/** Starts `work` for every key before the tests. A test awaits the result of its key. */
export function startTogether<Key, Result>(keys: readonly Key[], work: (key: Key) => Promise<Result>): (key: Key) => Promise<Result> {
  const started = new Map<Key, Promise<Result>>();
  beforeAll(async () => {
    const waiting = keys.values();
    const workOff = async (): Promise<void> => {
      for (const key of waiting) {
        const result = work(key);
        started.set(key, result);
        // The test that awaits the result reports its failure.
        await result.catch(() => undefined);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, workOff));
  });
  return async (key) => {
    const result = started.get(key);
    if (result === undefined) throw new Error('this key was not started');
    return result;
  };
}
