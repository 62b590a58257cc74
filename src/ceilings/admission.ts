/**
 * Decides whether a call may run. A call reserves its upper bound on each of its ceilings while it runs, since a check without a reservation
 * overspends under concurrency; when it ends, its usage replaces the reservation, and the database counts it when its row is stored.
 * Synchronous while the local quota suffices. Configuration decides what happens to calls while the quota store is unavailable.
 *
 * A call belongs to the window in which it started, by the time in its id and its row.
 *
 * @see docs/architecture/ceilings.md
 */
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { ConsumedAmount, SettledCall } from '../core/call.ts';
import type { Clock } from '../core/time.ts';
import { withTimeout } from '../core/time-limit.ts';
import type { StoreDownPolicy } from '../core/windows.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { type CounterQuota, createCounterQuota } from './counter-quota.ts';
import type { CounterKey, LimitedCounter, Limits } from './counters.ts';
import { createCounterCache, formatCounterKey } from './counters.ts';
import { deleteExpiredCounters } from './expired-counters.ts';
import { createLeaseStore, type LeaseStore, quotaReturnChannel } from './lease-store.ts';
import { type Reservation, reserveAll, type UncheckedRefusal, type UsageBounds } from './reservation.ts';
import { createStoreHealth } from './store-health.ts';
import { createUnmeteredQuotas, type UnmeteredQuota } from './unmetered-quotas.ts';

export interface AdmissionRequest {
  readonly limits: Limits;
  readonly startedAt: number;
  /** Called only where a ceiling needs it. */
  readonly bounds: () => UsageBounds;
}

export interface Admission {
  /** Throws or rejects with the first denial: of the key, the application, then the project. A promise only when a lease must be acquired. */
  admit(request: AdmissionRequest): Reservation | Promise<Reservation>;
  /**
   * Whether the process is refusing calls because the store is down and the deployment's policy is `refuse`: true
   * after `refusalsInRow` refusals in a row. Calls without ceilings, and calls within a lease, still pass.
   */
  isRefusing(): boolean;
  /** Number of calls that were refused because their ceilings could not be checked, by reason. */
  uncheckedRefusals(): Readonly<Record<UncheckedRefusal, number>>;
  /** The database has stored and counted these calls. */
  commit(calls: readonly SettledCall[]): void;
  /** The database will never store, and so never count, this call. */
  revert(call: SettledCall): void;
  /** Other processes may have considered this one dead: grants nothing until the database confirms the leases. */
  verifyLeases(): void;
  /** Sum of the upper bounds that this process's running calls have reserved on a counter. */
  reservedFor(counter: CounterKey): number;
  readonly leases: LeaseStore;
  start(): Promise<void>;
  /** Returns the available quota. Recovery of the journal accounts for what running calls have reserved. */
  stop(): Promise<void>;
}

export interface AdmissionOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Id of this process's journal. */
  readonly process: string;
  /** The policy for keys and projects that don't set their own. */
  readonly onStoreDown: () => StoreDownPolicy;
  /**
   * Another process needs quota of a counter of this one, which cannot return what its settled calls have used before the database has counted
   * them.
   */
  readonly onQuotaRequested?: () => void;
  /** By default the tables of `database`. */
  readonly leases?: LeaseStore;
}

const cleanupIntervalMs = 60_000;
const maintenanceIntervalMs = 1_000;
const stopTimeoutMs = 2_000;
const returnWaitMs = 150;
/** While notifications do not arrive, requests for quota are polled, this long after each missing one. */
const pollingMs = 20_000;
const pollIntervalMs = 250;
/** So many refused calls in a row mean that hardly any other is served. */
const refusalsInRow = 10;

const nothing: readonly ConsumedAmount[] = [];

const emptyReservation: Reservation = {
  isUnmetered: false,
  extend: async () => true,
  settle: (result) => result,
  release: () => undefined,
};

