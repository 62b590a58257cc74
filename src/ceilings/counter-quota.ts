/**
 * Manages the quota that this process has from one counter. As long as the lease is large enough, reservations are
 * immediate. If it isn't, we acquire more quota, with a single statement for all waiting calls. An exhausted lease
 * isn't a reason to deny a call. Only the database can decide that.
 *
 * This is a state machine (`quota-state.ts`). For each state, there's a function below that executes a statement and
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
  /** Returns true if another process has recently asked for quota of this counter and we had none to return. */
  readonly isRequested: (counterId: number) => boolean;
  readonly onTransition?: (from: QuotaState, to: QuotaState) => void;
}

const unavailable: ReserveResult = { kind: 'unavailable' };

const idleMs = 10_000;
/** After the end of a minute, keep its quota for this long, because the clocks of other processes may be behind. */
const keptMs = 5_000;
/**
 * Lease quota for the next minute when 1 to 7 seconds of the current one are left. The exact time depends on the
 * lease's generation, so that not all counters do it at once.
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
      mustReconcile = true; // The error itself has already been logged by `health`.
    },
    onIdle: startWork,
    onTransition,
  });
  let { limit, readAt } = counter;
  /**
   * True if our lease may have been revoked by another process. In that case we don't grant any quota until the
   * database has confirmed the lease.
   */
  let mustVerify = false;
  /** True if a statement has failed and we don't know whether the database has executed it. */
  let mustReconcile = false;
  let mustReturn = false;
  /**
   * True if the ceiling has been lowered since we leased our quota. In that case we don't grant any quota until the
   * database has confirmed our lease under the new ceiling.
   */
  let isLeaseTooLarge = false;
  /** True if we've already asked other processes to return quota on behalf of the first call in the queue. */
  let hasRequestedReturn = false;
  /**
   * True if the last call was only denied because of the reservations of running calls, here or in other processes. A
   * retry can succeed when they end.
   */
  let wasHeldByCalls = false;
  let usedAt = performance.now();

  return {
    /** The id of a row in `limit_counters`. Null while this process has no lease from the counter. */
    counterId: (): number | null => lease.counterId,
    reserved: (): number => lease.quota.reserved,
    wasHeldByCalls: (): boolean => wasHeldByCalls,
    /**
     * Returns true if this process holds no quota of the counter, neither in memory nor in the database, and no work on
     * it is pending.
     */
    isEvictable: (): boolean =>
      lease.quota.leased === 0 &&
      lease.quota.isIdle &&
      queue.first() === undefined &&
      state.current() === 'idle' &&
      lease.counterId === null &&
      !mustReconcile,
    /**
     * Reserves `bound`, or whatever is left if no other process can return any quota. Returns a promise only if we have
     * to ask the database.
     */
    reserve(bound: number, current: LimitedCounter): ReserveResult | Promise<ReserveResult> {
      usedAt = performance.now();
      if (bound === 0) return { kind: 'granted', reserved: 0, generation: lease.generation };
      // A call's limits can be outdated, e.g. because it was queued or its body arrived slowly. So we only use them if
      // they were read after the ones that we already have.
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
     * Call this with the actual usage when a call ends. Returns how much to debit from the lease, or null if the lease
     * doesn't exist or has been revoked.
     */
    settle({ reserved, generation }: QuotaGrant, spent: number): number | null {
      // The lease that this grant came from is gone, or there never was one. So there's no reservation to end and no
      // counter to debit.
      if (generation !== lease.generation || lease.counterId === null) return null;
      const amount = lease.quota.settle(reserved, spent);
      onQuotaChanged();
      return amount;
    },
    /** Call this once the database has counted a call's usage. */
    commit({ generation, amount, owed = 0 }: ConsumedAmount): void {
      if (generation !== lease.generation) return;
      lease.quota.commit(amount, owed);
      // Until now, we deducted the overdraft from the limit ourselves, which may have caused the cached denial. The
      // counter includes it from now on, so clear the denial.
      if (owed > 0) queue.clearDenial();
    },
    /** Undoes the debit of a call. Call this if the database is never going to count the call's usage. */
    revert({ generation, amount, owed = 0 }: ConsumedAmount): void {
      if (generation !== lease.generation) return;
      lease.quota.revert(amount, owed);
      onQuotaChanged();
    },
    /** Call this if our lease may have been revoked. Nothing is granted until the database has confirmed it. */
    markUnverified(): void {
      mustVerify = true;
    },
    /**
     * Returns available quota to the database because another process needs it. For a while, we then lease no more than
     * we need.
     */
    returnUnused(): void {
      policy.contend();
      onQuotaChanged();
    },
    /**
     * Returns the counter of the next minute if this one is for a minute that's about to end and was used recently.
     * Returns null otherwise.
     */
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
    /** Does the regular maintenance of the quota. Call this once per second. */
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
    /** Returns the available quota to the database, and resolves when that has been done. */
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
    // The database only grants a remainder smaller than `need` to a process that has no reservations. We still had some
    // when the statement ran, but they have ended since, so try again.
    if (grant.heldByOthers === 0 && reserved === 0 && !takesRemainder) return nextTask();
    // If nobody has reserved anything, the first waiting call gets all that's left, even if it needs more.
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
    // If we never got the response to our first acquire statement, we may have a lease without knowing the id of its
    // counter. So get the id with a statement that acquires no quota.
    if (lease.counterId === null) await lease.acquire({ limit, need: 1, demand: 0, defaultGrant: 0, takesRemainder: false });
    await lease.reconcile();
    return 'idle';
  }

  function nextTask(): QuotaTask | 'idle' {
    // Return quota that another process wants, unless one of our own calls is waiting for it. We do this even if we've
    // only just acquired the quota.
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

  /** Grants quota to waiting calls, first come, first served. A call that needs more than what's left keeps waiting. */
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
   * Call this if the ceiling has been lowered. All of our quota was leased under the old one, including reservations
   * that running calls might not use up.
   */
  function markTooLarge(): void {
    isLeaseTooLarge = lease.quota.leased > 0;
    mustReturn = lease.quota.available > 0;
  }
}
