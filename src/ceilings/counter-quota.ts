/**
 * Lends from one counter: at once while this process's slice has enough, otherwise after a lease. One statement per counter is under way at
 * any time and all waiting calls share it; only the store's answer refuses, never an empty slice.
 */
import type { LimitedCounter } from './counters.ts';
import { createLease, type Lease } from './lease.ts';
import type { LeaseStore } from './lease-store.ts';
import type { Debit } from './local-quota.ts';
import type { StoreHealth } from './store-health.ts';
import { createWaitQueue, type QuotaGrant, type ReserveResult } from './wait-queue.ts';

export interface CounterQuota {
  /** Row of `limit_counters`; null before the first lease. */
  readonly id: number | null;
  readonly reserved: number;
  /** Nothing is held any more, locally and in the store: it can be forgotten. */
  readonly isEvictable: boolean;
  /** Reserves `bound` under `limit`, or all there is for a call that is larger than that; a promise only when the store must be asked. */
  reserve(bound: number, limit: number): ReserveResult | Promise<ReserveResult>;
  /** A call ended; null: its lease was written off. */
  settle(loan: QuotaGrant, spent: number): Debit | null;
  commit(spending: Debit, generation: number): void;
  /** The call will never be counted. */
  revert(spending: Debit, generation: number): void;
  /** The lease may have been written off: nothing more is lent of it before the store has said that it is there. */
  markUnverified(): void;
  /** Another process needs what is free; for a while no more is leased than is needed. */
  returnUnused(): void;
  /** Called every second; `now` is the clock's. */
  maintain(now: number): void;
  /** Gives back what is free and resolves when that is done. */
  close(): Promise<void>;
}

export interface CounterQuotaOptions {
  readonly counter: LimitedCounter;
  /** Id of this process's journal. */
  readonly process: string;
  readonly leases: LeaseStore;
  readonly health: StoreHealth;
  /** Never the same number twice in this process. */
  readonly nextGeneration: () => number;
  /** How long the others get to give back what is free of their slices. */
  readonly returnWaitMs?: number;
}

const refused: ReserveResult = { kind: 'refused' };
const unreachable: ReserveResult = { kind: 'unreachable' };

const idleMs = 10_000;
/** After somebody needed what others held: no slices beyond the need, and what becomes free goes back. */
const contestedMs = 2_000;
/** The store's refusal stands for so long, unless something changes here: a crowd of refused callers costs ten statements a second. */
const refusalMs = 100;
/** A failed prefetch or refusal: no new one before this. */
const prefetchPauseMs = 1_000;

