/** Decides how much quota a process leases at a time, and when to lease some in advance. */
import type { WindowKind } from '../core/windows.ts';

const contestedMs = 2_000;
const prefetchPauseMs = 1_000;
/**
 * The share of a per-minute limit to lease at a time. With 10 %, a key with 60 calls per minute doesn't need a lease
 * for each call. It can be larger than for other windows, because unused quota expires within the minute.
 */
const minuteShare = 0.1;
const defaultShare = 0.02;

export function createGrantPolicy(window: WindowKind) {
  const share = window === 'minute' ? minuteShare : defaultShare;
  let contestedUntil = 0;
  let prefetchFrom = 0;
  let lastGrant = 0;
  /**
   * True if other processes have recently needed quota. We then lease only what we need, and return quota as soon as
   * it's available.
   */
  const isContested = (): boolean => contestedUntil > 0 && performance.now() < contestedUntil;

  const mayPrefetch = (): boolean => !isContested() && performance.now() >= prefetchFrom;

  return {
    isContested,
    contend(): void {
      contestedUntil = performance.now() + contestedMs;
    },
    /** Returns how much to lease at a time. 0 while other processes need quota. */
    defaultGrant: (limit: number): number => (isContested() ? 0 : Math.floor(limit * share)),
    recordGrant(amount: number): void {
      lastGrant = amount;
    },
    /** Call this if a prefetch got no quota. Suspends prefetching for a while. */
    pausePrefetch(): void {
      prefetchFrom = performance.now() + prefetchPauseMs;
    },
    mayPrefetch,
    shouldPrefetch: (available: number): boolean => available * 2 < lastGrant && mayPrefetch(),
  };
}
