import { setImmediate, setTimeout as sleep } from 'node:timers/promises';

/**
 * Some tests replace `performance.now` by a clock that stands still. We need the real one to notice when we've waited
 * too long.
 */
const realNow = performance.now.bind(performance);

/**
 * Waits until the condition is true. After `limitMs`, throws an error with the given sentence. At first, checks in each
 * turn of the event loop. The checks become less frequent over time, because many of them are requests to a server.
 */
export async function until(sentence: string, condition: () => boolean | Promise<boolean>, limitMs = 300_000): Promise<void> {
  const startedAt = realNow();
  while (!(await condition())) {
    const elapsedMs = realNow() - startedAt;
    if (elapsedMs > limitMs) throw new Error(`this did not happen within ${limitMs} ms: ${sentence}`);
    await (elapsedMs < 20 ? setImmediate() : sleep(Math.min(elapsedMs / 20, 500)));
  }
}
