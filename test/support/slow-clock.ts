import type { Clock } from '../../src/core/time.ts';

const dayMs = 86_400_000;

/**
 * Creates a clock that starts at noon (UTC) today and is a thousand times slower than normal, so that no minute, day or
 * month ends during a test.
 */
export function createSlowClock(): Clock {
  const noon = (Math.floor(Date.now() / dayMs) + 0.5) * dayMs;
  const begun = performance.now();
  return { now: () => noon + Math.floor((performance.now() - begun) / 1_000) };
}
