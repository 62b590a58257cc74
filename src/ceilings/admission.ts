/**
 * May this caller spend it? A call holds a bound on each of its ceilings while it runs (lessons 1: there is no check without a hold), gives it
 * back when it ends, and is counted in the database when its row is stored. Admission is synchronous as long as the slices of this process
 * are enough; what becomes of a call while the store is down is the deployment's to say.
 *
 * The window of a call is that of its start, which is the time in its id and in its row.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CallResult, SettledCall } from '../core/call.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { createLender, type Lender } from './counter-quota.ts';
import type { CounterName, LimitedCounter, Limits } from './counters.ts';
import { countersOf, textOfCounter } from './counters.ts';
import { deleteEndedCounters } from './expired-counters.ts';
import { askBackChannel, createLeases, type Leases } from './lease-store.ts';
import { type Bounds, type Holds, holdAll, type Taken } from './reservation.ts';
import { createStoreHealth } from './store-health.ts';

export interface AdmissionRequest {
  readonly limits: Limits;
  readonly startedAt: number;
  /** Asked for only where such a ceiling applies. */
  readonly bounds: () => Bounds;
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

const nothingHeld: Holds = { isUnmetered: false, grow: async () => true, settle: (result) => result, release: () => undefined };

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

  const noteTaken = (result: CallResult, taken: readonly Taken[]): CallResult => {
    const amounts = taken.flatMap(({ lender, generation, spending: { taken: amount, owed } }) => {
      if (lender.id === null) return [];
      lendersById.set(lender.id, lender);
      return [{ counter: lender.id, generation, amount, ...(owed > 0 && { owed }) }];
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
    deleteEndedCounters(database, clock.now() - keptMs).catch((error: unknown) =>
      logger.debug({ error }, 'old counters could not be deleted'),
    );
  };

  return {
    leases,
    admit(request) {
      const counters = countersOf(request.limits, request.startedAt);
      return counters.length === 0 ? nothingHeld : holdAll({ counters, bounds: request.bounds, lenderOf, onStoreDown, noteTaken });
    },
    counted(calls) {
      for (const call of calls) for (const { lender, spending, generation } of consumedOf(call)) lender.counted(spending, generation);
    },
    uncounted(call) {
      for (const { lender, spending, generation } of consumedOf(call)) lender.uncounted(spending, generation);
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
  function consumedOf({ result: { consumed } }: SettledCall): Taken[] {
    if (consumed?.process !== process) return [];
    return consumed.amounts.flatMap(({ counter, generation, amount, owed = 0 }) => {
      const lender = lendersById.get(counter);
      return lender ? [{ lender, generation, spending: { taken: amount, owed } }] : [];
    });
  }

  function findById(id: number): Lender | undefined {
    for (const lender of lenders.values()) if (lender.id === id) return lender;
    return undefined;
  }
}
