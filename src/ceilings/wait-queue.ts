/**
 * The calls that wait for quota of one counter, and the last denial. There can't be more of them than calls in flight.
 */

/** `unavailable` if the quota store didn't respond. */
export type ReserveResult = (QuotaGrant & { readonly kind: 'granted' }) | { readonly kind: 'denied' } | { readonly kind: 'unavailable' };

/** The quota that a call has reserved. Its lease has this generation. */
export interface QuotaGrant {
  readonly reserved: number;
  readonly generation: number;
}

export interface Waiter {
  readonly bound: number;
  readonly resolve: (result: ReserveResult) => void;
}

/**
 * How long we cache a denial. It means that even if lots of calls are denied, there are no more than ten statements per
 * second and counter.
 */
const denialMs = 100;

export function createWaitQueue() {
  let waiters: Waiter[] = [];
  let denial: { readonly bound: number; readonly until: number } | null = null;

  /** Removes the waiters for which `decide` returns a result, and resolves them with it. */
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
     * Denies those of the `candidates` that need at least `bound`. For the next 100 ms, new calls that need as much are
     * denied right away.
     */
    deny(bound: number, candidates: ReadonlySet<Waiter>): void {
      resolveWhere((waiter) => (candidates.has(waiter) && waiter.bound >= bound ? { kind: 'denied' } : null));
      denial = { bound, until: performance.now() + denialMs };
    },
    /**
     * Returns true if we've recently denied a call that needed no more than this one. This call would be denied as
     * well.
     */
    isDenied: (bound: number): boolean => denial !== null && bound >= denial.bound && performance.now() < denial.until,
    clearDenial(): void {
      denial = null;
    },
  };
}
