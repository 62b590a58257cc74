/**
 * Manages this process's quota of one counter. Reservations are immediate while the lease suffices. Otherwise we
 * acquire more, with one statement for all waiting calls. We deny a call only if the database says so, never just
 * because the lease is exhausted.
 *
 * This is a state machine (`quota-state.ts`). For each state, a function below executes a statement and returns the
 * next state.
 */
import type { ConsumedAmount } from '../core/call.ts';
import { clampToSafeInteger } from '../core/cost.ts';
import { minuteMs } from '../core/time.ts';
import { counterAt, type LimitedCounter } from './counters.ts';
import { createGrantPolicy } from './grant-policy.ts';
import { createLease, type LeaseOptions } from './lease.ts';
import type { LeaseGrant } from './lease-store.ts';
import { createQuotaStateMachine, type QuotaState, type QuotaTask } from './quota-state.ts';
import type { StoreHealth } from './store-health.ts';
import { createWaitQueue, type QuotaGrant, type ReserveResult } from './wait-queue.ts';

export type CounterQuota = ReturnType<typeof createCounterQuota>;

export interface CounterQuotaOptions extends Omit<LeaseOptions, 'key' | 'watch'> {
  readonly counter: LimitedCounter;
  readonly health: StoreHealth;
  /** How long we wait for other processes to return their available quota. */
  readonly returnWaitMs: () => number;
  /** Reports whether another process has just requested quota of this counter while we held none of it. */
  readonly isRequested: (counterId: number) => boolean;
  /** For tests. */
  readonly onTransition?: (from: QuotaState, to: QuotaState) => void;
}

const unavailable: ReserveResult = { kind: 'unavailable' };

const idleMs = 10_000;
/** We keep the quota of a minute for this long after the minute ends, for calls from processes with slower clocks. */
const keptMs = 5_000;
/**
 * We lease quota for the next minute when this much of the current one is left, plus up to `leadSpreadMs` so that not
 * all keys do it at the same time.
 */
const [minLeadMs, leadSpreadMs] = [2_000, 6_000];

