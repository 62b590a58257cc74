/**
 * Reserves the upper bounds of a call on its counters, in the order in which they're checked. This is synchronous as
 * long as the process has leased enough quota.
 */
import type { CallResult, ConsumedAmount } from '../core/call.ts';
import { usageFor } from '../core/ceiling-usage.ts';
import { gatewayError } from '../core/errors.ts';
import type { CeilingName } from '../core/windows.ts';
import type { CounterQuota } from './counter-quota.ts';
import { ceilingExceeded, isOpenInAMinute, type LimitedCounter, type Limits } from './counters.ts';
import type { UnmeteredQuota } from './unmetered-quotas.ts';
import type { QuotaGrant, ReserveResult } from './wait-queue.ts';

/**
 * Upper bounds of a call's usage. They aren't hard limits, because a call can use more unless the caller has limited
 * the output.
 */
export interface UsageBounds {
  readonly costNanos: number;
  readonly tokens: number;
}

/** You have to call either `settle` or `release`, exactly once. */
export interface Reservation {
  /**
   * True if the quota store was unavailable and the call was admitted without checking all of its ceilings. This has to
   * be recorded with the call.
   */
  readonly isUnmetered: boolean;
  /**
   * Enlarges the reservation before the next request is sent. Returns false and changes nothing if there isn't enough
   * quota.
   */
  extend(bounds: () => UsageBounds): Promise<boolean>;
  /**
   * Replaces the reservation with the actual usage. Returns `result` with the debits, so that the database updates
   * counters and leases when it stores the call.
   */
  settle(result: CallResult): CallResult;
  /** Releases the reservation of a call that isn't going to be recorded. */
  release(): void;
}

/**
 * We refuse a call without checking its ceilings if the store-down policy is `refuse`, or if it's `allow` and the
 * unmetered share is exhausted.
 */
export type UncheckedRefusal = 'policy' | 'exhausted';

export interface ReservationRequest {
  readonly limits: Limits;
  readonly counters: readonly LimitedCounter[];
  readonly startedAt: number;
  readonly bounds: () => UsageBounds;
  readonly quotaFor: (counter: LimitedCounter) => CounterQuota;
  /** Returns the quota to use while we can't check the counter, or null if the policy is `refuse`. */
  readonly unmeteredQuotaFor: (limits: Limits, counter: LimitedCounter) => UnmeteredQuota | null;
  readonly onUncheckedRefusal: (reason: UncheckedRefusal) => void;
  readonly process: string;
  /** Returns the id of a quota's counter, or null while this process has no lease from it. */
  readonly counterIdOf: (quota: CounterQuota) => number | null;
}

interface CounterGrant {
  readonly quota: CounterQuota | UnmeteredQuota;
  readonly grant: QuotaGrant;
}

/**
 * A call's reservation on one counter. If we have to extend it, we enlarge its grant instead of adding a second one, so
 * that there's a single debit in the end.
 */
interface CounterReservation extends CounterGrant {
  readonly counter: LimitedCounter;
  grant: QuotaGrant;
  /** The amount that we requested. The grant is smaller if there wasn't enough quota left. */
  bound: number;
}

interface Extension extends CounterGrant {
  readonly reservation: CounterReservation;
  readonly bound: number;
}

/** Throws the error of the first ceiling that denies the call. */
export async function reserveAll(request: ReservationRequest): Promise<Reservation> {
  const { counters, quotaFor } = request;
  const bounds = counters.some(isBounded) ? request.bounds() : null;
  const reservation = new CallReservation(request);
  for (const counter of counters) {
    const quota = quotaFor(counter);
    const bound = boundOf(counter.key.ceiling, bounds);
    const result = quota.reserve(bound, counter);
    // Only `await` if we have to, because other calls can run in the meantime. They might be denied because of what
    // this call has reserved, which would be for nothing if a later ceiling then denies this call.
    reservation.add(result instanceof Promise ? await result : result, counter, quota, bound);
  }
  return reservation;
}

/** A class, because with an object literal each call would allocate its own methods. */
class CallReservation implements Reservation {
  isUnmetered = false;
  readonly #request: ReservationRequest;
  readonly #reservations: CounterReservation[] = [];

  constructor(request: ReservationRequest) {
    this.#request = request;
  }

