/** Decides how much quota a process leases at a time, and when it leases some in advance. */
import type { WindowKind } from '../core/windows.ts';

const contestedMs = 2_000;
const prefetchPauseMs = 1_000;
/**
 * The share of a limit that we lease at a time for minute windows. It's larger than for other windows, because leftover
 * quota expires within the minute anyway. With 10 %, a key with 60 calls per minute doesn't need a new lease for every
 * call.
 */
const minuteShare = 0.1;
const defaultShare = 0.02;

export function createGrantPolicy(window: WindowKind) {
  const share = window === 'minute' ? minuteShare : defaultShare;
  let contestedUntil = 0;
  let prefetchFrom = 0;
  let lastGrant = 0;
  /**
   * True if other processes have needed quota lately. We then lease only what we need, and give back what becomes
   * available.
   */
  const isContested = (): boolean => contestedUntil > 0 && performance.now() < contestedUntil;

  const mayPrefetch = (): boolean => !isContested() && performance.now() >= prefetchFrom;

  return {
    isContested,
    contend(): void {
      contestedUntil = performance.now() + contestedMs;
    },
    /** Returns how much of the limit to lease at a time. 0 while other processes need quota. */
    defaultGrant: (limit: number): number => (isContested() ? 0 : Math.floor(limit * share)),
    recordGrant(amount: number): void {
      lastGrant = amount;
    },
    /** Called when a prefetch got nothing. Stops prefetching for a while. */
    pausePrefetch(): void {
      prefetchFrom = performance.now() + prefetchPauseMs;
    },
    mayPrefetch,
    /** Checks whether it's time to lease more quota in advance. `available` is what's left of the current lease. */
    shouldPrefetch: (available: number): boolean => available * 2 < lastGrant && mayPrefetch(),
  };
}
