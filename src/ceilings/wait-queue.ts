/** The calls that wait for one counter to be asked, in the order in which they came. Bounded by the calls in flight. */

/** `unreachable`: the store could not be asked. */
export type ReserveResult = (QuotaGrant & { readonly kind: 'held' }) | { readonly kind: 'refused' } | { readonly kind: 'unreachable' };

/** So much is reserved of the lease of this generation. */
export interface QuotaGrant {
  readonly reserved: number;
  readonly generation: number;
}

export interface Waiter {
  readonly bound: number;
  readonly resolve: (lent: ReserveResult) => void;
}

export interface WaitQueue {
  readonly first: Waiter | undefined;
  readonly all: readonly Waiter[];
  /** What all of them need. */
  readonly demand: number;
  enqueue(bound: number): Promise<ReserveResult>;
  /** Answers those to whom `lend` has something to say; the others go on waiting. */
  resolveWhere(lend: (waiter: Waiter) => ReserveResult | null): void;
}

export function createWaitQueue(): WaitQueue {
  let waiters: Waiter[] = [];
  return {
    get first() {
      return waiters[0];
    },
    get all() {
      return waiters;
    },
    get demand() {
      return waiters.reduce((sum, { bound }) => sum + bound, 0);
    },
    enqueue: (bound) =>
      new Promise((resolve) => {
        waiters.push({ bound, resolve });
      }),
    resolveWhere(lend) {
      waiters = waiters.filter((waiter) => {
        const lent = lend(waiter);
        if (lent) waiter.resolve(lent);
        return lent === null;
      });
    },
  };
}
