/**
 * Reserves a call's upper bounds on its counters, one by one, in the order in which they can deny it. We only wait if we
 * have to acquire a lease for one of the counters.
 */
import type { CallResult, ConsumedAmount } from '../core/call.ts';
import { usageFor } from '../core/ceiling-usage.ts';
import { gatewayError } from '../core/errors.ts';
import type { CeilingName } from '../core/windows.ts';
import type { CounterQuota } from './counter-quota.ts';
import { ceilingExceeded, isOpenInAMinute, type LimitedCounter, type Limits } from './counters.ts';
import type { UnmeteredQuota } from './unmetered-quotas.ts';
import type { QuotaGrant, ReserveResult } from './wait-queue.ts';

/** How much to reserve for a call. Unless the caller limits the output, the call can still use more than this. */
export interface UsageBounds {
  readonly costNanos: number;
  readonly tokens: number;
}

/** A call's reservation. You have to call either `settle` or `release`, exactly once. */
export interface Reservation {
  /**
   * True if the quota store was unavailable, so that some of the call's ceilings weren't checked. The call's record has
   * to say so.
   */
  readonly isUnmetered: boolean;
  /**
   * Enlarges the reservation before the call is sent. If there isn't enough quota, returns false and leaves the
   * reservation as it is.
   */
  extend(bounds: () => UsageBounds): Promise<boolean>;
  /**
   * Replaces the reservation with the actual usage. Returns `result` with the debits added, so that the database
   * updates the counters and leases when it stores the call.
   */
  settle(result: CallResult): CallResult;
  /** Gives back the reservation of a call that isn't going to be recorded. */
  release(): void;
}

/**
 * The reason for refusing a call whose ceilings couldn't be checked. Either the store-down policy is `refuse`, or the
 * calls that we allow without a check have used up their share of the ceiling.
 */
export type UncheckedRefusal = 'policy' | 'exhausted';

export interface ReservationRequest {
  readonly limits: Limits;
  readonly counters: readonly LimitedCounter[];
  /** When the call started, in epoch milliseconds. */
  readonly startedAt: number;
  /** Returns the upper bounds of the call. Only called if a ceiling needs them. */
  readonly bounds: () => UsageBounds;
  readonly quotaFor: (counter: LimitedCounter) => CounterQuota;
  /** Returns the quota to use while we can't check the counter. Null if the policy is `refuse`. */
  readonly unmeteredQuotaFor: (limits: Limits, counter: LimitedCounter) => UnmeteredQuota | null;
  readonly onUncheckedRefusal: (reason: UncheckedRefusal) => void;
  /** The id of this process's journal. */
  readonly process: string;
  /** Returns the id of a quota's counter. Null if this process doesn't have a lease from it yet. */
  readonly counterIdOf: (quota: CounterQuota) => number | null;
}

interface CounterGrant {
  readonly quota: CounterQuota | UnmeteredQuota;
  readonly grant: QuotaGrant;
}

/**
 * A call's reservation on one counter. If the call is extended, the grant is enlarged, so that settling the call debits
 * everything at once.
 */
interface CounterReservation extends CounterGrant {
  readonly counter: LimitedCounter;
  grant: QuotaGrant;
  /** What the call has asked for. If too little quota was left, the grant is smaller. */
  bound: number;
}

interface Extension extends CounterGrant {
  readonly reservation: CounterReservation;
  readonly bound: number;
}

/** Reserves quota on all counters. Throws the error of the first ceiling that denies the call. */
export async function reserveAll(request: ReservationRequest): Promise<Reservation> {
  const { counters, quotaFor } = request;
  const bounds = counters.some(isBounded) ? request.bounds() : null;
  const reservation = new CallReservation(request);
  for (const counter of counters) {
    const quota = quotaFor(counter);
    const bound = boundOf(counter.key.ceiling, bounds);
    const result = quota.reserve(bound, counter);
    // If the quota is here, don't let other calls run in between. A call that a later ceiling denies would otherwise
    // take away their quota for a moment.
    reservation.add(result instanceof Promise ? await result : result, counter, quota, bound);
  }
  return reservation;
}

/** This is a class because there's one per call, and an object literal would allocate its methods each time. */
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
        message: 'the ceilings cannot be checked at the moment',
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
    // Filling the array made V8 reserve 17 elements. We hold on to it until the call is stored, so make a copy of the
    // right size.
    return amounts.length === 0 ? result : { ...result, consumed: { process, amounts: amounts.slice() } };
  }

  release(): void {
    releaseAll(this.#reservations);
  }
}

/**
 * Reserves the additional amount on each counter. If one of them doesn't have enough quota, releases the other amounts
 * and returns null.
 */
async function reserveExtensions(reservations: readonly CounterReservation[], bounds: UsageBounds): Promise<Extension[] | null> {
  const extensions: Extension[] = [];
  for (const reservation of reservations) {
    const { counter, quota, grant } = reservation;
    const bound = boundOf(counter.key.ceiling, bounds);
    // A counter without enough quota for the bound already gave us all it had, so there's nothing more to reserve.
    if (bound <= reservation.bound || grant.reserved < reservation.bound) continue;
    const result = await quota.reserve(bound - reservation.bound, counter);
    if (result.kind === 'granted') extensions.push({ reservation, quota, grant: result, bound });
    // The new grant has a different generation if the original lease was revoked in the meantime. We can't merge the
    // two.
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
 * Returns true if a retry within a minute would be denied too. Running calls often use less than they have reserved, so
 * a retry can succeed once they've ended. That isn't true for `calls` ceilings, which count each call as one.
 */
function isLasting({ key }: LimitedCounter, quota: CounterQuota, startedAt: number): boolean {
  return isOpenInAMinute(key, startedAt) && (key.ceiling === 'calls' || !quota.wasHeldByCalls());
}

export function boundOf(ceiling: CeilingName, bounds: UsageBounds | null): number {
  // At least 1, so that an exhausted cost ceiling also denies calls to free models (`tenant_capped`).
  if (ceiling === 'cost') return Math.max(1, bounds?.costNanos ?? 0);
  return ceiling === 'tpm' ? (bounds?.tokens ?? 0) : 1;
}
