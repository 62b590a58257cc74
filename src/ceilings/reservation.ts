/**
 * Reserves one call's upper bounds, counter by counter in the order of denial. This is synchronous until we reach a
 * counter for which we have to acquire a lease.
 */
import type { CallResult, ConsumedAmount } from '../core/call.ts';
import { usageFor } from '../core/ceiling-usage.ts';
import { gatewayError } from '../core/errors.ts';
import type { CeilingName } from '../core/windows.ts';
import type { CounterQuota } from './counter-quota.ts';
import { ceilingExceeded, isOpenInAMinute, type LimitedCounter, type Limits } from './counters.ts';
import type { UnmeteredQuota } from './unmetered-quotas.ts';
import type { QuotaGrant, ReserveResult } from './wait-queue.ts';

/** The amounts that we reserve for a call. They are upper bounds only if the caller limits the output. */
export interface UsageBounds {
  readonly costNanos: number;
  readonly tokens: number;
}

/** Call either `settle` or `release`, exactly once. */
export interface Reservation {
  /**
   * True if the quota store was unavailable. The call then runs without some of its ceilings, and its record has to say
   * so.
   */
  readonly isUnmetered: boolean;
  /**
   * Enlarges the reservation of a call that hasn't been sent yet. Returns false if it doesn't fit, and leaves the
   * reservation unchanged.
   */
  extend(bounds: () => UsageBounds): Promise<boolean>;
  /**
   * Converts the reservation to usage. Returns `result` with the debits, which we record so that the row and the leases
   * are counted together.
   */
  settle(result: CallResult): CallResult;
  /** Ends the reservation of a call that leaves no record. */
  release(): void;
}

/**
 * Why we refused a call whose ceilings we couldn't check. Either the policy is `refuse`, or the counter's unmetered
 * share is exhausted.
 */
export type UncheckedRefusal = 'policy' | 'exhausted';

export interface ReservationRequest {
  readonly limits: Limits;
  readonly counters: readonly LimitedCounter[];
  /** When the call started, in epoch milliseconds. */
  readonly startedAt: number;
  /** Only called if a ceiling needs it. */
  readonly bounds: () => UsageBounds;
  readonly quotaFor: (counter: LimitedCounter) => CounterQuota;
  /** Returns the quota that calls may use while we can't check the counter. Null if the policy is `refuse`. */
  readonly unmeteredQuotaFor: (limits: Limits, counter: LimitedCounter) => UnmeteredQuota | null;
  readonly onUncheckedRefusal: (reason: UncheckedRefusal) => void;
  /** The id of this process's journal. */
  readonly process: string;
  /** Returns the id of the counter whose quota a call has used. Null while this process has no lease of it. */
  readonly counterIdOf: (quota: CounterQuota) => number | null;
}

interface CounterGrant {
  readonly quota: CounterQuota | UnmeteredQuota;
  readonly grant: QuotaGrant;
}

/** There is one grant per counter. Extending a call enlarges the grant, so that settling it debits all of it. */
interface CounterReservation extends CounterGrant {
  readonly counter: LimitedCounter;
  grant: QuotaGrant;
  /** The amount that was requested. It's more than the grant if the grant was all that was left. */
  bound: number;
}

interface Extension extends CounterGrant {
  readonly reservation: CounterReservation;
  readonly bound: number;
}

interface PendingGrant {
  readonly result: Promise<ReserveResult>;
  readonly counter: LimitedCounter;
  readonly quota: CounterQuota;
  readonly bound: number;
}

/** Throws or rejects with the error of the first ceiling that denies the call. */
export function reserveAll(request: ReservationRequest): Reservation | Promise<Reservation> {
  const bounds = request.counters.some(isBounded) ? request.bounds() : null;
  return new CallReservation(request).reserveFrom(0, bounds);
}

/** This is a class because every call needs one, and an object literal would allocate each method again. */
class CallReservation implements Reservation {
  isUnmetered = false;
  readonly #request: ReservationRequest;
  readonly #reservations: CounterReservation[] = [];

  constructor(request: ReservationRequest) {
    this.#request = request;
  }

  reserveFrom(first: number, bounds: UsageBounds | null): Reservation | Promise<Reservation> {
    const { counters, quotaFor } = this.#request;
    for (let index = first; index < counters.length; index += 1) {
      const counter = counters[index];
      if (!counter) break;
      const quota = quotaFor(counter);
      const bound = boundOf(counter.key.ceiling, bounds);
      const result = quota.reserve(bound, counter);
      if (result instanceof Promise) return this.#resumeAt(index, bounds, { result, counter, quota, bound });
      this.#add(result, counter, quota, bound);
    }
    return this;
  }

  /** This isn't part of the loop because it would need a closure for each counter. */
  #resumeAt(index: number, bounds: UsageBounds | null, { result, counter, quota, bound }: PendingGrant): Promise<Reservation> {
    return result.then((late) => {
      this.#add(late, counter, quota, bound);
      return this.reserveFrom(index + 1, bounds);
    });
  }

  #add(result: ReserveResult, counter: LimitedCounter, quota: CounterQuota, bound: number): void {
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
    // We copy the array because one that has grown has space for 17 elements, and we keep it until the call is stored.
    return amounts.length === 0 ? result : { ...result, consumed: { process, amounts: amounts.slice() } };
  }

  release(): void {
    releaseAll(this.#reservations);
  }
}

/** Returns null if one of them doesn't fit, and reserves nothing more. */
async function reserveExtensions(reservations: readonly CounterReservation[], bounds: UsageBounds): Promise<Extension[] | null> {
  const extensions: Extension[] = [];
  for (const reservation of reservations) {
    const { counter, quota, grant } = reservation;
    const bound = boundOf(counter.key.ceiling, bounds);
    // A call that was granted less than its bound is the counter's only call and already has everything that's left.
    if (bound <= reservation.bound || grant.reserved < reservation.bound) continue;
    const result = await quota.reserve(bound - reservation.bound, counter);
    if (result.kind === 'granted') extensions.push({ reservation, quota, grant: result, bound });
    // If the generation is different, the lease of this reservation was revoked in the meantime, and we can't merge the
    // two grants.
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
 * Reports whether a retry within a minute would be denied, too. Running calls often use less than they've reserved, so
 * a retry may succeed once they end. That doesn't apply to the ceiling `calls`.
 */
function isLasting({ key }: LimitedCounter, quota: CounterQuota, startedAt: number): boolean {
  return isOpenInAMinute(key, startedAt) && (key.ceiling === 'calls' || !quota.wasHeldByCalls());
}

/** Returns what a call with these bounds reserves on a counter. */
export function boundOf(ceiling: CeilingName, bounds: UsageBounds | null): number {
  // We reserve at least 1, so that an exhausted ceiling denies every call, even if its model is free (`tenant_capped`).
  if (ceiling === 'cost') return Math.max(1, bounds?.costNanos ?? 0);
  return ceiling === 'tpm' ? (bounds?.tokens ?? 0) : 1;
}
