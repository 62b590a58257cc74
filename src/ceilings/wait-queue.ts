/** Calls waiting for quota of one counter, in order of arrival, and the last denial. Bounded by the calls in flight. */

/** `unavailable`: the quota store did not respond. */
export type ReserveResult = (QuotaGrant & { readonly kind: 'granted' }) | { readonly kind: 'denied' } | { readonly kind: 'unavailable' };

/** Quota reserved for a call from the lease of this generation. */
export interface QuotaGrant {
  readonly reserved: number;
  readonly generation: number;
}

export interface Waiter {
  readonly bound: number;
  readonly resolve: (result: ReserveResult) => void;
}

export interface WaitQueue {
  readonly first: Waiter | undefined;
  /** Sum of the bounds. */
  readonly demand: number;
  enqueue(bound: number): Promise<ReserveResult>;
  /** Resolves and removes every waiter for which `decide` returns a result. */
  resolveWhere(decide: (waiter: Waiter) => ReserveResult | null): void;
  snapshot(): ReadonlySet<Waiter>;
  /** Denies those of `waiters` that need as much as `bound`, and later calls that do. */
  deny(bound: number, waiters: ReadonlySet<Waiter>): void;
  /** A call that needs so much has just been denied, and nothing has changed since. */
  isDenied(bound: number): boolean;
  clearDenial(): void;
}

/** Denials are cached this long: limits a burst of rejected calls to ten statements a second per counter. */
const denialMs = 100;

export function createWaitQueue(): WaitQueue {
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
    get first() {
      return waiters[0];
    },
    get demand() {
      return waiters.reduce((sum, { bound }) => sum + bound, 0);
    },
    enqueue: (bound) =>
      new Promise((resolve) => {
        waiters.push({ bound, resolve });
      }),
    resolveWhere,
    snapshot: () => new Set(waiters),
    deny(bound, denied) {
      resolveWhere((waiter) => (denied.has(waiter) && waiter.bound >= bound ? { kind: 'denied' } : null));
      denial = { bound, until: performance.now() + denialMs };
    },
    isDenied: (bound) => denial !== null && bound >= denial.bound && performance.now() < denial.until,
    clearDenial() {
      denial = null;
    },
  };
}
