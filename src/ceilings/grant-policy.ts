/** Decides how much of a counter a process leases at once, and when it leases ahead of need. */
import type { WindowKind } from '../core/windows.ts';

const contestedMs = 2_000;
const prefetchPauseMs = 1_000;
/**
 * We can lease a larger share of a minute, because its quota is worthless in the next one. With 10 %, a key with 60
 * calls a minute doesn't need a lease for each call.
 */
const minuteShare = 0.1;
const defaultShare = 0.02;

export function createGrantPolicy(window: WindowKind) {
  const share = window === 'minute' ? minuteShare : defaultShare;
  let contestedUntil = 0;
  let prefetchFrom = 0;
  let lastGrant = 0;
  /**
   * Reports whether another process needed quota recently. If so, we lease no more than we need, and return whatever
   * becomes available.
   */
  const isContested = (): boolean => contestedUntil > 0 && performance.now() < contestedUntil;

  const mayPrefetch = (): boolean => !isContested() && performance.now() >= prefetchFrom;

  return {
    isContested,
    contend(): void {
      contestedUntil = performance.now() + contestedMs;
    },
    /** Returns how much of the limit to lease at once, or 0 while the counter is contested. */
    defaultGrant: (limit: number): number => (isContested() ? 0 : Math.floor(limit * share)),
    recordGrant(amount: number): void {
      lastGrant = amount;
    },
    /** Stops prefetching for a while, because the last attempt got nothing. */
    pausePrefetch(): void {
      prefetchFrom = performance.now() + prefetchPauseMs;
    },
    mayPrefetch,
    /** Reports whether to lease ahead of need when only `available` is left. */
    shouldPrefetch: (available: number): boolean => available * 2 < lastGrant && mayPrefetch(),
  };
}
