/**
 * Calls that wait for quota from one counter, and the last denial. There are never more of them than calls in flight.
 */

/** `unavailable` if the quota store didn't respond. */
export type ReserveResult = (QuotaGrant & { readonly kind: 'granted' }) | { readonly kind: 'denied' } | { readonly kind: 'unavailable' };

/** Quota that a call has reserved. `generation` says which lease it's from. */
export interface QuotaGrant {
  readonly reserved: number;
  readonly generation: number;
}

export interface Waiter {
  readonly bound: number;
  readonly resolve: (result: ReserveResult) => void;
}

/** How long we cache a denial. A flood of denied calls then causes at most ten statements per second and counter. */
const denialMs = 100;

export function createWaitQueue() {
  let waiters: Waiter[] = [];
  let denial: { readonly bound: number; readonly until: number } | null = null;

  /** Resolves and removes all waiters for which `decide` returns a result. */
  const resolveWhere = (decide: (waiter: Waiter) => ReserveResult | null): void => {
    waiters = waiters.filter((waiter) => {
      const result = decide(waiter);
      if (result) waiter.resolve(result);
      return result === null;
    });
  };

  return {
    first: (): Waiter | undefined => waiters[0],
    demand: (): number => waiters.reduce((sum, { bound }) => sum + bound, 0),
    enqueue: (bound: number): Promise<ReserveResult> =>
      new Promise((resolve) => {
        waiters.push({ bound, resolve });
      }),
    resolveWhere,
    snapshot: (): ReadonlySet<Waiter> => new Set(waiters),
    /**
     * Denies those `candidates` that need at least `bound`. New calls of this size are denied as well for the next 100
     * ms.
     */
    deny(bound: number, candidates: ReadonlySet<Waiter>): void {
      resolveWhere((waiter) => (candidates.has(waiter) && waiter.bound >= bound ? { kind: 'denied' } : null));
      denial = { bound, until: performance.now() + denialMs };
    },
    /**
     * Returns true if we've recently denied a call that needed the same amount or less. In that case this call would be
     * denied too.
     */
    isDenied: (bound: number): boolean => denial !== null && bound >= denial.bound && performance.now() < denial.until,
    clearDenial(): void {
      denial = null;
    },
  };
}
