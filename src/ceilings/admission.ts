/**
 * Decides whether a call may run. While a call runs, we reserve its upper bound on each of its ceilings, because
 * checking without reserving would overspend under concurrency. When the call ends, its usage replaces the reservation,
 * and the database counts it when the row of the call is stored. All of this is synchronous as long as the local quota
 * suffices. The configuration decides what happens to calls while the quota store is unavailable.
 *
 * A call belongs to the window in which it started, according to the time in its id and its row.
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
  /** Only called if a ceiling needs it. */
  readonly bounds: () => UsageBounds;
}

export interface Admission {
  /**
   * Throws or rejects with the first denial, in the order key, application, project. Returns a promise only if we have
   * to acquire a lease.
   */
  admit(request: AdmissionRequest): Reservation | Promise<Reservation>;
  /**
   * Reports whether the process is refusing calls because the store is down and the deployment's policy is `refuse`.
   * That's the case after `refusalsInRow` refusals in a row. Calls without ceilings, and calls within a lease, still
   * pass.
   */
  isRefusing(): boolean;
  /** Returns the number of calls that were refused because we couldn't check their ceilings, by reason. */
  uncheckedRefusals(): Readonly<Record<UncheckedRefusal, number>>;
  /** Called when the database has stored and counted these calls. */
  commit(calls: readonly SettledCall[]): void;
  /** Called if the database will never store this call, and therefore never count it. */
  revert(call: SettledCall): void;
  /**
   * Called if other processes may have considered this one dead. Grants nothing until the database has confirmed the
   * leases.
   */
  verifyLeases(): void;
  /** Returns the sum of the upper bounds that this process's running calls have reserved on a counter. */
  reservedFor(counter: CounterKey): number;
  readonly leases: LeaseStore;
  start(): Promise<void>;
  /**
   * Returns the available quota to the database. Recovery of the journal takes care of what running calls have
   * reserved.
   */
  stop(): Promise<void>;
}

export interface AdmissionOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The id of this process's journal. */
  readonly process: string;
  /** The policy for keys and projects that don't set their own. */
  readonly onStoreDown: () => StoreDownPolicy;
  /**
   * Called if another process needs quota of one of our counters. We can't return what settled calls have used until
   * the database has counted it.
   */
  readonly onQuotaRequested?: () => void;
  /** By default, the tables of `database`. */
  readonly leases?: LeaseStore;
}

const cleanupIntervalMs = 60_000;
const maintenanceIntervalMs = 1_000;
const stopTimeoutMs = 2_000;
const returnWaitMs = 150;
/** If a notification doesn't arrive, we poll for quota requests for this long. */
const pollingMs = 20_000;
const pollIntervalMs = 250;
/** If this many calls in a row are refused, hardly any other call is being served. */
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
  /**
   * Counters of which we hold nothing, but for which other processes requested quota within the last second. We may not
   * have received our lease of such a counter yet.
   */
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

  /** Returns the counter's id, and registers the quota under it for `commit`. */
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

  /**
   * Publishes the reservations of running calls so that other processes can report them. Woken once per maintenance
   * interval.
   */
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

  const polling = createBackgroundLoop({
    async run() {
      if (!isPolling()) return 'idle';
      const held = [...quotas.values()].flatMap(({ counterId }) => counterId() ?? []);
      if (held.length > 0 && !health.isDown) for (const id of await leases.returnRequests(process, held)) returnQuota(id);
      return pollIntervalMs;
    },
    intervalMs: null,
    backoff: { initialMs: pollIntervalMs, maxMs: pollIntervalMs },
    onFailure: (err) => logger.debug({ err }, 'polling quota requests failed; retrying'),
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

  /** The number of consecutive calls that were refused because the store is down. */
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
    // If a key or project sets `refuse` itself, that tells us nothing about the other calls of this process.
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
      // If the database doesn't respond now, recovery of the journal revokes the rest.
      const closed = Promise.all([...stopped, ...[...quotas.values()].map((quota) => quota.close())]);
      await withTimeout(closed, stopTimeoutMs, () => undefined);
    },
  };

  /** Returns what a call has used of the leases of this process. */
  function consumedHere({ result: { consumed } }: SettledCall): readonly ConsumedAmount[] {
    return consumed?.process === process ? consumed.amounts : nothing;
  }

  function findById(id: number): CounterQuota | undefined {
    for (const quota of quotas.values()) if (quota.counterId() === id) return quota;
    return undefined;
  }
}
