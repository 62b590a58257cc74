/**
 * Turns outbox rows into workflow starts (decisions 8): in order for each workflow id, at least once, by any number of processes beside
 * each other. A start or a signal twice is harmless, so a row is deleted after its start and not before.
 *
 * Temporal away, not yet there, or without its state: rows wait, and the log has one line when it begins and one when it ends. After
 * each (re)connection and once a day `repair` writes rows again for what the tables show unfinished, so no work is lost with Temporal's
 * state. The same waiting and the same two lines when the database cannot be reached.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { errorSummary } from '../../core/error-messages.ts';
import type { Database } from '../../db/database.ts';
import type { Logger } from '../../observability/logger.ts';
import { claimRows, deliverRows, measureLag, type OutboxRow } from './outbox-rows.ts';

export interface DispatcherOptions {
  readonly database: Database;
  /** Starts the entry's workflow unless it runs, and signals it where the entry says so. Whatever it throws, but `StartRefused`, means that Temporal is away. */
  readonly start: (row: OutboxRow) => Promise<void>;
  /** Resolves when Temporal answers. */
  readonly probe: () => Promise<void>;
  /** Writes outbox rows again for what the tables show unfinished. */
  readonly reenqueueUnfinished: () => Promise<void>;
  /** Makes what Temporal starts by itself; called beside `repair`. */
  readonly ensureSchedules?: () => Promise<void>;
  readonly logger: Logger;
  /** Told at each change whether Temporal can be reached. */
  readonly onChange?: (reachable: boolean) => void;
  /** How long without a notification until the table is looked at anyway. */
  readonly pollIntervalMs?: number;
}

export interface Dispatcher {
  /** Temporal was started anew: look at once, and repair. */
  reconnect(): void;
  /** How long the oldest row waits that is to be delivered, as far as the table was seen last; grows while nothing can be delivered. */
  lagMs(): number;
  /** Resolves when what was claimed is delivered or given back. */
  stop(): Promise<void>;
}

type Dependency = 'Temporal' | 'the database';

/** Something of ours cannot be reached; `cause` says why. */
class DependencyUnavailableError extends Error {
  readonly dependency: Dependency;

  constructor(dependency: Dependency, cause: unknown) {
    super(errorSummary(cause), { cause });
    this.name = 'Unreachable';
    this.dependency = dependency;
  }
}

const initialBackoffMs = 500;
const maxBackoffMs = 15_000;
/** For so long an answer proves that Temporal is there. */
const probeTtlMs = 15_000;
const reenqueueIntervalMs = 24 * 3_600_000;
const never = Number.NEGATIVE_INFINITY;

/** Starts dispatching in the background. */
export function startDispatcher(options: DispatcherOptions): Dispatcher {
  const { database, logger, pollIntervalMs = 5_000 } = options;
  const stopping = new AbortController();
  const wakeSignal = createWakeSignal();
  let probedAt = never;
  let reenqueuedAt = never;
  let reachable: boolean | null = null;
  /** What cannot be reached at the moment; the log has been told. */
  let outage: Dependency | null = null;
  /** When the oldest row was written, on our clock. */
  let oldestCreatedAt: number | null = null;
  let listening: { stop(): Promise<void> } | null = null;
  const running = run();

  return {
    reconnect() {
      probedAt = reenqueuedAt = never;
      wakeSignal.wake();
    },
    lagMs: () => (oldestCreatedAt === null ? 0 : performance.now() - oldestCreatedAt),
    async stop() {
      stopping.abort();
      wakeSignal.wake();
      await running;
      await listening?.stop();
    },
  };

  async function run(): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted; ) {
      try {
        const delivered = await dispatchOnce();
        failures = 0;
        if (!delivered) await wakeSignal.wait(pollIntervalMs);
      } catch (error) {
        recordOutage(error);
        await wakeSignal.wait(Math.min(maxBackoffMs, initialBackoffMs * 2 ** failures));
        failures = Math.min(failures + 1, 10);
      }
    }
  }

  /** One look at the table. False: nothing was due. */
  async function dispatchOnce(): Promise<boolean> {
    listening ??= await withDependency('the database', () => database.listen('gateway_outbox', wakeUnlessOutage, wakeUnlessOutage));
    const waitedMs = await withDependency('the database', () => measureLag(database));
    const now = performance.now();
    oldestCreatedAt = waitedMs === 0 ? null : now - waitedMs;
    if (now - probedAt >= probeTtlMs) {
      await withDependency('Temporal', options.probe);
      probedAt = now;
    }
    if (now - reenqueuedAt >= reenqueueIntervalMs) {
      await withDependency('Temporal', async () => options.ensureSchedules?.());
      await withDependency('the database', options.reenqueueUnfinished);
      reenqueuedAt = now;
    }
    const rows = await withDependency('the database', () => claimRows(database));
    recordRecovery();
    if (rows.length === 0) return false;
    const failure = await withDependency('the database', () => deliverRows(rows, options));
    if (failure) throw new DependencyUnavailableError('Temporal', failure.outage);
    probedAt = performance.now();
    return true;
  }

  /** While something is away, new rows are no reason to ask it more often. */
  function wakeUnlessOutage(): void {
    if (outage === null) wakeSignal.wake();
  }

  function recordOutage(error: unknown): void {
    const dependency = error instanceof DependencyUnavailableError ? error.dependency : 'the database';
    if (outage !== dependency) logger.warn({ err: error }, `${dependency} cannot be reached: ${errorSummary(error)}; durable work waits`);
    outage = dependency;
    if (dependency !== 'Temporal') return;
    probedAt = reenqueuedAt = never; // It may come back without its state.
    setReachable(false);
  }

  function recordRecovery(): void {
    if (outage !== null) logger.info({}, `${outage} can be reached again: durable work goes on`);
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

/** A wait that can be cut short; a ring while nobody waits ends the next wait. */
function createWakeSignal(): { wake(): void; wait(ms: number): Promise<void> } {
  let woken = new AbortController();
  return {
    wake: () => woken.abort(),
    async wait(ms) {
      await sleep(ms, undefined, { signal: woken.signal }).catch(() => {}); // Rejects when rung.
      woken = new AbortController();
    },
  };
}
