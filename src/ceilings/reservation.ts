/**
 * What one call holds of its ceilings, from its admission to its end: a loan of each of its counters, taken in the order in which they may
 * refuse it. Asynchronous only from the first counter on whose store must be asked.
 */
import type { CallResult } from '../core/call.ts';
import { spentOf } from '../core/ceiling-usage.ts';
import { gatewayError } from '../core/errors.ts';
import type { CeilingName } from '../core/windows.ts';
import type { Lender } from './counter-quota.ts';
import { type LimitedCounter, refusalOf } from './counters.ts';
import type { Spending } from './local-quota.ts';
import type { Lent, Loan } from './wait-queue.ts';

/** The most that a call may cost, and the most tokens it may use. */
export interface Bounds {
  readonly costNanos: number;
  readonly tokens: number;
}

/** Either `settle` or `release` must be called, once. */
export interface Holds {
  /** The store was down: the call goes on without some of its ceilings, and its facts must say so. */
  readonly isUnmetered: boolean;
  /** The call has become larger before it was made; false: there is no room, and it holds what it held. */
  grow(bounds: () => Bounds): Promise<boolean>;
  /** The call ended: `result` with what must be recorded of its holds, so that its row and its leases are counted together. */
  settle(result: CallResult): CallResult;
  /** The call leaves no record. */
  release(): void;
}

export interface HoldRequest {
  readonly counters: readonly LimitedCounter[];
  /** Asked for only where such a ceiling applies. */
  readonly bounds: () => Bounds;
  readonly lenderOf: (counter: LimitedCounter) => Lender;
  readonly onStoreDown: () => 'allow' | 'refuse';
  /** `result` with what was taken of leases for it. */
  readonly noteTaken: (result: CallResult, taken: readonly Taken[]) => CallResult;
}

/** What a call that ended has spent of a lease. */
export interface Taken {
  readonly lender: Lender;
  readonly generation: number;
  readonly spending: Spending;
}

interface HeldLoan {
  readonly lender: Lender;
  readonly loan: Loan;
}

/** Grows with its call: one loan for each counter, so that all of it is there for what the call has spent. */
interface Hold extends HeldLoan {
  readonly ceiling: CeilingName;
  readonly limit: number;
  loan: Loan;
  /** What was asked for: more than the loan where that is all there was. */
  bound: number;
}

interface Growth extends HeldLoan {
  readonly hold: Hold;
  readonly bound: number;
}

interface Taking {
  readonly counter: LimitedCounter;
  readonly lender: Lender;
  readonly bound: number;
}

/** Throws the first refusal. */
export function holdAll({ counters, bounds, lenderOf, onStoreDown, noteTaken }: HoldRequest): Holds | Promise<Holds> {
  const holds: Hold[] = [];
  const asked = counters.some(({ name }) => isBounded(name.ceiling)) ? bounds() : null;
  let isUnmetered = false;

  const release = (): void => giveBack(holds);

  const note = (lent: Lent, { counter: { name, limit }, lender, bound }: Taking): void => {
    switch (lent.kind) {
      case 'held':
        holds.push({ ceiling: name.ceiling, lender, loan: lent, bound, limit });
        return;
      case 'refused':
        release();
        throw refusalOf(name);
      case 'unreachable':
        if (onStoreDown() === 'refuse') {
          release();
          throw gatewayError('budget_unavailable', { message: 'the store of the ceilings cannot be reached' });
        }
        isUnmetered = true;
    }
  };

  const result: Holds = {
    get isUnmetered() {
      return isUnmetered;
    },
    async grow(next) {
      const bounded = holds.filter(({ ceiling }) => isBounded(ceiling));
      if (bounded.length === 0) return true;
      const larger = next();
      const taken: Growth[] = [];
      for (const hold of bounded) {
        const { ceiling, lender, loan, limit } = hold;
        const bound = boundOf(ceiling, larger);
        // A call that holds less than its bound holds all there is, alone.
        if (bound <= hold.bound || loan.reserved < hold.bound) continue;
        const lent = await lender.take(bound - hold.bound, limit);
        if (lent.kind === 'held') taken.push({ hold, lender, loan: lent, bound });
        // Of another lease than it holds, which was written off: no part of this call any more.
        if (lent.kind !== 'held' || lent.generation !== loan.generation) {
          giveBack(taken);
          return false;
        }
      }
      for (const { hold, loan, bound } of taken) {
        hold.loan = { ...hold.loan, reserved: hold.loan.reserved + loan.reserved };
        hold.bound = bound;
      }
      return true;
    },
    settle(ended) {
      const taken = holds.flatMap(({ ceiling, lender, loan }) => {
        const spending = lender.settle(loan, Math.max(0, spentOf(ceiling, ended)));
        return spending === null || spending.taken + spending.owed === 0 ? [] : [{ lender, generation: loan.generation, spending }];
      });
      return noteTaken(ended, taken);
    },
    release,
  };

  /** From `first` on. */
  const holdFrom = (first: number): Holds | Promise<Holds> => {
    for (let index = first; index < counters.length; index += 1) {
      const counter = counters[index];
      if (!counter) break;
      const taking = { counter, lender: lenderOf(counter), bound: boundOf(counter.name.ceiling, asked) };
      const lent = taking.lender.take(taking.bound, counter.limit);
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

function giveBack(loans: readonly HeldLoan[]): void {
  for (const { lender, loan } of loans) lender.settle(loan, 0);
}

function isBounded(ceiling: CeilingName): boolean {
  return ceiling === 'cost' || ceiling === 'tpm';
}

function boundOf(ceiling: CeilingName, bounds: Bounds | null): number {
  // A ceiling that is reached refuses every call (specification 7.4), also of a model that costs nothing.
  if (ceiling === 'cost') return Math.max(1, bounds?.costNanos ?? 0);
  return ceiling === 'tpm' ? (bounds?.tokens ?? 0) : 1;
}