  add(result: ReserveResult, counter: LimitedCounter, quota: CounterQuota, bound: number): void {
    switch (result.kind) {
      case 'granted':
        this.#reservations.push({ counter, quota, grant: result, bound });
        return;
      case 'denied':
        this.release();
        throw ceilingExceeded(counter, isLasting(counter, quota, this.#request.startedAt));
      case 'unavailable':
        this.#addUnmetered(counter, bound);
    }
  }

  #addUnmetered(counter: LimitedCounter, bound: number): void {
    const { limits, unmeteredQuotaFor, onUncheckedRefusal } = this.#request;
    const quota = unmeteredQuotaFor(limits, counter);
    const grant = quota?.reserve(bound, counter);
    if (!quota || grant?.kind !== 'granted') {
      this.release();
      onUncheckedRefusal(quota ? 'exhausted' : 'policy');
      throw gatewayError('budget_unavailable', {
        message: 'the ceilings cannot be checked at the moment; try again later',
        refusal: { reason: 'ceilings_unchecked', rule: `${counter.key.ceiling}/${counter.key.window}`, limit: counter.limit },
      });
    }
    this.isUnmetered = true;
    this.#reservations.push({ counter, quota, grant, bound });
  }

  async extend(larger: () => UsageBounds): Promise<boolean> {
    const bounded = this.#reservations.filter(({ counter }) => isBounded(counter));
    if (bounded.length === 0) return true;
    const extensions = await reserveExtensions(bounded, larger());
    if (extensions === null) return false;
    for (const { reservation: extended, grant, bound } of extensions) {
      extended.grant = { ...extended.grant, reserved: extended.grant.reserved + grant.reserved };
      extended.bound = bound;
    }
    return true;
  }

  settle(result: CallResult): CallResult {
    const { process, counterIdOf } = this.#request;
    const amounts: ConsumedAmount[] = [];
    for (const { counter: limited, quota, grant } of this.#reservations) {
      const spent = Math.max(0, usageFor(limited.key.ceiling, result));
      const amount = quota.settle(grant, spent);
      if (amount === null || !(spent > 0) || !('counterId' in quota)) continue;
      const counter = counterIdOf(quota);
      if (counter === null) continue;
      const { generation } = grant;
      amounts.push(spent > amount ? { counter, generation, amount, owed: spent - amount } : { counter, generation, amount });
    }
    // We've filled the array with `push`, for which V8 reserves space for 17 elements. The array stays in memory until
    // the call is stored, so copy it to one of the right size.
    return amounts.length === 0 ? result : { ...result, consumed: { process, amounts: amounts.slice() } };
  }

  release(): void {
    releaseAll(this.#reservations);
  }
}

/**
 * Reserves additional amounts on all counters. If one of them doesn't have enough quota, releases the others and
 * returns null.
 */
async function reserveExtensions(reservations: readonly CounterReservation[], bounds: UsageBounds): Promise<Extension[] | null> {
  const extensions: Extension[] = [];
  for (const reservation of reservations) {
    const { counter, quota, grant } = reservation;
    const bound = boundOf(counter.key.ceiling, bounds);
    // If the counter couldn't grant the full bound before, it has nothing left for an extension either.
    if (bound <= reservation.bound || grant.reserved < reservation.bound) continue;
    const result = await quota.reserve(bound - reservation.bound, counter);
    if (result.kind === 'granted') extensions.push({ reservation, quota, grant: result, bound });
    // If the generation is different, the lease has been revoked in the meantime, and we can't merge a grant from the
    // new lease with the old one.
    if (result.kind !== 'granted' || result.generation !== grant.generation) {
      releaseAll(extensions);
      return null;
    }
  }
  return extensions;
}

function releaseAll(grants: readonly CounterGrant[]): void {
  for (const { quota, grant } of grants) quota.settle(grant, 0);
}

function isBounded({ key: { ceiling } }: LimitedCounter): boolean {
  return ceiling === 'cost' || ceiling === 'tpm';
}

/**
 * Returns true if the ceiling would also deny a retry within a minute. Running calls often use less than they have
 * reserved, so a retry may succeed when they end. However, that doesn't help with `calls` ceilings, where each call
 * counts as one.
 */
function isLasting({ key }: LimitedCounter, quota: CounterQuota, startedAt: number): boolean {
  return isOpenInAMinute(key, startedAt) && (key.ceiling === 'calls' || !quota.wasHeldByCalls());
}

export function boundOf(ceiling: CeilingName, bounds: UsageBounds | null): number {
  // Even if a model is free, reserve at least 1, so that an exhausted cost ceiling denies its calls too
  // (`tenant_capped`).
  if (ceiling === 'cost') return Math.max(1, bounds?.costNanos ?? 0);
  return ceiling === 'tpm' ? (bounds?.tokens ?? 0) : 1;
}
