/** The calls that wait for one counter to be asked, in the order in which they came. Bounded by the calls in flight. */

/** `unreachable`: the store could not be asked. */
export type Lent = (Loan & { readonly kind: 'held' }) | { readonly kind: 'refused' } | { readonly kind: 'unreachable' };

/** So much is reserved of the lease of this generation. */
export interface Loan {
  readonly reserved: number;
  readonly generation: number;
}

export interface Waiter {
  readonly bound: number;
  readonly resolve: (lent: Lent) => void;
}

export interface Waiting {
  readonly first: Waiter | undefined;
  readonly all: readonly Waiter[];
  /** What all of them need. */
  readonly demand: number;
  wait(bound: number): Promise<Lent>;
  /** Answers those to whom `lend` has something to say; the others go on waiting. */
  answer(lend: (waiter: Waiter) => Lent | null): void;
}

export function createWaiting(): Waiting {
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
    wait: (bound) =>
      new Promise((resolve) => {
        waiters.push({ bound, resolve });
      }),
    answer(lend) {
      waiters = waiters.filter((waiter) => {
        const lent = lend(waiter);
        if (lent) waiter.resolve(lent);
        return lent === null;
      });
    },
  };
}
