/** How much of a counter a process leases at once, and when it leases ahead of need. */
import type { WindowKind } from '../core/windows.ts';

const contestedMs = 2_000;
const prefetchPauseMs = 1_000;
/** Quota of a minute is worthless in the next one; 10 % keeps a key of 60 calls a minute from leasing for each call. */
const minuteShare = 0.1;
const defaultShare = 0.02;

export function createGrantPolicy(window: WindowKind) {
  const share = window === 'minute' ? minuteShare : defaultShare;
  let contestedUntil = 0;
  let prefetchFrom = 0;
  let lastGrant = 0;
  /** Another process needed quota recently: lease nothing beyond the need, and return what becomes available. */
  const isContested = (): boolean => contestedUntil > 0 && performance.now() < contestedUntil;

  const mayPrefetch = (): boolean => !isContested() && performance.now() >= prefetchFrom;

  return {
    isContested,
    /** Starts, or prolongs, the contested period. */
    contend(): void {
      contestedUntil = performance.now() + contestedMs;
    },
    /** Share of the limit to lease at once; 0 while contested. */
    defaultGrant: (limit: number): number => (isContested() ? 0 : Math.floor(limit * share)),
    recordGrant(amount: number): void {
      lastGrant = amount;
    },
    /** Prevents further prefetching for a while: the last one got nothing. */
    pausePrefetch(): void {
      prefetchFrom = performance.now() + prefetchPauseMs;
    },
    mayPrefetch,
    /** Whether to lease ahead when `available` is left. */
    shouldPrefetch: (available: number): boolean => available * 2 < lastGrant && mayPrefetch(),
  };
}
