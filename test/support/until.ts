import { setImmediate, setTimeout as sleep } from 'node:timers/promises';

/**
 * Some tests replace `performance.now` by a clock that stands still. We need the real one to notice when we've waited
 * too long.
 */
const realNow = performance.now.bind(performance);

/**
 * Waits until the condition is true. After `limitMs`, throws an error with the given sentence. We check in each turn of
 * the event loop for 20 ms, and then less and less often, because many conditions send a request to a server. So don't
 * wait for something that is true only for a moment, such as an exact count that keeps growing.
 */
export async function until(sentence: string, condition: () => boolean | Promise<boolean>, limitMs = 300_000): Promise<void> {
  const startedAt = realNow();
  while (!(await condition())) {
    const elapsedMs = realNow() - startedAt;
    if (elapsedMs > limitMs) throw new Error(`this did not happen within ${limitMs} ms: ${sentence}`);
    await (elapsedMs < 20 ? setImmediate() : sleep(Math.min(elapsedMs / 20, 500)));
  }
}
