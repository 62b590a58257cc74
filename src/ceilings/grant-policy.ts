/** Decides how much quota a process leases at a time, and when it leases some in advance. */
import type { WindowKind } from '../core/windows.ts';

const contestedMs = 2_000;
const prefetchPauseMs = 1_000;
/**
 * How much of a limit we lease at a time for a minute window, as a share. It's larger than for other windows, because
 * quota that isn't used expires within the minute anyway. With 10 %, a key with 60 calls per minute doesn't have to
 * acquire a lease for each call.
 */
const minuteShare = 0.1;
const defaultShare = 0.02;

export function createGrantPolicy(window: WindowKind) {
  const share = window === 'minute' ? minuteShare : defaultShare;
  let contestedUntil = 0;
  let prefetchFrom = 0;
  let lastGrant = 0;
  /**
   * True if other processes have needed quota lately. During that time, we don't lease more than we need, and we return
   * quota as soon as it's available.
   */
  const isContested = (): boolean => contestedUntil > 0 && performance.now() < contestedUntil;

  const mayPrefetch = (): boolean => !isContested() && performance.now() >= prefetchFrom;

  return {
    isContested,
    contend(): void {
      contestedUntil = performance.now() + contestedMs;
    },
    /** Returns how much of the limit to lease at a time, which is 0 as long as other processes need quota. */
    defaultGrant: (limit: number): number => (isContested() ? 0 : Math.floor(limit * share)),
    recordGrant(amount: number): void {
      lastGrant = amount;
    },
    /** Call this if a prefetch got no quota. We stop prefetching for a while then. */
    pausePrefetch(): void {
      prefetchFrom = performance.now() + prefetchPauseMs;
    },
    mayPrefetch,
    /** Returns true if it's time to lease more quota in advance. `available` is what's left of the current lease. */
    shouldPrefetch: (available: number): boolean => available * 2 < lastGrant && mayPrefetch(),
  };
}
