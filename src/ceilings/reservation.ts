/**
 * What one call holds of its ceilings, from its admission to its end: a loan of each of its counters, taken in the order in which they may
 * refuse it. Asynchronous only from the first counter on whose store must be asked.
 */
import type { CallResult } from '../core/call.ts';
import { usageFor } from '../core/ceiling-usage.ts';
import { gatewayError } from '../core/errors.ts';
import type { CeilingName } from '../core/windows.ts';
import type { CounterQuota } from './counter-quota.ts';
import { ceilingExceeded, type LimitedCounter } from './counters.ts';
import type { Debit } from './local-quota.ts';
import type { QuotaGrant, ReserveResult } from './wait-queue.ts';

/** The most that a call may cost, and the most tokens it may use. */
export interface UsageBounds {
  readonly costNanos: number;
  readonly tokens: number;
}

/** Either `settle` or `release` must be called, once. */
export interface Reservation {
  /** The store was down: the call goes on without some of its ceilings, and its facts must say so. */
  readonly isUnmetered: boolean;
  /** The call has become larger before it was made; false: there is no room, and it holds what it held. */
  extend(bounds: () => UsageBounds): Promise<boolean>;
  /** The call ended: `result` with what must be recorded of its holds, so that its row and its leases are counted together. */
  settle(result: CallResult): CallResult;
  /** The call leaves no record. */
  release(): void;
}

export interface ReservationRequest {
  readonly counters: readonly LimitedCounter[];
  /** Asked for only where such a ceiling applies. */
  readonly bounds: () => UsageBounds;
  readonly quotaFor: (counter: LimitedCounter) => CounterQuota;
  readonly onStoreDown: () => 'allow' | 'refuse';
  /** `result` with what was taken of leases for it. */
  readonly attachDebits: (result: CallResult, taken: readonly LeaseDebit[]) => CallResult;
}

/** What a call that ended has spent of a lease. */
export interface LeaseDebit {
  readonly quota: CounterQuota;
  readonly generation: number;
  readonly debit: Debit;
}

interface CounterGrant {
  readonly quota: CounterQuota;
  readonly grant: QuotaGrant;
}

/** Grows with its call: one loan for each counter, so that all of it is there for what the call has spent. */
interface CounterReservation extends CounterGrant {
  readonly ceiling: CeilingName;
  readonly limit: number;
  grant: QuotaGrant;
  /** What was asked for: more than the loan where that is all there was. */
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

/** Throws the first refusal. */
export function reserveAll({
  counters,
  bounds,
  quotaFor: lenderOf,
  onStoreDown,
  attachDebits: noteTaken,
}: ReservationRequest): Reservation | Promise<Reservation> {
  const holds: CounterReservation[] = [];
  const asked = counters.some(({ key: name }) => isBounded(name.ceiling)) ? bounds() : null;
  let isUnmetered = false;

  const release = (): void => releaseAll(holds);

  const note = (lent: ReserveResult, { counter: { key: name, limit }, quota: lender, bound }: PendingGrant): void => {
    switch (lent.kind) {
      case 'held':
        holds.push({ ceiling: name.ceiling, quota: lender, grant: lent, bound, limit });
        return;
      case 'refused':
        release();
        throw ceilingExceeded(name);
      case 'unreachable':
        if (onStoreDown() === 'refuse') {
          release();
          throw gatewayError('budget_unavailable', { message: 'the store of the ceilings cannot be reached' });
        }
        isUnmetered = true;
    }
  };

  const result: Reservation = {
    get isUnmetered() {
      return isUnmetered;
    },
    async extend(next) {
      const bounded = holds.filter(({ ceiling }) => isBounded(ceiling));
      if (bounded.length === 0) return true;
      const larger = next();
      const taken: Extension[] = [];
      for (const hold of bounded) {
        const { ceiling, quota: lender, grant: loan, limit } = hold;
        const bound = boundOf(ceiling, larger);
        // A call that holds less than its bound holds all there is, alone.
        if (bound <= hold.bound || loan.reserved < hold.bound) continue;
        const lent = await lender.reserve(bound - hold.bound, limit);
        if (lent.kind === 'held') taken.push({ reservation: hold, quota: lender, grant: lent, bound });
        // Of another lease than it holds, which was written off: no part of this call any more.
        if (lent.kind !== 'held' || lent.generation !== loan.generation) {
          releaseAll(taken);
          return false;
        }
      }
      for (const { reservation: hold, grant: loan, bound } of taken) {
        hold.grant = { ...hold.grant, reserved: hold.grant.reserved + loan.reserved };
        hold.bound = bound;
      }
      return true;
    },
    settle(ended) {
      const taken = holds.flatMap(({ ceiling, quota: lender, grant: loan }) => {
        const spending = lender.settle(loan, Math.max(0, usageFor(ceiling, ended)));
        return spending === null || spending.amount + spending.overdraft === 0
          ? []
          : [{ quota: lender, generation: loan.generation, debit: spending }];
      });
      return noteTaken(ended, taken);
    },
    release,
  };

  /** From `first` on. */
  const holdFrom = (first: number): Reservation | Promise<Reservation> => {
    for (let index = first; index < counters.length; index += 1) {
      const counter = counters[index];
      if (!counter) break;
      const taking = { counter, quota: lenderOf(counter), bound: boundOf(counter.key.ceiling, asked) };
      const lent = taking.quota.reserve(taking.bound, counter.limit);
      if (lent instanceof Promise) {
        return lent.then((late) => {
          note(late, taking);
          return holdFrom(index + 1);
        });
      }
      note(lent, taking);
    }
    return result;
  };
  return holdFrom(0);
}

function releaseAll(loans: readonly CounterGrant[]): void {
  for (const { quota: lender, grant: loan } of loans) lender.settle(loan, 0);
}

function isBounded(ceiling: CeilingName): boolean {
  return ceiling === 'cost' || ceiling === 'tpm';
}

function boundOf(ceiling: CeilingName, bounds: UsageBounds | null): number {
  // A ceiling that is reached refuses every call (specification 7.4), also of a model that costs nothing.
  if (ceiling === 'cost') return Math.max(1, bounds?.costNanos ?? 0);
  return ceiling === 'tpm' ? (bounds?.tokens ?? 0) : 1;
}