export function createCounterQuota({
  counter,
  process,
  leases,
  health,
  nextGeneration,
  returnWaitMs: askBackMs = 150,
}: CounterQuotaOptions): CounterQuota {
  const { key: name } = counter;
  const queue = createWaitQueue();
  let { limit } = counter;
  let working: Promise<void> | null = null;
  /** A statement failed of which nobody knows whether it was done. */
  let isUncertain = false;
  /** The statement under way got no answer in time, and its connection may need half a minute to give up: nobody waits for that. */
  let isStuck = false;
  let mustGiveBack = false;
  /** The lease may have been written off. */
  let isUnverified = false;
  let usedAt = performance.now();
  let contestedUntil = 0;
  let prefetchFrom = 0;
  let lastSlice = 0;
  let refusal: { readonly bound: number; readonly until: number } | null = null;

  const isContested = (): boolean => performance.now() < contestedUntil;

  /** A minute's slices are of no use to the next, and at most 10 % of it, so that a key of 60 calls a minute does not lease for each. */
  const defaultGrant = (): number => (isContested() ? 0 : Math.floor(limit * (name.window === 'minute' ? 0.1 : 0.02)));

  const start = (): void => {
    working ??= work().finally(() => {
      working = null;
      if (hasWork() && !health.isDown) start();
    });
  };

  const hasWork = (): boolean => queue.first !== undefined || (mustGiveBack && lease.id !== null && lease.quota.available > 0);

  /** Ends when nothing is left to do, or the store fails. */
  const work = async (): Promise<void> => {
    let hasAsked = false;
    while (hasWork()) {
      try {
        if (isUnverified) await confirm();
        else if (mustGiveBack) await returnFree();
        else hasAsked = await acquireForHead(hasAsked);
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
        queue.resolveWhere(() => unreachable);
      });
    } finally {
      isStuck = false;
    }
  };

  const lease = createLease({ name, process, leases, nextGeneration, watch });

  const returnFree = (): Promise<void> => {
    mustGiveBack = false;
    return lease.release();
  };

  const confirm = async (): Promise<void> => {
    await lease.reconcile();
    isUnverified = false;
  };

  /** Returns whether the others have been asked to give back for the call that waits first. */
  const acquireForHead = async (hasAsked: boolean): Promise<boolean> => {
    grantWaiters();
    const { first } = queue;
    if (!first) return false;
    const asked = new Set(queue.all);
    const demand = Math.min(Number.MAX_SAFE_INTEGER, queue.demand - lease.quota.available);
    const answer = await raise({ need: first.bound - lease.quota.available, demand, takesRemainder: lease.quota.reserved === 0 });
    if (isUnverified || answer === null) return hasAsked;
    grantWaiters();
    if (queue.first !== first) return false;
    if (answer.others > 0) {
      if (!hasAsked) {
        await askOthers(answer.id);
        return true;
      }
    } else if (lease.quota.reserved === 0 && lease.quota.available > 0) {
      // Larger than all that is left: it gets all of it, alone (decisions 6).
      const all = lease.quota.available;
      queue.resolveWhere((waiter) => (waiter === first ? hold(all) : null));
      return false;
    }
    queue.resolveWhere((waiter) => (asked.has(waiter) && waiter.bound >= first.bound ? refused : null));
    refusal = { bound: first.bound, until: performance.now() + refusalMs };
    return false;
  };

  const raise = async (request: { need: number; demand: number; takesRemainder: boolean }): ReturnType<Lease['acquire']> => {
    const raised = await lease.acquire({ limit, defaultGrant: defaultGrant(), ...request });
    lastSlice = raised?.granted ?? 0;
    return raised;
  };

  const askOthers = async (counterId: number): Promise<void> => {
    contestedUntil = performance.now() + contestedMs;
    await watch(leases.requestReturn(process, counterId));
    await new Promise((resolve) => setTimeout(resolve, askBackMs));
  };

  /** Those for whom the slice is enough, the longest waiting first. */
  const grantWaiters = (): void => {
    if (isUnverified) return;
    queue.resolveWhere(({ bound }) => hold(bound));
  };

  /** Null: the slice is not enough. */
  const hold = (amount: number): ReserveResult | null => (lease.quota.reserve(amount) ? held(amount) : null);

  const held = (reserved: number): ReserveResult => ({ kind: 'held', reserved, generation: lease.generation });

  /** Fetches the next slice before this one is empty, so that no call waits for it. */
  const prefetch = (): void => {
    if (working || health.isDown || isContested() || performance.now() < prefetchFrom || lease.quota.available * 2 >= lastSlice) return;
    working = raise({ need: 1, demand: 0, takesRemainder: false })
      .then(
        (raised) => {
          if (raised?.granted === 0) prefetchFrom = performance.now() + prefetchPauseMs;
        },
        () => {
          isUncertain = true;
        },
      )
      .finally(() => {
        working = null;
        grantWaiters();
        if (hasWork() && !health.isDown) start();
      });
  };

  const somethingChanged = (): void => {
    refusal = null;
    if (queue.first) grantWaiters();
    if (isContested() && lease.quota.available > 0) mustGiveBack = true;
    if (hasWork() && !health.isDown) start();
  };

  return {
    get id() {
      return lease.id;
    },
    get reserved() {
      return lease.quota.reserved;
    },
    get isEvictable() {
      return lease.quota.leased === 0 && lease.quota.isIdle && queue.first === undefined && working === null && lease.id === null;
    },
    reserve(bound, current) {
      usedAt = performance.now();
      if (bound === 0) return held(0);
      if (current !== limit) {
        // What is free was leased under the old ceiling: a lower one may not have room for it.
        if (current < limit) mustGiveBack = lease.quota.available > 0;
        limit = current;
        refusal = null;
      }
      if (!mustGiveBack && !isUnverified && lease.quota.reserve(bound)) {
        prefetch();
        return held(bound);
      }
      if (health.isDown || isStuck) return unreachable;
      if (refusal && bound >= refusal.bound && performance.now() < refusal.until) return refused;
      const lent = queue.enqueue(bound);
      start();
      return lent;
    },
    settle({ reserved, generation }, spent) {
      if (generation !== lease.generation) return null;
      const spending = lease.quota.settle(reserved, spent);
      somethingChanged();
      return spending;
    },
    commit(spending, generation) {
      if (generation !== lease.generation) return;
      lease.quota.commit(spending);
      // It may have been refused for what was owed and counted at once.
      if (spending.overdraft > 0) refusal = null;
    },
    revert(spending, generation) {
      if (generation !== lease.generation) return;
      lease.quota.revert(spending);
      somethingChanged();
    },
    markUnverified() {
      isUnverified = true;
    },
    returnUnused() {
      contestedUntil = performance.now() + contestedMs;
      somethingChanged();
    },
    maintain(now) {
      if (working || lease.id === null) return;
      if (name.window === 'minute' && name.end !== null && now > name.end && lease.quota.isIdle) return lease.abandon();
      if (health.isDown) return;
      const isIdle = performance.now() - usedAt > idleMs;
      const settleStatement = (statement: Promise<void>): void => {
        working = statement
          .catch(() => {
            isUncertain = true;
          })
          .finally(() => {
            working = null;
            if (hasWork() && !health.isDown) start();
          });
      };
      if (isIdle && lease.quota.isIdle) settleStatement(lease.remove());
      else if (isUncertain) {
        isUncertain = false;
        settleStatement(lease.reconcile());
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
