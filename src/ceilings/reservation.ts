/**
 * Reserves one call's upper bounds, counter by counter in the order of denial. Synchronous unless a lease must be acquired: from that counter on it
 * is asynchronous.
 */
import type { CallResult } from '../core/call.ts';
import { usageFor } from '../core/ceiling-usage.ts';
import { gatewayError } from '../core/errors.ts';
import type { CeilingName } from '../core/windows.ts';
import type { CounterQuota } from './counter-quota.ts';
import { ceilingExceeded, type LimitedCounter } from './counters.ts';
import type { Debit } from './local-quota.ts';
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

export interface ReservationRequest {
  readonly counters: readonly LimitedCounter[];
  readonly limitsReadAt: number;
  /** Called only where a ceiling needs it. */
  readonly bounds: () => UsageBounds;
  readonly quotaFor: (counter: LimitedCounter) => CounterQuota;
  readonly onStoreDown: () => 'allow' | 'refuse';
  /** Returns `result` with the debits. */
  readonly attachDebits: (result: CallResult, debits: readonly LeaseDebit[]) => CallResult;
}

/** What a settled call has used of a lease. */
export interface LeaseDebit {
  readonly quota: CounterQuota;
  readonly generation: number;
  readonly debit: Debit;
}

interface CounterGrant {
  readonly quota: CounterQuota;
  readonly grant: QuotaGrant;
}

/** One grant for each counter, enlarged when the call is extended: settling then debits all of it. */
interface CounterReservation extends CounterGrant {
  readonly ceiling: CeilingName;
  readonly limit: number;
  grant: QuotaGrant;
  /** What was requested: more than the grant if that was all there was. */
  bound: number;
}

interface Extension extends CounterGrant {
  readonly reservation: CounterReservation;
  readonly bound: number;
}

interface PendingGrant {
  readonly counter: LimitedCounter;
  readonly quota: CounterQuota;
  readonly bound: number;
}

/** Throws, or rejects with, the error of the first ceiling that denies the call. */
export function reserveAll(request: ReservationRequest): Reservation | Promise<Reservation> {
  const { counters, limitsReadAt, quotaFor, onStoreDown, attachDebits } = request;
  const reservations: CounterReservation[] = [];
  const bounds = counters.some(({ key }) => isBounded(key.ceiling)) ? request.bounds() : null;
  let isUnmetered = false;

  const release = (): void => releaseAll(reservations);

  const addResult = (result: ReserveResult, { counter: { key, limit }, quota, bound }: PendingGrant): void => {
    switch (result.kind) {
      case 'granted':
        reservations.push({ ceiling: key.ceiling, quota, grant: result, bound, limit });
        return;
      case 'denied':
        release();
        throw ceilingExceeded(key);
      case 'unavailable':
        if (onStoreDown() === 'refuse') {
          release();
          throw gatewayError('budget_unavailable', { message: 'the ceilings cannot be checked at the moment' });
        }
        isUnmetered = true;
    }
  };

  const createReservation = (): Reservation => ({
    isUnmetered,
    async extend(larger) {
      const bounded = reservations.filter(({ ceiling }) => isBounded(ceiling));
      if (bounded.length === 0) return true;
      const extensions = await reserveExtensions(bounded, larger(), limitsReadAt);
      if (extensions === null) return false;
      for (const { reservation: extended, grant, bound } of extensions) {
        extended.grant = { ...extended.grant, reserved: extended.grant.reserved + grant.reserved };
        extended.bound = bound;
      }
      return true;
    },
    settle(result) {
      const debits: LeaseDebit[] = [];
      for (const { ceiling, quota, grant } of reservations) {
        const debit = quota.settle(grant, Math.max(0, usageFor(ceiling, result)));
        if (debit !== null && debit.amount + debit.overdraft > 0) debits.push({ quota, generation: grant.generation, debit });
      }
      return attachDebits(result, debits);
    },
    release,
  });

  const reserveFrom = (first: number): Reservation | Promise<Reservation> => {
    for (let index = first; index < counters.length; index += 1) {
      const counter = counters[index];
      if (!counter) break;
      const pending = { counter, quota: quotaFor(counter), bound: boundOf(counter.key.ceiling, bounds) };
      const result = pending.quota.reserve(pending.bound, counter.limit, limitsReadAt);
      if (result instanceof Promise) {
        return result.then((late) => {
          addResult(late, pending);
          return reserveFrom(index + 1);
        });
      }
      addResult(result, pending);
    }
    return createReservation();
  };
  return reserveFrom(0);
}

/** Null when one of them does not fit; nothing more is reserved then. */
async function reserveExtensions(
  reservations: readonly CounterReservation[],
  bounds: UsageBounds,
  limitsReadAt: number,
): Promise<Extension[] | null> {
  const extensions: Extension[] = [];
  for (const reservation of reservations) {
    const { ceiling, quota, grant, limit } = reservation;
    const bound = boundOf(ceiling, bounds);
    // A call granted less than its bound already has everything there is, as the counter's only call.
    if (bound <= reservation.bound || grant.reserved < reservation.bound) continue;
    const result = await quota.reserve(bound - reservation.bound, limit, limitsReadAt);
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

function isBounded(ceiling: CeilingName): boolean {
  return ceiling === 'cost' || ceiling === 'tpm';
}

/** What a call with these bounds reserves on a counter. */
export function boundOf(ceiling: CeilingName, bounds: UsageBounds | null): number {
  // An exhausted ceiling denies every call, also of a model without cost (`tenant_capped`).
  if (ceiling === 'cost') return Math.max(1, bounds?.costNanos ?? 0);
  return ceiling === 'tpm' ? (bounds?.tokens ?? 0) : 1;
}
