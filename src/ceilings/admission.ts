/**
 * May this caller spend it? A call holds a bound on each of its ceilings while it runs (lessons 1: there is no check without a hold), gives it
 * back when it ends, and is counted in the database when its row is stored. Admission is synchronous as long as the slices of this process
 * are enough; what becomes of a call while the store is down is the deployment's to say.
 *
 * The window of a call is that of its start, which is the time in its id and in its row.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CallResult, SettledCall } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import { spentOf } from '../core/spending.ts';
import type { Clock } from '../core/time.ts';
import type { CeilingName } from '../core/windows.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import type { CounterName, LimitedCounter, Limits } from './counters.ts';
import { countersOf, refusalOf, textOfCounter } from './counters.ts';
import { askBackChannel, createLeases, type Leases } from './leases.ts';
import { createLender, type Lender } from './lender.ts';
import { createStoreHealth } from './store-health.ts';
import type { Lent, Loan } from './waiting.ts';

export interface AdmissionRequest {
  readonly limits: Limits;
  readonly startedAt: number;
  /** The most that the call may cost, and the most tokens it may use; asked for only where such a ceiling applies. */
  readonly bounds: () => { readonly costNanos: number; readonly tokens: number };
}

/** What a call holds. Either `settle` or `release` must be called, once. */
export interface Holds {
  /** The store was down: the call goes on without some of its ceilings, and its facts must say so. */
  readonly isUnmetered: boolean;
  /** The call ended: `result` with what must be recorded of its holds, so that its row and its leases are counted together. */
  settle(result: CallResult): CallResult;
  /** The call leaves no record. */
  release(): void;
}

export interface Admission {
  /** Rejects with the first refusal: of the key, the application, then the project. A promise only when the store must be asked. */
  admit(request: AdmissionRequest): Holds | Promise<Holds>;
  /** These calls are in the database, and counted there. */
  counted(calls: readonly SettledCall[]): void;
  /** This call will never be in the database, and so is not counted. */
  uncounted(call: SettledCall): void;
  /** This process may have been taken for dead meanwhile: nothing is lent any more before the store has said that its leases are there. */
  doubtLeases(): void;
  /** Estimates of this process's running calls on a counter. */
  reservedOn(counter: CounterName): number;
  readonly leases: Leases;
  start(): Promise<void>;
  /** Gives back what is free. What running calls hold goes with the journal. */
  stop(): Promise<void>;
}

export interface AdmissionOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Id of this process's journal. */
  readonly process: string;
  readonly onStoreDown: () => 'allow' | 'refuse';
}

/** Counters of minutes and days are of no use any more, to calls that run on from them neither. */
const keptMs = 3_600_000;
const tendMs = 1_000;
const stopLimitMs = 2_000;

interface Hold {
  readonly ceiling: CeilingName;
  readonly lender: Lender;
  readonly loan: Loan;
}

const nothingHeld: Holds = { isUnmetered: false, settle: (result) => result, release: () => undefined };

