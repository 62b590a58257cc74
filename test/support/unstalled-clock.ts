import type { Clock } from '../../src/core/time.ts';

const tickMs = 10;

/**
 * Returns a clock that almost stands still while this process gets no CPU time. With the system's clock, a stall of half
 * a second could end something that lasts for seconds, before the timer fires that would have renewed it.
 */
export function createUnstalledClock(): Clock & { stop(): void } {
  let now = Date.now();
  let tickedAt = performance.now();
  const timer = setInterval(() => {
    const elapsedMs = performance.now() - tickedAt;
    tickedAt += elapsedMs;
    now += Math.min(elapsedMs, 2 * tickMs);
  }, tickMs);
  return { now: () => now, stop: () => clearInterval(timer) };
}
