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
import { type CounterQuota, createCounterQuota } from './counter-quota.ts';
import type { CounterKey, LimitedCounter, Limits } from './counters.ts';
import { countersFor, formatCounterKey } from './counters.ts';
import { deleteExpiredCounters } from './expired-counters.ts';
import { createLeaseStore, type LeaseStore, quotaReturnChannel } from './lease-store.ts';
import { type LeaseDebit, type Reservation, reserveAll, type UsageBounds } from './reservation.ts';
import { createStoreHealth } from './store-health.ts';

export interface AdmissionRequest {
  readonly limits: Limits;
  readonly startedAt: number;
  /** Asked for only where such a ceiling applies. */
  readonly bounds: () => UsageBounds;
}

export interface Admission {
  /** Rejects with the first refusal: of the key, the application, then the project. A promise only when the store must be asked. */
  admit(request: AdmissionRequest): Reservation | Promise<Reservation>;
  /** These calls are in the database, and counted there. */
  commit(calls: readonly SettledCall[]): void;
  /** This call will never be in the database, and so is not counted. */
  revert(call: SettledCall): void;
  /** This process may have been taken for dead meanwhile: nothing is lent any more before the store has said that its leases are there. */
  verifyLeases(): void;
  /** Estimates of this process's running calls on a counter. */
  reservedFor(counter: CounterKey): number;
  readonly leases: LeaseStore;
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
const counterRetentionMs = 3_600_000;
const maintenanceIntervalMs = 1_000;
const stopTimeoutMs = 2_000;

const emptyReservation: Reservation = {
  isUnmetered: false,
  extend: async () => true,
  settle: (result) => result,
  release: () => undefined,
};

export function createAdmission({ database, clock, logger, process, onStoreDown }: AdmissionOptions): Admission {
  const leases = createLeaseStore(database);
  const health = createStoreHealth({ database, logger });
  const quotas = new Map<string, CounterQuota>();
  const quotasById = new Map<number, CounterQuota>();
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

  const quotaFor = (counter: LimitedCounter): CounterQuota => {
    const text = formatCounterKey(counter.key);
    const known = quotas.get(text);
    if (known) return known;
    const quota = createCounterQuota({ counter, process, leases, health, nextGeneration });
    quotas.set(text, quota);
    return quota;
  };

  const attachDebits = (result: CallResult, taken: readonly LeaseDebit[]): CallResult => {
    const amounts = taken.flatMap(({ quota, generation, debit: { amount, overdraft: owed } }) => {
      if (quota.id === null) return [];
      quotasById.set(quota.id, quota);
      return [{ counter: quota.id, generation, amount, ...(owed > 0 && { owed }) }];
    });
    return amounts.length === 0 ? result : { ...result, consumed: { process, amounts } };
  };

  const maintain = (): void => {
    const now = clock.now();
    for (const [text, quota] of quotas) {
      if (quota.id !== null) quotasById.set(quota.id, quota);
      quota.maintain(now);
      if (quota.isEvictable) quotas.delete(text);
    }
    const known = new Set(quotas.values());
    for (const [id, quota] of quotasById) if (quota.id !== id || !known.has(quota)) quotasById.delete(id);
    if (health.isDown) return;
    if (database.kind === 'server') void publish();
    clean();
  };

  /** Other processes tell of our running calls by this; never more often than `tend` is called. */
  const publish = async (): Promise<void> => {
    for (const id of published.keys()) if (!quotasById.has(id)) published.delete(id);
    const changed = new Map(
      [...quotasById].flatMap(([id, { reserved }]) => (reserved === (published.get(id) ?? 0) ? [] : [[id, reserved]])),
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
    if (quotas.size === 0 || clock.now() - cleanedAt < 60_000) return;
    cleanedAt = clock.now();
    deleteExpiredCounters(database, clock.now() - counterRetentionMs).catch((error: unknown) =>
      logger.debug({ error }, 'old counters could not be deleted'),
    );
  };

  return {
    leases,
    admit(request) {
      const counters = countersFor(request.limits, request.startedAt);
      return counters.length === 0
        ? emptyReservation
        : reserveAll({ counters, bounds: request.bounds, quotaFor, onStoreDown, attachDebits });
    },
    commit(calls) {
      for (const call of calls) for (const { quota, debit: spending, generation } of debitsOf(call)) quota.commit(spending, generation);
    },
    revert(call) {
      for (const { quota, debit: spending, generation } of debitsOf(call)) quota.revert(spending, generation);
    },
    verifyLeases() {
      for (const quota of quotas.values()) quota.markUnverified();
    },
    reservedFor: (counter) => quotas.get(formatCounterKey(counter))?.reserved ?? 0,
    async start() {
      timer = setInterval(maintain, maintenanceIntervalMs);
      timer.unref();
      listening = await database.listen(quotaReturnChannel, (payload) => {
        const [asker, id] = payload.split(' ');
        if (asker !== process) findById(Number(id))?.returnUnused();
      });
    },
    async stop() {
      clearInterval(timer);
      health.stop();
      await listening?.stop();
      listening = null;
      // Whatever a silent store does not take back now goes with the journal.
      const closed = Promise.all([...quotas.values()].map((quota) => quota.close()));
      await Promise.race([closed, sleep(stopTimeoutMs, undefined, { ref: false })]);
    },
  };

  /** What a call of this process took; one of another process has taken nothing here. */
  function debitsOf({ result: { consumed } }: SettledCall): LeaseDebit[] {
    if (consumed?.process !== process) return [];
    return consumed.amounts.flatMap(({ counter, generation, amount, owed = 0 }) => {
      const quota = quotasById.get(counter);
      return quota ? [{ quota, generation, debit: { amount, overdraft: owed } }] : [];
    });
  }

  function findById(id: number): CounterQuota | undefined {
    for (const quota of quotas.values()) if (quota.id === id) return quota;
    return undefined;
  }
}
