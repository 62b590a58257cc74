/**
 * AWS rejects requests that are signed with a wrong time. So we correct this clock with the `Date` header of a cloud's
 * responses.
 */
import type { Clock } from '../../core/time.ts';

export interface ServerClock extends Clock {
  /** Takes a `Date` header that has just arrived. Returns true if our clock was wrong. */
  setByDate(date: string | null): boolean;
}

/** `Date` only has whole seconds, and the response takes a while to arrive. */
const toleratedMs = 30_000;

export function createServerClock(clock: Clock): ServerClock {
  let aheadMs = 0;
  return {
    now: () => clock.now() + aheadMs,
    setByDate(date) {
      const serverTime = date === null ? Number.NaN : Date.parse(date);
      if (!(Math.abs(serverTime - (clock.now() + aheadMs)) > toleratedMs)) return false;
      aheadMs = serverTime - clock.now();
      return true;
    },
  };
}