export function createAdmission({ database, clock, logger, process, onStoreDown }: AdmissionOptions): Admission {
  const leases = createLeases(database);
  const health = createStoreHealth({ database, logger });
  const lenders = new Map<string, Lender>();
  const lendersById = new Map<number, Lender>();
  const published = new Map<number, number>();
  let timer: NodeJS.Timeout | undefined;
  let listening: { stop(): Promise<void> } | null = null;
  let cleanedAt = clock.now();
  let isPublishing = false;
  let generations = 0;
  const nextGeneration = (): number => {
    generations += 1;
    return generations;
  };

  const lenderOf = (counter: LimitedCounter): Lender => {
    const text = textOfCounter(counter.name);
    const known = lenders.get(text);
    if (known) return known;
    const lender = createLender({ counter, process, leases, health, nextGeneration });
    lenders.set(text, lender);
    return lender;
  };

  const holdAll = (request: AdmissionRequest, counters: readonly LimitedCounter[]): Holds | Promise<Holds> => {
    const holds: Hold[] = [];
    const bounds = counters.some(({ name }) => isBounded(name.ceiling)) ? request.bounds() : null;
    const boundOf = (ceiling: CeilingName): number => {
      // A ceiling that is reached refuses every call (specification 7.4), also of a model that costs nothing.
      if (ceiling === 'cost') return Math.max(1, bounds?.costNanos ?? 0);
      return ceiling === 'tpm' ? (bounds?.tokens ?? 0) : 1;
    };
    let isUnmetered = false;

    const release = (): void => {
      for (const { lender, loan } of holds) lender.settle(loan, 0);
    };

    const note = (lent: Lent, { name }: LimitedCounter, lender: Lender): void => {
      switch (lent.kind) {
        case 'held':
          holds.push({ ceiling: name.ceiling, lender, loan: lent });
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

    /** From `first` on; goes on asynchronously from the first one that has to wait. */
    const holdFrom = (first: number): Holds | Promise<Holds> => {
      for (let index = first; index < counters.length; index += 1) {
        const counter = counters[index];
        if (!counter) break;
        const lender = lenderOf(counter);
        const lent = lender.take(boundOf(counter.name.ceiling), counter.limit);
        if (lent instanceof Promise) {
          return lent.then((late) => {
            note(late, counter, lender);
            return holdFrom(index + 1);
          });
        }
        note(lent, counter, lender);
      }
      return { isUnmetered, settle: (result) => settleHolds(holds, result), release };
    };
    return holdFrom(0);
  };

  const settleHolds = (holds: readonly Hold[], result: CallResult): CallResult => {
    const amounts = holds.flatMap(({ ceiling, lender, loan }) => {
      const amount = lender.settle(loan, Math.max(0, spentOf(ceiling, result)));
      if (amount === 0 || lender.id === null) return [];
      lendersById.set(lender.id, lender);
      return [{ counter: lender.id, generation: loan.generation, amount }];
    });
    return amounts.length === 0 ? result : { ...result, consumed: { process, amounts } };
  };

  const tend = (): void => {
    const now = clock.now();
    for (const [text, lender] of lenders) {
      if (lender.id !== null) lendersById.set(lender.id, lender);
      lender.tend(now);
      if (lender.isForgettable) lenders.delete(text);
    }
    const known = new Set(lenders.values());
    for (const [id, lender] of lendersById) if (lender.id !== id || !known.has(lender)) lendersById.delete(id);
    if (health.isDown) return;
    if (database.kind === 'server') void publish();
    clean();
  };

  /** Other processes tell of our running calls by this; never more often than `tend` is called. */
  const publish = async (): Promise<void> => {
    for (const id of published.keys()) if (!lendersById.has(id)) published.delete(id);
    const changed = new Map(
      [...lendersById].flatMap(([id, { reserved }]) => (reserved === (published.get(id) ?? 0) ? [] : [[id, reserved]])),
    );
    if (isPublishing || changed.size === 0) return;
    isPublishing = true;
    try {
      await leases.publish(process, changed);
      for (const [id, reserved] of changed) published.set(id, reserved);
    } catch (error) {
      logger.debug({ error }, 'reservations could not be published; tried again with the next ones');
    } finally {
      isPublishing = false;
    }
  };

  const clean = (): void => {
    if (lenders.size === 0 || clock.now() - cleanedAt < 60_000) return;
    cleanedAt = clock.now();
    leases.deleteEnded(clock.now() - keptMs).catch((error: unknown) => logger.debug({ error }, 'old counters could not be deleted'));
  };

  return {
    leases,
    admit(request) {
      const counters = countersOf(request.limits, request.startedAt);
      return counters.length === 0 ? nothingHeld : holdAll(request, counters);
    },
    counted(calls) {
      for (const call of calls) for (const { lender, amount, generation } of consumedOf(call)) lender.counted(amount, generation);
    },
    uncounted(call) {
      for (const { lender, amount, generation } of consumedOf(call)) lender.uncounted(amount, generation);
    },
    doubtLeases() {
      for (const lender of lenders.values()) lender.doubt();
    },
    reservedOn: (counter) => lenders.get(textOfCounter(counter))?.reserved ?? 0,
    async start() {
      timer = setInterval(tend, tendMs);
      timer.unref();
      listening = await database.listen(askBackChannel, (payload) => {
        const [asker, id] = payload.split(' ');
        if (asker !== process) findById(Number(id))?.giveBack();
      });
    },
    async stop() {
      clearInterval(timer);
      health.stop();
      await listening?.stop();
      listening = null;
      // Whatever a silent store does not take back now goes with the journal.
      const closed = Promise.all([...lenders.values()].map((lender) => lender.close()));
      await Promise.race([closed, sleep(stopLimitMs, undefined, { ref: false })]);
    },
  };

  /** What a call of this process took; one of another process has taken nothing here. */
  function consumedOf({ result: { consumed } }: SettledCall): { lender: Lender; amount: number; generation: number }[] {
    if (consumed?.process !== process) return [];
    return consumed.amounts.flatMap(({ counter, ...taken }) => {
      const lender = lendersById.get(counter);
      return lender ? [{ lender, ...taken }] : [];
    });
  }

  function findById(id: number): Lender | undefined {
    for (const lender of lenders.values()) if (lender.id === id) return lender;
    return undefined;
  }
}

function isBounded(ceiling: CeilingName): boolean {
  return ceiling === 'cost' || ceiling === 'tpm';
}
