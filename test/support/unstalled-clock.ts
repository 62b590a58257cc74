import type { Clock } from '../../src/core/time.ts';

const tickMs = 10;

/**
 * Returns a clock that hardly moves while this process gets no CPU time. With a normal clock, a lease of a few seconds
 * could expire during a stall, just because the timer that would have renewed it is late.
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