export function createAdmission(options: AdmissionOptions): Admission {
  const { database, clock, logger, process, onStoreDown, onQuotaRequested, leases = createLeaseStore(database) } = options;
  const health = createStoreHealth({ database, logger });
  const quotas = new Map<string, CounterQuota>();
  const quotasById = new Map<number, CounterQuota>();
  const published = new Map<number, number>();
  /** Counters that others asked for within the last second and this process does not hold: it may not know yet that it has a lease of them. */
  const requested = new Set<number>();
  let timer: NodeJS.Timeout | undefined;
  let listening: { stop(): Promise<void> } | null = null;
  let cleanedAt = clock.now();
  let pollUntil = 0;
  let generations = 0;
  const nextGeneration = (): number => {
    generations += 1;
    return generations;
  };

  const isPolling = (): boolean => performance.now() < pollUntil;
  const returnWait = (): number => returnWaitMs + (isPolling() ? 2 * pollIntervalMs : 0);

  const returnQuota = (counterId: number): void => {
    const quota = findById(counterId);
    if (!quota) return void requested.add(counterId);
    quota.returnUnused();
    onQuotaRequested?.();
  };

  const countersFor = createCounterCache();
  const quotaFor = (counter: LimitedCounter): CounterQuota => {
    const existing = quotas.get(counter.name);
    if (existing) return existing;
    const isRequested = (id: number): boolean => requested.has(id);
    const quota = createCounterQuota({ counter, process, leases, health, nextGeneration, returnWaitMs: returnWait, isRequested });
    quotas.set(counter.name, quota);
    return quota;
  };

  /** `commit` finds the quota by this id. */
  const counterIdOf = (quota: CounterQuota): number | null => {
    const id = quota.counterId();
    if (id !== null) quotasById.set(id, quota);
    return id;
  };

  const maintain = (): void => {
    const now = clock.now();
    requested.clear();
    for (const [key, quota] of quotas) {
      counterIdOf(quota);
      quota.maintain(now);
      if (quota.isEvictable()) quotas.delete(key);
      const next = quota.nextCounter(now);
      if (next) quotaFor(next).prepare(next.key.start - now);
    }
    const current = new Set(quotas.values());
    for (const [id, quota] of quotasById) if (quota.counterId() !== id || !current.has(quota)) quotasById.delete(id);
    unmetered.deleteEnded(now);
    if (health.isDown) return;
    if (database.kind === 'server') publishing.wake();
    deleteExpired();
  };

  /** Publishes the reservations of running calls, which other processes report. Woken once per maintenance interval. */
  const publishing = createBackgroundLoop({
    async run() {
      for (const id of published.keys()) if (!quotasById.has(id)) published.delete(id);
      const changed = new Map(
        [...quotasById].flatMap(([id, quota]) => (quota.reserved() === (published.get(id) ?? 0) ? [] : [[id, quota.reserved()]])),
      );
      if (changed.size > 0) await leases.publish(process, changed);
      for (const [id, reserved] of changed) published.set(id, reserved);
      return 'idle';
    },
    intervalMs: null,
    onFailure: (err) => logger.debug({ err }, 'publishing reservations failed; retrying with the next change'),
  });

  /** In place of notifications that do not arrive. */
  const polling = createBackgroundLoop({
    async run() {
      if (!isPolling()) return 'idle';
      const held = [...quotas.values()].flatMap(({ counterId }) => counterId() ?? []);
      if (held.length > 0 && !health.isDown) for (const id of await leases.returnRequests(process, held)) returnQuota(id);
      return pollIntervalMs;
    },
    intervalMs: null,
    backoff: { initialMs: pollIntervalMs, maxMs: pollIntervalMs },
    onFailure: (err) => logger.debug({ err }, 'polling requests for quota failed; retrying'),
  });

  const startPolling = (): void => {
    pollUntil = performance.now() + pollingMs;
    polling.wake();
  };

  const deleteExpired = (): void => {
    if (quotas.size === 0 || clock.now() - cleanedAt < cleanupIntervalMs) return;
    cleanedAt = clock.now();
    deleteExpiredCounters(database, clock).catch((err: unknown) => logger.debug({ err }, 'deleting expired counters failed'));
  };

  /** Calls in a row that were refused because the store is down. */
  let refusals = 0;
  const noteAdmitted = (): void => {
    refusals = 0;
  };
  const uncheckedRefusals = { policy: 0, exhausted: 0 };
  const onUncheckedRefusal = (reason: UncheckedRefusal): void => {
    uncheckedRefusals[reason] += 1;
  };
  const unmetered = createUnmeteredQuotas(logger);
  const unmeteredQuotaFor = ({ onBudgetStoreDown, project }: Limits, counter: LimitedCounter): UnmeteredQuota | null => {
    const chosen = onBudgetStoreDown ?? project.onBudgetStoreDown ?? null;
    const policy = chosen ?? onStoreDown();
    if (policy === 'allow') return unmetered.quotaFor(counter);
    // A key or project that sets `refuse` itself tells us nothing about the other calls of this process.
    if (chosen === null) refusals += 1;
    return null;
  };

  return {
    leases,
    admit({ limits, startedAt, bounds }) {
      const counters = countersFor(limits, startedAt);
      const reservation =
        counters.length === 0
          ? emptyReservation
          : reserveAll({ limits, startedAt, counters, bounds, quotaFor, unmeteredQuotaFor, onUncheckedRefusal, process, counterIdOf });
      if (reservation instanceof Promise) reservation.then(noteAdmitted, () => undefined);
      else noteAdmitted();
      return reservation;
    },
    isRefusing: () => health.isDown && refusals >= refusalsInRow,
    uncheckedRefusals: () => uncheckedRefusals,
    commit(calls) {
      for (const call of calls) for (const amount of consumedHere(call)) quotasById.get(amount.counter)?.commit(amount);
    },
    revert(call) {
      for (const amount of consumedHere(call)) quotasById.get(amount.counter)?.revert(amount);
    },
    verifyLeases() {
      for (const quota of quotas.values()) quota.markUnverified();
    },
    reservedFor: (counter) => quotas.get(formatCounterKey(counter))?.reserved() ?? 0,
    async start() {
      timer = setInterval(maintain, maintenanceIntervalMs);
      timer.unref();
      const onRequest = (payload: string): void => {
        const [requester, id] = payload.split(' ');
        if (requester !== process) returnQuota(Number(id));
      };
      listening = await database.listen(quotaReturnChannel, onRequest, startPolling);
    },
    async stop() {
      clearInterval(timer);
      const stopped = [publishing.stop(), polling.stop(), health.stop()];
      await listening?.stop();
      listening = null;
      // What an unresponsive database does not take back now, recovery of the journal will revoke.
      const closed = Promise.all([...stopped, ...[...quotas.values()].map((quota) => quota.close())]);
      await withTimeout(closed, stopTimeoutMs, () => undefined);
    },
  };

  /** What a call has used of the leases of this process. */
  function consumedHere({ result: { consumed } }: SettledCall): readonly ConsumedAmount[] {
    return consumed?.process === process ? consumed.amounts : nothing;
  }

  function findById(id: number): CounterQuota | undefined {
    for (const quota of quotas.values()) if (quota.counterId() === id) return quota;
    return undefined;
  }
}