export function createCounterQuota(options: CounterQuotaOptions) {
  const { counter, process, leases, health, nextGeneration, returnWaitMs, isRequested, onTransition } = options;
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
      removing: () => lease.remove().then(() => 'idle'),
    },
    onFailure() {
      mustReconcile = true; // `health` has already logged the error.
    },
    onIdle: startWork,
    onTransition,
  });
  let { limit, readAt } = counter;
  /** True if the lease may have been revoked. */
  let mustVerify = false;
  /** True if a statement failed, so that we don't know whether it was executed. */
  let mustReconcile = false;
  let mustReturn = false;
  /**
   * True if our quota was leased under a higher ceiling. We grant none of it until the database grants more under the
   * current ceiling.
   */
  let isLeaseTooLarge = false;
  /** True if we've asked other processes to return quota for the first waiting call. */
  let hasRequestedReturn = false;
  /** True if running calls, in this process or another one, held part of the ceiling when it last denied a call. */
  let wasHeldByCalls = false;
  let usedAt = performance.now();

  return {
    /** Returns the id of the row in `limit_counters`. Null before the first lease. */
    counterId: (): number | null => lease.counterId,
    reserved: (): number => lease.quota.reserved,
    wasHeldByCalls: (): boolean => wasHeldByCalls,
    /** Reports whether we hold nothing, neither locally nor in the database. */
    isEvictable: (): boolean =>
      lease.quota.leased === 0 &&
      lease.quota.isIdle &&
      queue.first() === undefined &&
      state.current() === 'idle' &&
      lease.counterId === null &&
      !mustReconcile,
    /**
     * Reserves `bound`, or everything that's left if the call needs more than that. Returns a promise only if we have
     * to ask the database.
     */
    reserve(bound: number, current: LimitedCounter): ReserveResult | Promise<ReserveResult> {
      usedAt = performance.now();
      if (bound === 0) return { kind: 'granted', reserved: 0, generation: lease.generation };
      // If a call has waited, is being extended or was received slowly, it may still have the limit from before the
      // last change.
      if (current.readAt > readAt) {
        readAt = current.readAt;
        if (current.limit !== limit) changeLimit(current.limit);
      }
      const grant = mayGrant() && !mustReturn ? lease.tryGrant(bound) : null;
      if (grant) {
        if (!health.isDown && policy.shouldPrefetch(lease.quota.available)) state.start('prefetching');
        return grant;
      }
      if (health.isDown || state.current() === 'stalled') return unavailable;
      if (queue.isDenied(bound)) return { kind: 'denied' };
      const result = queue.enqueue(bound);
      startWork();
      return result;
    },
    /**
     * Converts a call's reservation to usage. Returns the amount to debit from the lease, or null if there is no lease
     * or it was revoked.
     */
    settle({ reserved, generation }: QuotaGrant, spent: number): number | null {
      // Without a lease nothing is reserved, and we couldn't record which counter has to count the usage.
      if (generation !== lease.generation || lease.counterId === null) return null;
      const amount = lease.quota.settle(reserved, spent);
      onQuotaChanged();
      return amount;
    },
    /** Called when the database has counted the usage of a call. */
    commit({ generation, amount, owed = 0 }: ConsumedAmount): void {
      if (generation !== lease.generation) return;
      lease.quota.commit(amount, owed);
      // Until now the overdraft counted twice, once here and once in the counter, and that may have caused a denial
      // that we cached.
      if (owed > 0) queue.clearDenial();
    },
    /** Called if the database will never count the usage of a call. */
    revert({ generation, amount, owed = 0 }: ConsumedAmount): void {
      if (generation !== lease.generation) return;
      lease.quota.revert(amount, owed);
      onQuotaChanged();
    },
    /** Called if the lease may have been revoked. Grants nothing until the database has confirmed it. */
    markUnverified(): void {
      mustVerify = true;
    },
    /** Returns the available quota because another process needs it. For a while we won't lease more than we need. */
    returnUnused(): void {
      policy.contend();
      onQuotaChanged();
    },
    /** Returns the counter of the next minute if this one was used recently and is about to expire. */
    nextCounter(now: number): LimitedCounter | null {
      const { window, start, end } = key;
      if (window !== 'minute' || end === null || now < start || now >= end) return null;
      const leadMs = minLeadMs + ((lease.generation * 1_000) % leadSpreadMs);
      if (end - now > leadMs || performance.now() - usedAt > idleMs) return null;
      return counterAt({ ...key, start: end, end: end + minuteMs }, limit, readAt);
    },
    /** Leases quota for a window that begins in `aheadMs`, unless we have some already. */
    prepare(aheadMs: number): void {
      if (lease.quota.leased > 0 || health.isDown || mustVerify || !policy.mayPrefetch()) return;
      usedAt = performance.now() + aheadMs;
      state.start('prefetching');
    },
    /** Has to be called every second. `now` is the clock's time. */
    maintain(now: number): void {
      if (state.current() !== 'idle' || (lease.counterId === null && !mustReconcile)) return;
      const { isIdle } = lease.quota;
      const isUnused = performance.now() - usedAt > idleMs;
      if (isIdle && key.window === 'minute' && key.end !== null && now > key.end + keptMs) {
        lease.abandon();
        mustReconcile = false;
      } else if (health.isDown) return;
      else if (mustReconcile) state.start('reconciling');
      else if (isIdle && isUnused) state.start('removing');
      else {
        if (isUnused) mustReturn = true;
        startWork();
      }
    },
    /** Resolves when the available quota has been returned. */
    async close(): Promise<void> {
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
    const first = queue.first();
    if (!first) return nextTask();
    const waiters = queue.snapshot();
    const demand = clampToSafeInteger(queue.demand() - lease.quota.available);
    const takesRemainder = lease.quota.reserved === 0;
    const grant = await acquire({ need: first.bound - lease.quota.available, demand, takesRemainder });
    if (mustVerify || grant === null || (isLeaseTooLarge && lease.quota.available > 0)) return nextTask();
    grantWaiters();
    const isSecondTry = hasRequestedReturn;
    hasRequestedReturn = false;
    if (queue.first() !== first) return nextTask();
    if (grant.heldByOthers > 0 && !isSecondTry) return 'requesting';
    const { reserved, available } = lease.quota;
    // The last reservation ended while the statement was running, so the statement left part of the remainder in the
    // database.
    if (grant.heldByOthers === 0 && reserved === 0 && !takesRemainder) return nextTask();
    // If a call needs more than what's left, it gets all of it, but only while no other call has a reservation.
    if (mayGrant() && grant.heldByOthers === 0 && reserved === 0 && available > 0)
      queue.resolveWhere((waiter) => (waiter === first ? lease.tryGrant(available) : null));
    else {
      wasHeldByCalls = reserved > 0 || grant.heldByOthers > 0;
      queue.deny(first.bound, waiters);
    }
    return nextTask();
  }

  async function requestReturn(): Promise<QuotaTask | 'idle'> {
    if (lease.counterId !== null) {
      policy.contend();
      await lease.requestReturn();
      await new Promise((resolve) => setTimeout(resolve, returnWaitMs()));
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
    // The first lease may exist even if we never got a response. This asks for its counter without acquiring anything.
    if (lease.counterId === null) await lease.acquire({ limit, need: 1, demand: 0, defaultGrant: 0, takesRemainder: false });
    await lease.reconcile();
    return 'idle';
  }

  function nextTask(): QuotaTask | 'idle' {
    // This includes quota that was granted just before another process asked for it.
    if (queue.first() === undefined && policy.isContested() && lease.quota.available > 0) mustReturn = true;
    const canReturn = mustReturn && lease.counterId !== null && lease.quota.available > 0;
    if (queue.first() === undefined && !canReturn) return 'idle';
    if (mustVerify) return 'verifying';
    return mustReturn ? 'returning' : 'acquiring';
  }

  function startWork(): void {
    if (state.current() !== 'idle' || health.isDown) return;
    hasRequestedReturn = false;
    state.start(nextTask());
  }

  function watch<Result>(statement: Promise<Result>): Promise<Result> {
    const onDown = (): void => {
      state.stall();
      queue.resolveWhere(() => unavailable);
    };
    return health.watch(statement, onDown).finally(state.resume);
  }

  async function acquire(request: { need: number; demand: number; takesRemainder: boolean }): Promise<LeaseGrant | null> {
    const requestedLimit = limit;
    const grant = await lease.acquire({ limit, defaultGrant: policy.defaultGrant(limit), ...request });
    policy.recordGrant(grant?.granted ?? 0);
    if (grant && isRequested(grant.counterId)) policy.contend();
    if (requestedLimit > limit) markTooLarge();
    else if (grant && grant.granted > 0) isLeaseTooLarge = false;
    return grant;
  }

  function mayGrant(): boolean {
    return !mustVerify && !isLeaseTooLarge;
  }

  /** Grants waiting calls whatever fits into the available quota, in order of arrival. */
  function grantWaiters(): void {
    if (mayGrant()) queue.resolveWhere(({ bound }) => lease.tryGrant(bound));
  }

  function onQuotaChanged(): void {
    queue.clearDenial();
    if (queue.first()) grantWaiters();
    if ((isLeaseTooLarge || policy.isContested()) && lease.quota.available > 0) mustReturn = true;
    startWork();
  }

  function changeLimit(next: number): void {
    if (next < limit) markTooLarge();
    limit = next;
    queue.clearDenial();
  }

  /**
   * Called when the ceiling was lowered. The available quota, and whatever running calls won't use of their
   * reservations, was leased under the higher ceiling.
   */
  function markTooLarge(): void {
    isLeaseTooLarge = lease.quota.leased > 0;
    mustReturn = lease.quota.available > 0;
  }
}
