import type { Clock } from '../../src/core/time.ts';

/** From the beginning of this minute on a thousand times slower: no minute ends among the calls of a test, however slow the machine is. */
export function createSlowClock(): Clock {
  const minute = Math.floor(Date.now() / 60_000) * 60_000;
  const begun = performance.now();
  return { now: () => minute + Math.floor((performance.now() - begun) / 1_000) };
}
