/**
 * Lends from one counter: at once while this process's slice has enough, otherwise after a lease. One statement per counter is under way at
 * any time and all waiting calls share it; only the store's answer refuses, never an empty slice.
 */
import type { LimitedCounter } from './counters.ts';
import type { Leases } from './leases.ts';
import { createSlice } from './slice.ts';
import type { StoreHealth } from './store-health.ts';

/** `held`: so much is reserved. `unreachable`: the store could not be asked. */
export type Lent = { readonly kind: 'held'; readonly reserved: number } | { readonly kind: 'refused' } | { readonly kind: 'unreachable' };

export interface Lender {
  /** Row of `limit_counters`; null before the first lease. */
  readonly id: number | null;
  readonly reserved: number;
  /** Nothing is held any more, locally and in the store: it can be forgotten. */
  readonly isForgettable: boolean;
  /** Reserves `bound` under `limit`, or all there is for a call that is larger than that; a promise only when the store must be asked. */
  take(bound: number, limit: number): Lent | Promise<Lent>;
  /** A call ended; returns what it consumed of the lease. */
  settle(reserved: number, spent: number): number;
  counted(consumed: number): void;
  /** The call will never be counted. */
  uncounted(consumed: number): void;
  /** Another process needs what is free; for a while no more is leased than is needed. */
  giveBack(): void;
  /** Called every second; `now` is the clock's. */
  tend(now: number): void;
  /** Gives back what is free and resolves when that is done. */
  close(): Promise<void>;
}

export interface LenderOptions {
  readonly counter: LimitedCounter;
  /** Id of this process's journal. */
  readonly process: string;
  readonly leases: Leases;
  readonly health: StoreHealth;
  /** How long the others get to give back what is free of their slices. */
  readonly askBackMs?: number;
}

interface Waiter {
  readonly bound: number;
  readonly resolve: (lent: Lent) => void;
}

const refused: Lent = { kind: 'refused' };
const unreachable: Lent = { kind: 'unreachable' };

const idleMs = 10_000;
/** After somebody needed what others held: no slices beyond the need, and what becomes free goes back. */
const contestedMs = 2_000;
/** The store's refusal stands for so long, unless something changes here: a crowd of refused callers costs ten statements a second. */
const refusalMs = 100;
/** A failed prefetch or refusal: no new one before this. */
const prefetchPauseMs = 1_000;

