/**
 * A clock that's corrected with the `Date` header of a cloud's responses, because AWS rejects requests that are signed
 * with a wrong time.
 */
import type { Clock } from '../../core/time.ts';

export type ServerClock = ReturnType<typeof createServerClock>;

/** We ignore smaller differences, because `Date` only has whole seconds and the response takes a while to arrive. */
const toleratedMs = 30_000;

export function createServerClock(clock: Clock) {
  let aheadMs = 0;
  return {
    now: (): number => clock.now() + aheadMs,
    /** Sets the clock by a `Date` header that has just arrived. Returns true if the clock was wrong. */
    setByDate(date: string | null): boolean {
      const serverTime = date === null ? Number.NaN : Date.parse(date);
      if (!(Math.abs(serverTime - (clock.now() + aheadMs)) > toleratedMs)) return false;
      aheadMs = serverTime - clock.now();
      return true;
    },
  };
}
