/**
 * Holds the calls that are waiting for quota of one counter, and the last denial. There can't be more waiting calls
 * than calls in flight.
 */

export type ReserveResult = (QuotaGrant & { readonly kind: 'granted' }) | { readonly kind: 'denied' } | { readonly kind: 'unavailable' };

/** `generation` identifies the lease from which the quota was granted. */
export interface QuotaGrant {
  readonly reserved: number;
  readonly generation: number;
}

export interface Waiter {
  readonly bound: number;
  readonly resolve: (result: ReserveResult) => void;
}

/**
 * How long we remember that the database has denied a call. This way, even a flood of denied calls causes at most ten
 * statements per second for each counter.
 */
const denialMs = 100;

export function createWaitQueue() {
  let waiters: Waiter[] = [];
  let denial: { readonly bound: number; readonly until: number } | null = null;

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
     * Denies every call in `candidates` that is still waiting and needs `bound` or more. For the next 100 ms, new calls
     * that need at least as much are denied as well, without asking the database.
     */
    deny(bound: number, candidates: ReadonlySet<Waiter>): void {
      resolveWhere((waiter) => (candidates.has(waiter) && waiter.bound >= bound ? { kind: 'denied' } : null));
      denial = { bound, until: performance.now() + denialMs };
    },
    /**
     * Returns true if we've just denied a call that needed the same amount or less, so this one would be denied as
     * well.
     */
    isDenied: (bound: number): boolean => denial !== null && bound >= denial.bound && performance.now() < denial.until,
    clearDenial(): void {
      denial = null;
    },
  };
}