export function createLender({ counter, process, leases, health, askBackMs = 150 }: LenderOptions): Lender {
  const { name } = counter;
  const slice = createSlice();
  // Bounded by the calls in flight.
  let waiters: Waiter[] = [];
  let { limit } = counter;
  let id: number | null = null;
  let working: Promise<void> | null = null;
  /** A statement failed of which nobody knows whether it was done. */
  let isUncertain = false;
  /** The statement under way got no answer in time, and its connection may need half a minute to give up: nobody waits for that. */
  let isStuck = false;
  let mustGiveBack = false;
  let usedAt = performance.now();
  let contestedUntil = 0;
  let prefetchFrom = 0;
  let lastSlice = 0;
  let refusal: { readonly bound: number; readonly until: number } | null = null;

  const isContested = (): boolean => performance.now() < contestedUntil;

  /** A minute's slices are of no use to the next, and at most 10 % of it, so that a key of 60 calls a minute does not lease for each. */
  const usualSlice = (): number => (isContested() ? 0 : Math.floor(limit * (name.window === 'minute' ? 0.1 : 0.02)));

  const start = (): void => {
    working ??= work().finally(() => {
      working = null;
      if (hasWork() && !health.isDown) start();
    });
  };

  const hasWork = (): boolean => waiters.length > 0 || (mustGiveBack && id !== null && slice.free > 0);

  /** Ends when nothing is left to do, or the store fails. */
  const work = async (): Promise<void> => {
    let hasAsked = false;
    while (hasWork()) {
      try {
        if (mustGiveBack) await returnFree();
        else hasAsked = await leaseForFirst(hasAsked);
      } catch {
        // `health` has said why. The statement may have been done or not: `tend` sets that right.
        isUncertain = true;
        return;
      }
    }
  };

  const watch = async <Result>(statement: Promise<Result>): Promise<Result> => {
    try {
      return await health.watch(statement, () => {
        isStuck = true;
        for (const { resolve } of waiters.splice(0)) resolve(unreachable);
      });
    } finally {
      isStuck = false;
    }
  };

  const returnFree = async (): Promise<void> => {
    mustGiveBack = false;
    const amount = slice.takeFree();
    if (amount > 0 && id !== null) await watch(leases.lower(process, id, amount));
  };

  /** Returns whether the others have been asked to give back for the call that waits first. */
  const leaseForFirst = async (hasAsked: boolean): Promise<boolean> => {
    serve();
    const [first] = waiters;
    if (!first) return false;
    const asked = new Set(waiters);
    const demand = Math.min(
      Number.MAX_SAFE_INTEGER,
      waiters.reduce((sum, { bound }) => sum + bound, -slice.free),
    );
    const answer = await raise({ need: first.bound - slice.free, demand, alone: slice.reserved === 0 });
    serve();
    if (waiters[0] !== first) return false;
    if (answer.others > 0) {
      if (!hasAsked) {
        await askOthers(answer.id);
        return true;
      }
    } else if (slice.reserved === 0 && slice.free > 0) {
      // Larger than all that is left: it gets all of it, alone (decisions 6).
      waiters.shift();
      first.resolve(hold(slice.free));
      return false;
    }
    const isRefused = (waiter: Waiter): boolean => asked.has(waiter) && waiter.bound >= first.bound;
    for (const waiter of waiters.filter(isRefused)) waiter.resolve(refused);
    waiters = waiters.filter((waiter) => !isRefused(waiter));
    refusal = { bound: first.bound, until: performance.now() + refusalMs };
    return false;
  };

  const raise = async (request: {
    need: number;
    demand: number;
    alone: boolean;
  }): Promise<{ id: number; others: number; granted: number }> => {
    const raised = await watch(leases.raise({ process, counter: name, limit, slice: usualSlice(), ...request }));
    id = raised.id;
    slice.grant(raised.granted);
    lastSlice = raised.granted;
    return raised;
  };

  const askOthers = async (counterId: number): Promise<void> => {
    contestedUntil = performance.now() + contestedMs;
    await watch(leases.askBack(process, counterId));
    await new Promise((resolve) => setTimeout(resolve, askBackMs));
  };

  /** Those for whom the slice is enough, the longest waiting first. */
  const serve = (): void => {
    waiters = waiters.filter(({ bound, resolve }) => {
      if (!slice.reserve(bound)) return true;
      resolve({ kind: 'held', reserved: bound });
      return false;
    });
  };

  const hold = (amount: number): Lent => {
    slice.reserve(amount);
    return { kind: 'held', reserved: amount };
  };

  /** Fetches the next slice before this one is empty, so that no call waits for it. */
  const prefetch = (): void => {
    if (working || health.isDown || isContested() || performance.now() < prefetchFrom || slice.free * 2 >= lastSlice) return;
    working = raise({ need: 1, demand: 0, alone: false })
      .then(
        ({ granted }) => {
          if (granted === 0) prefetchFrom = performance.now() + prefetchPauseMs;
        },
        () => {
          isUncertain = true;
        },
      )
      .finally(() => {
        working = null;
        serve();
        if (hasWork() && !health.isDown) start();
      });
  };

  const somethingChanged = (): void => {
    refusal = null;
    if (waiters.length > 0) serve();
    if (isContested() && slice.free > 0) mustGiveBack = true;
    if (hasWork() && !health.isDown) start();
  };

  return {
    get id() {
      return id;
    },
    get reserved() {
      return slice.reserved;
    },
    get isForgettable() {
      return slice.held === 0 && slice.isIdle && waiters.length === 0 && working === null && id === null;
    },
    take(bound, current) {
      usedAt = performance.now();
      if (bound === 0) return { kind: 'held', reserved: 0 };
      if (current !== limit) {
        // What is free was leased under the old ceiling: a lower one may not have room for it.
        if (current < limit) mustGiveBack = slice.free > 0;
        limit = current;
        refusal = null;
      }
      if (!mustGiveBack && slice.reserve(bound)) {
        prefetch();
        return { kind: 'held', reserved: bound };
      }
      if (health.isDown || isStuck) return unreachable;
      if (refusal && bound >= refusal.bound && performance.now() < refusal.until) return refused;
      return new Promise((resolve) => {
        waiters.push({ bound, resolve });
        start();
      });
    },
    settle(reserved, spent) {
      const consumed = slice.settle(reserved, spent);
      somethingChanged();
      return consumed;
    },
    counted(consumed) {
      slice.counted(consumed);
    },
    uncounted(consumed) {
      slice.uncounted(consumed);
      somethingChanged();
    },
    giveBack() {
      contestedUntil = performance.now() + contestedMs;
      somethingChanged();
    },
    tend(now) {
      if (working || id === null) return;
      if (name.window === 'minute' && name.end !== null && now > name.end && slice.isIdle) {
        // Nobody else wants it any more; the row goes with its counter.
        slice.takeFree();
        id = null;
        return;
      }
      if (health.isDown) return;
      const isIdle = performance.now() - usedAt > idleMs;
      const known = id;
      const end = (): void => {
        working = null;
        if (hasWork() && !health.isDown) start();
      };
      const failed = (): void => {
        isUncertain = true;
      };
      if (isIdle && slice.isIdle) {
        slice.takeFree();
        id = null;
        working = watch(leases.drop(process, known))
          .catch(() => {
            id ??= known;
            failed();
          })
          .finally(end);
      } else if (isUncertain) {
        isUncertain = false;
        working = watch(leases.reconcile(process, known, slice.held))
          .catch(failed)
          .finally(end);
      } else {
        if (isIdle) mustGiveBack = true;
        if (hasWork()) start();
      }
    },
    async close() {
      mustGiveBack = true;
      if (hasWork() && !health.isDown) start();
      await working;
    },
  };
}
