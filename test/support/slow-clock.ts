import type { Clock } from '../../src/core/time.ts';

/** A clock that starts at the current minute and runs a thousand times slower, so that no minute ends during a test. */
export function createSlowClock(): Clock {
  const minute = Math.floor(Date.now() / 60_000) * 60_000;
  const begun = performance.now();
  return { now: () => minute + Math.floor((performance.now() - begun) / 1_000) };
}
