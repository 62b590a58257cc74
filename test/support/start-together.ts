/** Starts the work of several tests at the same time, so that their waits overlap. */
import { beforeAll } from '@jest/globals';

/** Only a few run at the same time. With all of them, a busy machine would exceed the time limits of responses. */
const atOnce = 16;

/** Starts `work` for all keys before the tests. Each test awaits the result for its key. */
export function startTogether<Key, Result>(keys: readonly Key[], work: (key: Key) => Promise<Result>): (key: Key) => Promise<Result> {
  const started = new Map<Key, Promise<Result>>();
  beforeAll(async () => {
    const waiting = keys.values();
    const workOff = async (): Promise<void> => {
      for (const key of waiting) {
        const result = work(key);
        started.set(key, result);
        // The test that awaits the result reports a failure.
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
