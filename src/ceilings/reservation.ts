/**
 * Reserves one call's upper bounds, counter by counter in the order of denial. Synchronous unless a lease must be acquired: from that counter on it
 * is asynchronous.
 */
import type { CallResult, ConsumedAmount } from '../core/call.ts';
import { usageFor } from '../core/ceiling-usage.ts';
import { gatewayError } from '../core/errors.ts';
import type { CeilingName } from '../core/windows.ts';
import type { CounterQuota } from './counter-quota.ts';
import { ceilingExceeded, isOpenInAMinute, type LimitedCounter, type Limits } from './counters.ts';
import type { UnmeteredQuota } from './unmetered-quotas.ts';
import type { QuotaGrant, ReserveResult } from './wait-queue.ts';

/** What is reserved for a call; an upper bound only when the caller limits the output. */
export interface UsageBounds {
  readonly costNanos: number;
  readonly tokens: number;
}

/** Exactly one of `settle` and `release` must be called, once. */
export interface Reservation {
  /** The quota store was unavailable: the call runs without some of its ceilings, and its record must say so. */
  readonly isUnmetered: boolean;
  /** Enlarges the reservation of a call that has not been sent yet. False when it does not fit; the reservation is unchanged then. */
  extend(bounds: () => UsageBounds): Promise<boolean>;
  /** Converts the reservation to usage. Returns `result` with the debits to be recorded, so that row and leases are counted together. */
  settle(result: CallResult): CallResult;
  /** Ends the reservation of a call that leaves no record. */
  release(): void;
}

/**
 * Why a call whose ceilings could not be checked was refused: the policy is `refuse`, or the counter's unmetered
 * share is exhausted.
 */
export type UncheckedRefusal = 'policy' | 'exhausted';

export interface ReservationRequest {
  readonly limits: Limits;
  readonly counters: readonly LimitedCounter[];
  /** When the call started. */
  readonly startedAt: number;
  /** Called only where a ceiling needs it. */
  readonly bounds: () => UsageBounds;
  readonly quotaFor: (counter: LimitedCounter) => CounterQuota;
  /** Returns the quota that calls may use while the counter can't be checked. Null if the policy is `refuse`. */
  readonly unmeteredQuotaFor: (limits: Limits, counter: LimitedCounter) => UnmeteredQuota | null;
  readonly onUncheckedRefusal: (reason: UncheckedRefusal) => void;
  /** Id of this process's journal. */
  readonly process: string;
  /** The id of the counter whose quota a call has used; null while this process has no lease of it. */
  readonly counterIdOf: (quota: CounterQuota) => number | null;
}

interface CounterGrant {
  readonly quota: CounterQuota | UnmeteredQuota;
  readonly grant: QuotaGrant;
}

/** One grant for each counter, enlarged when the call is extended: settling then debits all of it. */
interface CounterReservation extends CounterGrant {
  readonly counter: LimitedCounter;
  grant: QuotaGrant;
  /** What was requested: more than the grant if that was all there was. */
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

/** Throws, or rejects with, the error of the first ceiling that denies the call. */
export function reserveAll(request: ReservationRequest): Reservation | Promise<Reservation> {
  const bounds = request.counters.some(isBounded) ? request.bounds() : null;
  return new CallReservation(request).reserveFrom(0, bounds);
}

/** A class, because every call has one: in an object literal each method is another object. */
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

  /** Not in the loop, which would need a closure for each counter. */
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
        throw ceilingExceeded(counter.key, isLasting(counter, quota, this.#request.startedAt));
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
      throw gatewayError('budget_unavailable', { message: 'the ceilings cannot be checked at the moment' });
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
    // A copy: an array that has grown has space for 17 elements, and this one is kept until the call is stored.
    return amounts.length === 0 ? result : { ...result, consumed: { process, amounts: amounts.slice() } };
  }

  release(): void {
    releaseAll(this.#reservations);
  }
}

/** Null when one of them does not fit; nothing more is reserved then. */
async function reserveExtensions(reservations: readonly CounterReservation[], bounds: UsageBounds): Promise<Extension[] | null> {
  const extensions: Extension[] = [];
  for (const reservation of reservations) {
    const { counter, quota, grant } = reservation;
    const bound = boundOf(counter.key.ceiling, bounds);
    // A call granted less than its bound already has everything there is, as the counter's only call.
    if (bound <= reservation.bound || grant.reserved < reservation.bound) continue;
    const result = await quota.reserve(bound - reservation.bound, counter);
    if (result.kind === 'granted') extensions.push({ reservation, quota, grant: result, bound });
    // A grant of another generation: the lease of this reservation was revoked meanwhile, and the two cannot be joined.
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
 * Reports whether a retry within a minute would be denied, too. Running calls often use less than they have reserved, except of the
 * ceiling `calls`, so a retry may succeed when they end.
 */
function isLasting({ key }: LimitedCounter, quota: CounterQuota, startedAt: number): boolean {
  return isOpenInAMinute(key, startedAt) && (key.ceiling === 'calls' || !quota.wasHeldByCalls());
}

/** What a call with these bounds reserves on a counter. */
export function boundOf(ceiling: CeilingName, bounds: UsageBounds | null): number {
  // An exhausted ceiling denies every call, also of a model without cost (`tenant_capped`).
  if (ceiling === 'cost') return Math.max(1, bounds?.costNanos ?? 0);
  return ceiling === 'tpm' ? (bounds?.tokens ?? 0) : 1;
}
