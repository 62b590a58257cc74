/**
 * Delivers outbox rows to Temporal by starting workflows. Rows are delivered at least once, and in order per workflow
 * id. Any number of processes can dispatch at the same time. Starts and signals are idempotent, so we don't delete a
 * row until its workflow was started.
 *
 * While Temporal or the database is unavailable, rows wait. We log one line at the beginning of an outage and one at
 * the end. Whenever we (re)connect and once a day, `reenqueueUnfinished` writes rows for all work that is unfinished
 * according to the tables. So nothing is lost, even if Temporal loses its state.
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
   * Starts the row's workflow unless it's running, and sends the row's signal if it has one. Throws
   * `PermanentStartError` if the server rejects the row. Any other error means that Temporal is unavailable.
   */
  readonly start: (row: OutboxRow) => Promise<void>;
  /** Rejects if Temporal doesn't respond. */
  readonly probe: () => Promise<void>;
  /** Writes outbox rows for all work that is unfinished according to the tables. */
  readonly reenqueueUnfinished: () => Promise<void>;
  /**
   * Schedules to create or update after each (re)connect and once a day. If the server rejects them or still lacks some
   * search attributes, the dispatcher tries again soon.
   */
  readonly schedules?: Schedules;
  readonly logger: Logger;
  readonly onChange?: (reachable: boolean) => void;
  /** How often to read the table when no notification arrives. */
  readonly pollIntervalMs?: number;
}

export interface Schedules {
  /**
   * Creates or updates the schedules. Resolves to false if the server rejects them, and only rejects if Temporal is
   * unavailable.
   */
  put(): Promise<boolean>;
  /** Checks whether the server has gained search attributes since the schedules were last updated. */
  lackAttributes(): boolean;
}

export type Dispatcher = ReturnType<typeof startDispatcher>;

type Dependency = 'Temporal' | 'database';

/** Thrown if Temporal or the database is unavailable, with the reason in `cause`. */
class DependencyUnavailableError extends Error {
  readonly dependency: Dependency;

  constructor(dependency: Dependency, cause: unknown) {
    super(errorSummary(cause), { cause });
    this.name = 'DependencyUnavailableError';
    this.dependency = dependency;
  }
}

const backoff = { initialMs: 500, maxMs: 15_000 };
/** How long Temporal counts as available after a successful request, without another probe. */
const probeTtlMs = 15_000;
const reenqueueIntervalMs = 24 * 3_600_000;
const scheduleRetryMs = 60_000;
const never = Number.NEGATIVE_INFINITY;

export function startDispatcher(options: DispatcherOptions) {
  const { database, logger, pollIntervalMs = 5_000 } = options;
  let probedAt = never;
  let reenqueuedAt = never;
  let schedulesDueAt = never;
  let reachable: boolean | null = null;
  /** The dependency whose outage has been logged, or null if there's no outage. */
  let outage: Dependency | null = null;
  /** When the oldest row was created, on this process's `performance.now()` clock. */
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
    /** Call this after Temporal was restarted. Enqueues unfinished work again and dispatches immediately. */
    reconnect(): void {
      probedAt = reenqueuedAt = schedulesDueAt = never;
      loop.wake();
    },
    /**
     * Age of the oldest undelivered row in milliseconds. It's extrapolated from the last read of the table, so it also
     * grows while the database is down.
     */
    lagMs: (): number => (oldestCreatedAt === null ? 0 : performance.now() - oldestCreatedAt),
    /** Resolves once every row that the dispatcher has claimed is delivered or released. */
    async stop(): Promise<void> {
      await loop.stop();
      await listening?.stop();
    },
  };

  /** Returns false if no row was due. */
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

  /**
   * Wakes the loop after a new row was written. During an outage this does nothing, because waking the loop would
   * defeat the backoff.
   */
  function wakeUnlessOutage(): void {
    if (outage === null) loop.wake();
  }

  function recordOutage(error: unknown): void {
    const dependency = error instanceof DependencyUnavailableError ? error.dependency : 'database';
    if (outage !== dependency) logger.warn({ dependency, err: error }, 'outbox dispatch paused');
    outage = dependency;
    if (dependency !== 'Temporal') return;
    // Temporal may have lost its state in the outage, so check everything again.
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
