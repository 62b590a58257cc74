/**
 * Quota of one counter in this process: reserved at once while the lease suffices, otherwise after acquiring more. All waiting calls share one
 * statement, and only the database's response denies a call, never an exhausted lease.
 *
 * A state machine (`quota-state.ts`): each of its states has a function below that executes a statement and returns the next state.
 */
import type { LimitedCounter } from './counters.ts';
import { createGrantPolicy } from './grant-policy.ts';
import { createLease, type Lease } from './lease.ts';
import type { LeaseStore } from './lease-store.ts';
import type { Debit } from './local-quota.ts';
import { createQuotaStateMachine, type QuotaState, type QuotaTask } from './quota-state.ts';
import type { StoreHealth } from './store-health.ts';
import { createWaitQueue, type QuotaGrant, type ReserveResult, type Waiter } from './wait-queue.ts';

export interface CounterQuota {
  /** Row of `limit_counters`; null before the first lease. */
  readonly id: number | null;
  readonly reserved: number;
  /** Nothing is held locally or in the database. */
  readonly isEvictable: boolean;
  /** Reserves `bound` under `limit`, or everything that is left for a call larger than that; a promise only when the database must be asked. */
  reserve(bound: number, limit: number): ReserveResult | Promise<ReserveResult>;
  /** Converts a call's reservation to usage. Null when its lease was revoked. */
  settle(grant: QuotaGrant, spent: number): Debit | null;
  /** The database has counted the debit. */
  commit(debit: Debit, generation: number): void;
  /** The database will never count the debit. */
  revert(debit: Debit, generation: number): void;
  /** The lease may have been revoked: grants nothing until the database confirms it. */
  markUnverified(): void;
  /** Returns available quota, which another process needs, and leases no more than the need for a while. */
  returnUnused(): void;
  /** To be called every second; `now` is the clock's time. */
  maintain(now: number): void;
  /** Resolves when the available quota has been returned. */
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
  /** How long other processes get to return their available quota. */
  readonly returnWaitMs?: number;
  /** For tests. */
  readonly onTransition?: (from: QuotaState, to: QuotaState) => void;
}

const denied: ReserveResult = { kind: 'denied' };
const unavailable: ReserveResult = { kind: 'unavailable' };

const idleMs = 10_000;

