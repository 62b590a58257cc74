/**
 * Decides whether a call is admitted. It wouldn't be enough to check the ceilings, because concurrent calls would
 * overspend. So while a call runs, we reserve its upper bound on each of its ceilings. When the call ends, its actual
 * usage takes the place of the reservation, and the database counts it when the call's row is stored. As long as
 * there's enough local quota, all of this is synchronous. If the quota store is unavailable, the configuration decides
 * what happens.
 *
 * A call belongs to the window in which it started, which we know from its id and its row.
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
import { type CounterKey, createCounterCache, formatCounterKey, type LimitedCounter, type Limits } from './counters.ts';
import { deleteExpiredCounters } from './expired-counters.ts';
import { createLeaseStore, type LeaseStore, quotaReturnChannel } from './lease-store.ts';
import { type Reservation, reserveAll, type UncheckedRefusal, type UsageBounds } from './reservation.ts';
import { createStoreHealth } from './store-health.ts';
import { createUnmeteredQuotas, type UnmeteredQuota } from './unmetered-quotas.ts';

export interface AdmissionRequest {
  readonly limits: Limits;
  readonly startedAt: number;
  /** Computes the upper bounds of the call's usage. Only called if a ceiling depends on them. */
  readonly bounds: () => UsageBounds;
}

export interface Admission {
  /**
   * Checks the ceilings of the key, the application and the project, in this order. Throws if one of them denies the
   * call.
   */
  admit(request: AdmissionRequest): Promise<Reservation>;
  /**
   * True if this process is refusing calls because the quota store is down and the deployment's policy is `refuse`. It
   * takes `refusalsInRow` consecutive refusals to notice. Calls without ceilings are still admitted, and so are calls
   * for which the process has leased enough quota.
   */
  isRefusing(): boolean;
  /** Counts the calls that were refused because we couldn't check their ceilings, by reason. */
  uncheckedRefusals(): Readonly<Record<UncheckedRefusal, number>>;
  /** Call this after the database has stored these calls and added their usage to the counters. */
  commit(calls: readonly SettledCall[]): void;
  /**
   * Call this if the database is never going to store a call, so that its usage is no longer debited from our lease.
   */
  revert(call: SettledCall): void;
  /**
   * Call this if other processes may have considered this one dead and revoked its leases. We don't grant any quota
   * until the database has confirmed them.
   */
  verifyLeases(): void;
  reservedFor(counter: CounterKey): number;
  readonly leases: LeaseStore;
  start(): Promise<void>;
  /**
   * Returns all quota to the database, except for the reservations of running calls. Those are released when the
   * journal of this process is recovered.
   */
  stop(): Promise<void>;
}

export interface AdmissionOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The id of this process's journal. */
  readonly process: string;
  /** The deployment's store-down policy, for keys and projects that don't have their own. */
  readonly onStoreDown: () => StoreDownPolicy;
  /**
   * Called if another process needs quota of one of our counters. Store settled calls soon when that happens, because
   * we can't return their part of the quota until the database has counted them.
   */
  readonly onQuotaRequested?: () => void;
  /** Defaults to a store in `database`. */
  readonly leases?: LeaseStore;
}

const cleanupIntervalMs = 60_000;
const maintenanceIntervalMs = 1_000;
const stopTimeoutMs = 2_000;
const returnWaitMs = 150;
/** How long we poll for quota requests of other processes after notifications may have been lost. */
const pollingMs = 20_000;
const pollIntervalMs = 250;
/**
 * After this many consecutive refusals because of the store-down policy, we report that the process is refusing calls.
 */
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
   * The ids of counters for which another process has requested quota within the last second while we had none to
   * return. If we're just about to lease some, we return it right away.
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

  /** Returns the id of a counter, and remembers which quota belongs to it, because `commit` only has the id. */
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
   * Publishes the reservations of this process once per maintenance interval, so that other processes can report them.
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
    onFailure: (err) => logger.debug({ err }, 'failed to publish reservations; retrying on the next change'),
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
    onFailure: (err) => logger.debug({ err }, 'failed to poll for quota requests; retrying'),
  });

  const startPolling = (): void => {
    pollUntil = performance.now() + pollingMs;
    polling.wake();
  };

  const deleteExpired = (): void => {
    if (quotas.size === 0 || clock.now() - cleanedAt < cleanupIntervalMs) return;
    cleanedAt = clock.now();
    deleteExpiredCounters(database, clock).catch((err: unknown) => logger.debug({ err }, 'failed to delete expired counters'));
  };

  /** How many calls in a row we've refused because the quota store is down. */
  let refusals = 0;
  const uncheckedRefusals = { policy: 0, exhausted: 0 };
  const onUncheckedRefusal = (reason: UncheckedRefusal): void => {
    uncheckedRefusals[reason] += 1;
  };
  const unmetered = createUnmeteredQuotas(logger);
  const unmeteredQuotaFor = ({ onBudgetStoreDown, project }: Limits, counter: LimitedCounter): UnmeteredQuota | null => {
    const chosen = onBudgetStoreDown ?? project.onBudgetStoreDown ?? null;
    const policy = chosen ?? onStoreDown();
    if (policy === 'allow') return unmetered.quotaFor(counter);
    // Only count refusals that are due to the deployment's policy. If a key or project has its own `refuse` policy,
    // calls of other keys may still be admitted.
    if (chosen === null) refusals += 1;
    return null;
  };

  return {
    leases,
    async admit({ limits, startedAt, bounds }) {
      const counters = countersFor(limits, startedAt);
      const request = { limits, startedAt, counters, bounds, quotaFor, unmeteredQuotaFor, onUncheckedRefusal, process, counterIdOf };
      const reservation = counters.length === 0 ? emptyReservation : await reserveAll(request);
      refusals = 0;
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
      // Don't wait long for an unresponsive database. Quota that we haven't returned is released when the journal
      // is recovered.
      const closed = Promise.all([...stopped, ...[...quotas.values()].map((quota) => quota.close())]);
      await withTimeout(closed, stopTimeoutMs, () => undefined);
    },
  };

  function consumedHere({ result: { consumed } }: SettledCall): readonly ConsumedAmount[] {
    return consumed?.process === process ? consumed.amounts : nothing;
  }

  function findById(id: number): CounterQuota | undefined {
    for (const quota of quotas.values()) if (quota.counterId() === id) return quota;
    return undefined;
  }
}
