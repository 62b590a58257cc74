/**
 * Manages this process's quota from one counter. As long as the lease is large enough, reservations are immediate.
 * Otherwise we acquire more quota, with a single statement for all waiting calls. An exhausted lease isn't a reason to
 * deny a call. We only deny it if the database says so.
 *
 * This is a state machine (`quota-state.ts`). For each state there's a function below that executes a statement and
 * returns the next state.
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
  /** How long we wait for other processes to return available quota. */
  readonly returnWaitMs: () => number;
  /** True if another process wanted quota of this counter recently and we couldn't give any. */
  readonly isRequested: (counterId: number) => boolean;
  readonly onTransition?: (from: QuotaState, to: QuotaState) => void;
}

const unavailable: ReserveResult = { kind: 'unavailable' };

const idleMs = 10_000;
/** How long we keep a minute's quota after that minute ends, because other processes may have slower clocks. */
const keptMs = 5_000;
/**
 * We lease quota for the next minute when between 2 and 8 seconds of the current one are left. The time varies per key,
 * so that keys don't all do it at once.
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
      mustReconcile = true; // already logged by `health`
    },
    onIdle: startWork,
    onTransition,
  });
  let { limit, readAt } = counter;
  /** True if another process may have revoked our lease. We then have to ask the database before we grant anything. */
  let mustVerify = false;
  /** True if a statement failed and we don't know whether the database executed it. */
  let mustReconcile = false;
  let mustReturn = false;
  /**
   * True if we leased our quota under a higher ceiling. It's frozen until the database has granted quota under the
   * current one.
   */
  let isLeaseTooLarge = false;
  /** Set once we've asked other processes to return quota for the call at the head of the queue. */
  let hasRequestedReturn = false;
  /**
   * True if the last denial was caused by reservations of running calls, in this process or in others. Such a call can
   * succeed once they end.
   */
  let wasHeldByCalls = false;
  let usedAt = performance.now();

  return {
    /** Returns the id of the counter's row in `limit_counters`. Null before the first lease. */
    counterId: (): number | null => lease.counterId,
    reserved: (): number => lease.quota.reserved,
    wasHeldByCalls: (): boolean => wasHeldByCalls,
    /**
     * True if this counter can be forgotten without losing anything, because we hold no quota for it here or in the
     * database.
     */
    isEvictable: (): boolean =>
      lease.quota.leased === 0 &&
      lease.quota.isIdle &&
      queue.first() === undefined &&
      state.current() === 'idle' &&
      lease.counterId === null &&
      !mustReconcile,
    /**
     * Reserves `bound`. If less than that is left in total, this reserves what's left. Only returns a promise if we
     * have to ask the database.
     */
    reserve(bound: number, current: LimitedCounter): ReserveResult | Promise<ReserveResult> {
      usedAt = performance.now();
      if (bound === 0) return { kind: 'granted', reserved: 0, generation: lease.generation };
      // A call can carry outdated limits if it was queued, is being extended or arrived slowly. So we only adopt limits
      // that are newer than ours.
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
     * Called when a call ends, with what it has really used. Returns how much to debit from the lease, or null if the
     * lease was revoked or there's none.
     */
    settle({ reserved, generation }: QuotaGrant, spent: number): number | null {
      // Without a lease, nothing was reserved here, and we don't know which counter to debit.
      if (generation !== lease.generation || lease.counterId === null) return null;
      const amount = lease.quota.settle(reserved, spent);
      onQuotaChanged();
      return amount;
    },
    /** Call this once a call's usage is counted in the database. */
    commit({ generation, amount, owed = 0 }: ConsumedAmount): void {
      if (generation !== lease.generation) return;
      lease.quota.commit(amount, owed);
      // The overdraft is part of the counter now, so it's no longer counted twice. A cached denial may have been caused
      // by that, so drop it.
      if (owed > 0) queue.clearDenial();
    },
    /** Call this if the database will never count a call's usage. The call's debit is then undone. */
    revert({ generation, amount, owed = 0 }: ConsumedAmount): void {
      if (generation !== lease.generation) return;
      lease.quota.revert(amount, owed);
      onQuotaChanged();
    },
    /** Called if our lease may have been revoked. We don't grant anything until the database has confirmed it. */
    markUnverified(): void {
      mustVerify = true;
    },
    /**
     * Returns available quota to the database because another process needs it. For a while after this, we don't lease
     * more than we need.
     */
    returnUnused(): void {
      policy.contend();
      onQuotaChanged();
    },
    /** Creates the counter of the next minute if this one was used recently and is about to end. Otherwise null. */
    nextCounter(now: number): LimitedCounter | null {
      const { window, start, end } = key;
      if (window !== 'minute' || end === null || now < start || now >= end) return null;
      const leadMs = minLeadMs + ((lease.generation * 1_000) % leadSpreadMs);
      if (end - now > leadMs || performance.now() - usedAt > idleMs) return null;
      return counterAt({ ...key, start: end, end: end + minuteMs }, limit, readAt);
    },
    /** Leases quota in advance for a window that begins in `aheadMs`, unless we already have some. */
    prepare(aheadMs: number): void {
      if (lease.quota.leased > 0 || health.isDown || mustVerify || !policy.mayPrefetch()) return;
      usedAt = performance.now() + aheadMs;
      state.start('prefetching');
    },
    /** Does the counter's periodic work. Call this once per second with the clock's current time. */
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
    /** Returns the available quota to the database. Resolves when that's done. */
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
    // The last reservation ended while our statement ran. The statement still took it into account and held something
    // back, so try again.
    if (grant.heldByOthers === 0 && reserved === 0 && !takesRemainder) return nextTask();
    // If no call has a reservation, the first waiting call gets everything that's left, even if it needs more than
    // that.
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
    // A response to our first acquire statement may have got lost, so we could have a lease that we don't know of. This
    // one looks for the counter without acquiring anything.
    if (lease.counterId === null) await lease.acquire({ limit, need: 1, demand: 0, defaultGrant: 0, takesRemainder: false });
    await lease.reconcile();
    return 'idle';
  }

  function nextTask(): QuotaTask | 'idle' {
    // Another process wants our quota and no call is waiting for it here, so return it. This includes quota that we
    // were granted just before the other process asked.
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

  /**
   * Grants the available quota to waiting calls in the order in which they arrived. Calls that need more than what's
   * left keep waiting.
   */
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
   * Called when somebody has lowered the ceiling. We leased all of our quota under the old ceiling, including the part
   * that running calls have reserved and may not use.
   */
  function markTooLarge(): void {
    isLeaseTooLarge = lease.quota.leased > 0;
    mustReturn = lease.quota.available > 0;
  }
}
