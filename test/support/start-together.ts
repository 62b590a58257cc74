/** Starts the work of several tests at the same time, so that their waits overlap. */
import { beforeAll } from '@jest/globals';

/** If all of them ran at once, they'd be too slow for the time limits of responses on a busy machine. */
const atOnce = 16;

/** Before the tests, starts `work` for each key. A test gets its result by awaiting the returned function. */
export function startTogether<Key, Result>(keys: readonly Key[], work: (key: Key) => Promise<Result>): (key: Key) => Promise<Result> {
  const started = new Map<Key, Promise<Result>>();
  beforeAll(async () => {
    const waiting = keys.values();
    const workOff = async (): Promise<void> => {
      for (const key of waiting) {
        const result = work(key);
        started.set(key, result);
        // Whoever awaits this result will see the error.
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
