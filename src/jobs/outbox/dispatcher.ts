/**
 * Dispatches outbox rows as workflow starts: in order per workflow id, at least once, from any number of processes concurrently. Starts and
 * signals are idempotent, so a row is deleted only after its start.
 *
 * While Temporal or the database is unavailable, rows wait; the log has one line when an outage begins and one when it ends. After each
 * (re)connection and once a day `reenqueueUnfinished` writes rows for everything the tables show as unfinished, so that no work is lost even
 * if Temporal loses its state.
 *
 * @see docs/architecture/durable-work.md
 */
import { createBackgroundLoop } from '../../core/background-loop.ts';
import { errorSummary } from '../../core/error-messages.ts';
import type { Database } from '../../db/database.ts';
import type { Logger } from '../../observability/logger.ts';
import { claimRows, deliverRows, measureLag, type OutboxRow } from './outbox-rows.ts';

export interface DispatcherOptions {
  readonly database: Database;
  /** Starts the row's workflow unless it runs, and sends its signal if any. Every error except `PermanentStartError` means that Temporal is unavailable. */
  readonly start: (row: OutboxRow) => Promise<void>;
  /** Resolves when Temporal responds. */
  readonly probe: () => Promise<void>;
  /** Writes outbox rows for everything the tables show as unfinished. */
  readonly reenqueueUnfinished: () => Promise<void>;
  /** Updated at each (re)connection, daily, soon again if they are rejected, and when they lack attributes. */
  readonly schedules?: Schedules;
  readonly logger: Logger;
  /** Called at each change of Temporal's reachability. */
  readonly onChange?: (reachable: boolean) => void;
  /** Longest time without a notification until the table is read anyway. */
  readonly pollIntervalMs?: number;
}

/** Temporal's schedules. */
export interface Schedules {
  /** Creates or updates them. Resolves to false when the server rejects them. Rejects only when Temporal is unavailable. */
  put(): Promise<boolean>;
  /** Whether the server has search attributes now that the schedules lack. */
  lackAttributes(): boolean;
}

export interface Dispatcher {
  /** Call after Temporal was restarted: dispatches and re-enqueues immediately. */
  reconnect(): void;
  /** Age in milliseconds of the oldest undelivered row at the last read of the table; keeps growing during an outage. */
  lagMs(): number;
  /** Resolves when all claimed rows are delivered or their claims released. */
  stop(): Promise<void>;
}

type Dependency = 'Temporal' | 'database';

/** A dependency is unavailable; `cause` says why. */
class DependencyUnavailableError extends Error {
  readonly dependency: Dependency;

  constructor(dependency: Dependency, cause: unknown) {
    super(errorSummary(cause), { cause });
    this.name = 'DependencyUnavailableError';
    this.dependency = dependency;
  }
}

const backoff = { initialMs: 500, maxMs: 15_000 };
/** A successful request proves for this long that Temporal is available. */
const probeTtlMs = 15_000;
const reenqueueIntervalMs = 24 * 3_600_000;
const scheduleRetryMs = 60_000;
const never = Number.NEGATIVE_INFINITY;

/** Starts dispatching in the background. */
export function startDispatcher(options: DispatcherOptions): Dispatcher {
  const { database, logger, pollIntervalMs = 5_000 } = options;
  let probedAt = never;
  let reenqueuedAt = never;
  /** When to update the schedules next. */
  let schedulesDueAt = never;
  let reachable: boolean | null = null;
  /** The dependency that is unavailable now; already logged. */
  let outage: Dependency | null = null;
  /** When the oldest row was written, on this process's clock. */
  let oldestCreatedAt: number | null = null;
  let listening: { stop(): Promise<void> } | null = null;
  const loop = createBackgroundLoop({
    run: async () => ((await dispatchOnce()) ? 'again' : 'idle'),
    intervalMs: pollIntervalMs,
    backoff,
    onFailure: recordOutage,
    ref: true,
  });
  loop.start();

  return {
    reconnect() {
      probedAt = reenqueuedAt = schedulesDueAt = never;
      loop.wake();
    },
    lagMs: () => (oldestCreatedAt === null ? 0 : performance.now() - oldestCreatedAt),
    async stop() {
      await loop.stop();
      await listening?.stop();
    },
  };

  /** Claims and delivers one batch. False when no row was due. */
  async function dispatchOnce(): Promise<boolean> {
    listening ??= await withDependency('database', () => database.listen('gateway_outbox', wakeUnlessOutage, wakeUnlessOutage));
    const waitedMs = await withDependency('database', () => measureLag(database));
    const now = performance.now();
    oldestCreatedAt = waitedMs === 0 ? null : now - waitedMs;
    if (now - probedAt >= probeTtlMs) {
      await withDependency('Temporal', options.probe);
      probedAt = now;
    }
    if (now >= schedulesDueAt || options.schedules?.lackAttributes()) {
      const areAccepted = await withDependency('Temporal', async () => (await options.schedules?.put()) ?? true);
      schedulesDueAt = now + (areAccepted ? reenqueueIntervalMs : scheduleRetryMs);
    }
    if (now - reenqueuedAt >= reenqueueIntervalMs) {
      await withDependency('database', options.reenqueueUnfinished);
      reenqueuedAt = now;
    }
    const rows = await withDependency('database', () => claimRows(database));
    recordRecovery();
    if (rows.length === 0) return false;
    const failure = await withDependency('database', () => deliverRows(rows, options));
    if (failure) throw new DependencyUnavailableError('Temporal', failure.outage);
    probedAt = performance.now();
    return true;
  }

  /** During an outage, new rows do not shorten the backoff. */
  function wakeUnlessOutage(): void {
    if (outage === null) loop.wake();
  }

  function recordOutage(error: unknown): void {
    const dependency = error instanceof DependencyUnavailableError ? error.dependency : 'database';
    if (outage !== dependency) logger.warn({ dependency, err: error }, 'outbox dispatch paused');
    outage = dependency;
    if (dependency !== 'Temporal') return;
    probedAt = reenqueuedAt = schedulesDueAt = never; // It may return without its state.
    setReachable(false);
  }

  function recordRecovery(): void {
    if (outage !== null) logger.info({ dependency: outage }, 'outbox dispatch resumed');
    outage = null;
    setReachable(true);
  }

  function setReachable(now: boolean): void {
    if (now === reachable) return;
    reachable = now;
    options.onChange?.(now);
  }
}

async function withDependency<Result>(dependency: Dependency, action: () => Promise<Result>): Promise<Result> {
  try {
    return await action();
  } catch (error) {
    throw new DependencyUnavailableError(dependency, error);
  }
}
