/**
 * Delivers outbox rows as workflow starts, at least once and in order per workflow id. Any number of processes can do
 * this at the same time. Starts and signals are idempotent, so we only delete a row after its workflow was started.
 *
 * Rows wait while Temporal or the database is unavailable. We log one line when an outage begins and one when it ends.
 * After each (re)connection and once a day, `reenqueueUnfinished` writes rows for all work that is unfinished according
 * to the tables, so nothing is lost even if Temporal loses its state.
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
  /**
   * Starts the row's workflow unless it's running, and sends its signal if it has one. Every error except
   * `PermanentStartError` means that Temporal is unavailable.
   */
  readonly start: (row: OutboxRow) => Promise<void>;
  /** Resolves if Temporal responds. */
  readonly probe: () => Promise<void>;
  /** Writes outbox rows for all work that is unfinished according to the tables. */
  readonly reenqueueUnfinished: () => Promise<void>;
  /**
   * We update them on each (re)connection and daily. If the server rejects them or they lack search attributes, we try
   * again soon.
   */
  readonly schedules?: Schedules;
  readonly logger: Logger;
  /** Called whenever Temporal becomes reachable or unreachable. */
  readonly onChange?: (reachable: boolean) => void;
  /** If there hasn't been a notification for this long, we read the table anyway. */
  readonly pollIntervalMs?: number;
}

/** Maintains Temporal's schedules. */
export interface Schedules {
  /**
   * Creates or updates the schedules. Resolves to false if the server rejects them, and only rejects if Temporal is
   * unavailable.
   */
  put(): Promise<boolean>;
  /** Reports whether the server has search attributes by now that the schedules don't have yet. */
  lackAttributes(): boolean;
}

export interface Dispatcher {
  /** Call this after Temporal was restarted. Dispatches and enqueues unfinished work immediately. */
  reconnect(): void;
  /**
   * Returns the age of the oldest undelivered row in milliseconds. It's based on the last time we read the table, and
   * keeps growing during an outage.
   */
  lagMs(): number;
  /** Resolves once every claimed row is either delivered or released. */
  stop(): Promise<void>;
}

type Dependency = 'Temporal' | 'database';

/** Thrown if a dependency is unavailable. `cause` contains the reason. */
class DependencyUnavailableError extends Error {
  readonly dependency: Dependency;

  constructor(dependency: Dependency, cause: unknown) {
    super(errorSummary(cause), { cause });
    this.name = 'DependencyUnavailableError';
    this.dependency = dependency;
  }
}

const backoff = { initialMs: 500, maxMs: 15_000 };
/** After a successful request we assume for this long that Temporal is available. */
const probeTtlMs = 15_000;
const reenqueueIntervalMs = 24 * 3_600_000;
const scheduleRetryMs = 60_000;
const never = Number.NEGATIVE_INFINITY;

/** Starts dispatching in the background. */
export function startDispatcher(options: DispatcherOptions): Dispatcher {
  const { database, logger, pollIntervalMs = 5_000 } = options;
  let probedAt = never;
  let reenqueuedAt = never;
  /** The next time to update the schedules. */
  let schedulesDueAt = never;
  let reachable: boolean | null = null;
  /** The dependency that is currently unavailable. It has been logged already. */
  let outage: Dependency | null = null;
  /** The time at which the oldest row was written, according to this process's clock. */
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

  /** Claims and delivers a batch. Returns false if no row was due. */
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

  /** New rows don't shorten the backoff during an outage. */
  function wakeUnlessOutage(): void {
    if (outage === null) loop.wake();
  }

  function recordOutage(error: unknown): void {
    const dependency = error instanceof DependencyUnavailableError ? error.dependency : 'database';
    if (outage !== dependency) logger.warn({ dependency, err: error }, 'outbox dispatch paused');
    outage = dependency;
    if (dependency !== 'Temporal') return;
    // Temporal may have lost its state when it comes back.
    probedAt = reenqueuedAt = schedulesDueAt = never;
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