export function createCounterQuota(options: CounterQuotaOptions): CounterQuota {
  const { counter, process, leases, health, nextGeneration, returnWaitMs = 150, onTransition } = options;
  const { key } = counter;
  const queue = createWaitQueue();
  const policy = createGrantPolicy(key.window);
  const lease = createLease({ key, process, leases, nextGeneration, watch });
  const state = createQuotaStateMachine({
    tasks: {
      verifying: verify,
      returning: returnAvailable,
      acquiring: acquireForHead,
      requesting: requestReturn,
      prefetching: prefetch,
      reconciling: reconcile,
      removing: remove,
    },
    onFailure() {
      mustReconcile = true; // `health` has logged the error.
    },
    onIdle: startWork,
    onTransition,
  });
  let { limit } = counter;
  /** The lease may have been revoked. */
  let mustVerify = false;
  /** A statement failed and may or may not have been executed. */
  let mustReconcile = false;
  let mustReturn = false;
  /** Other processes have been asked to return quota for the call that waits first. */
  let hasRequestedReturn = false;
  let usedAt = performance.now();

  return {
    get id() {
      return lease.id;
    },
    get reserved() {
      return lease.quota.reserved;
    },
    get isEvictable() {
      return lease.quota.leased === 0 && lease.quota.isIdle && queue.first === undefined && state.current === 'idle' && lease.id === null;
    },
    reserve(bound, currentLimit) {
      usedAt = performance.now();
      if (bound === 0) return { kind: 'granted', reserved: 0, generation: lease.generation };
      if (currentLimit !== limit) changeLimit(currentLimit);
      const grant = mustReturn || mustVerify ? null : lease.tryGrant(bound);
      if (grant) {
        if (!health.isDown && policy.shouldPrefetch(lease.quota.available)) state.start('prefetching');
        return grant;
      }
      if (health.isDown || state.current === 'stalled') return unavailable;
      if (queue.isDenied(bound)) return denied;
      const result = queue.enqueue(bound);
      startWork();
      return result;
    },
    settle({ reserved, generation }, spent) {
      if (generation !== lease.generation) return null;
      const debit = lease.quota.settle(reserved, spent);
      onQuotaChanged();
      return debit;
    },
    commit(debit, generation) {
      if (generation !== lease.generation) return;
      lease.quota.commit(debit);
      // While the counter and this process both counted the overdraft, calls were denied for it twice.
      if (debit.overdraft > 0) queue.clearDenial();
    },
    revert(debit, generation) {
      if (generation !== lease.generation) return;
      lease.quota.revert(debit);
      onQuotaChanged();
    },
    markUnverified() {
      mustVerify = true;
    },
    returnUnused() {
      policy.contend();
      onQuotaChanged();
    },
    maintain(now) {
      if (state.current !== 'idle' || lease.id === null) return;
      if (key.window === 'minute' && key.end !== null && now > key.end && lease.quota.isIdle) return lease.abandon();
      if (health.isDown) return;
      const isUnused = performance.now() - usedAt > idleMs;
      if (isUnused && lease.quota.isIdle) state.start('removing');
      else if (mustReconcile) state.start('reconciling');
      else {
        if (isUnused) mustReturn = true;
        startWork();
      }
    },
    async close() {
      mustReturn = true;
      startWork();
      await state.settled();
    },
  };

  async function verify(): Promise<QuotaTask | 'idle'> {
    await lease.reconcile();
    mustVerify = false;
    return nextTask();
  }

  async function returnAvailable(): Promise<QuotaTask | 'idle'> {
    mustReturn = false;
    await lease.release();
    return nextTask();
  }

  async function acquireForHead(): Promise<QuotaTask | 'idle'> {
    grantWaiters();
    const { first } = queue;
    if (!first) return nextTask();
    const waiters = queue.snapshot();
    const demand = Math.min(Number.MAX_SAFE_INTEGER, queue.demand - lease.quota.available);
    const grant = await acquire({ need: first.bound - lease.quota.available, demand, takesRemainder: lease.quota.reserved === 0 });
    if (mustVerify || grant === null) return nextTask();
    grantWaiters();
    const isSecondTry = hasRequestedReturn;
    hasRequestedReturn = false;
    if (queue.first !== first) return nextTask();
    if (grant.heldByOthers > 0 && !isSecondTry) return 'requesting';
    // A call larger than all that is left gets all of it, but only while no other call has a reservation.
    if (grant.heldByOthers === 0 && lease.quota.reserved === 0 && lease.quota.available > 0) grantRemainder(first);
    else queue.deny(first.bound, waiters);
    return nextTask();
  }

  async function requestReturn(): Promise<QuotaTask | 'idle'> {
    if (lease.id !== null) {
      policy.contend();
      await watch(leases.requestReturn(process, lease.id));
      await new Promise((resolve) => setTimeout(resolve, returnWaitMs));
      hasRequestedReturn = true;
    }
    return nextTask();
  }

  async function prefetch(): Promise<'idle'> {
    try {
      const grant = await acquire({ need: 1, demand: 0, takesRemainder: false });
      if (grant?.granted === 0) policy.pausePrefetch();
    } finally {
      grantWaiters();
    }
    return 'idle';
  }

  async function reconcile(): Promise<'idle'> {
    mustReconcile = false;
    await lease.reconcile();
    return 'idle';
  }

  async function remove(): Promise<'idle'> {
    await lease.remove();
    return 'idle';
  }

  function nextTask(): QuotaTask | 'idle' {
    const canReturn = mustReturn && lease.id !== null && lease.quota.available > 0;
    if (queue.first === undefined && !canReturn) return 'idle';
    if (mustVerify) return 'verifying';
    return mustReturn ? 'returning' : 'acquiring';
  }

  function startWork(): void {
    if (state.current !== 'idle' || health.isDown) return;
    hasRequestedReturn = false;
    state.start(nextTask());
  }

  async function watch<Result>(statement: Promise<Result>): Promise<Result> {
    try {
      return await health.watch(statement, () => {
        state.stall();
        queue.resolveWhere(() => unavailable);
      });
    } finally {
      state.resume();
    }
  }

  async function acquire(request: { need: number; demand: number; takesRemainder: boolean }): ReturnType<Lease['acquire']> {
    const grant = await lease.acquire({ limit, defaultGrant: policy.defaultGrant(limit), ...request });
    policy.recordGrant(grant?.granted ?? 0);
    return grant;
  }

  /** Grants what fits the available quota, in order of arrival. */
  function grantWaiters(): void {
    if (!mustVerify) queue.resolveWhere(({ bound }) => lease.tryGrant(bound));
  }

  function grantRemainder(first: Waiter): void {
    const { available } = lease.quota;
    queue.resolveWhere((waiter) => (waiter === first ? lease.tryGrant(available) : null));
  }

  function onQuotaChanged(): void {
    queue.clearDenial();
    if (queue.first) grantWaiters();
    if (policy.isContested && lease.quota.available > 0) mustReturn = true;
    startWork();
  }

  function changeLimit(next: number): void {
    // What is available was leased under the old ceiling, and may exceed a lower one.
    if (next < limit) mustReturn = lease.quota.available > 0;
    limit = next;
    queue.clearDenial();
  }
}
