/**
 * The calls that wait for quota of one counter, in order of arrival, and the last denial. There can't be more of them
 * than calls in flight.
 */

/** `unavailable` means that the quota store didn't respond. */
export type ReserveResult = (QuotaGrant & { readonly kind: 'granted' }) | { readonly kind: 'denied' } | { readonly kind: 'unavailable' };

/** Quota that was reserved for a call, and the generation of the lease that it came from. */
export interface QuotaGrant {
  readonly reserved: number;
  readonly generation: number;
}

export interface Waiter {
  readonly bound: number;
  readonly resolve: (result: ReserveResult) => void;
}

/** How long we cache a denial. This limits a burst of rejected calls to ten statements a second per counter. */
const denialMs = 100;

export function createWaitQueue() {
  let waiters: Waiter[] = [];
  let denial: { readonly bound: number; readonly until: number } | null = null;

  /** Resolves and removes every waiter for which `decide` returns a result. */
  const resolveWhere = (decide: (waiter: Waiter) => ReserveResult | null): void => {
    waiters = waiters.filter((waiter) => {
      const result = decide(waiter);
      if (result) waiter.resolve(result);
      return result === null;
    });
  };

  return {
    first: (): Waiter | undefined => waiters[0],
    /** Returns the sum of the bounds. */
    demand: (): number => waiters.reduce((sum, { bound }) => sum + bound, 0),
    enqueue: (bound: number): Promise<ReserveResult> =>
      new Promise((resolve) => {
        waiters.push({ bound, resolve });
      }),
    resolveWhere,
    snapshot: (): ReadonlySet<Waiter> => new Set(waiters),
    /** Denies the `candidates` that need at least `bound`, and further calls like that for 100 ms. */
    deny(bound: number, candidates: ReadonlySet<Waiter>): void {
      resolveWhere((waiter) => (candidates.has(waiter) && waiter.bound >= bound ? { kind: 'denied' } : null));
      denial = { bound, until: performance.now() + denialMs };
    },
    /** Reports whether a call with this bound or a smaller one was just denied and nothing has changed since. */
    isDenied: (bound: number): boolean => denial !== null && bound >= denial.bound && performance.now() < denial.until,
    clearDenial(): void {
      denial = null;
    },
  };
}
