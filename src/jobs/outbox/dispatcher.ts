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
  readonly repair: () => Promise<void>;
  /** Makes what Temporal starts by itself; called beside `repair`. */
  readonly schedule?: () => Promise<void>;
  readonly logger: Logger;
  /** Told at each change whether Temporal can be reached. */
  readonly onChange?: (reachable: boolean) => void;
  /** How long without a notification until the table is looked at anyway. */
  readonly pollMs?: number;
}

export interface Dispatcher {
  /** Temporal was started anew: look at once, and repair. */
  reconnect(): void;
  /** How long the oldest row waits that is to be delivered, as far as the table was seen last; grows while nothing can be delivered. */
  lagMs(): number;
  /** Resolves when what was claimed is delivered or given back. */
  stop(): Promise<void>;
}

type Place = 'Temporal' | 'the database';

/** Something of ours cannot be reached; `cause` says why. */
class Unreachable extends Error {
  readonly place: Place;

  constructor(place: Place, cause: unknown) {
    super(errorSummary(cause), { cause });
    this.name = 'Unreachable';
    this.place = place;
  }
}

const shortestPauseMs = 500;
const longestPauseMs = 15_000;
/** For so long an answer proves that Temporal is there. */
const proofMs = 15_000;
const repairEveryMs = 24 * 3_600_000;
const never = Number.NEGATIVE_INFINITY;

/** Starts dispatching in the background. */
export function startDispatcher(options: DispatcherOptions): Dispatcher {
  const { database, logger, pollMs = 5_000 } = options;
  const stopping = new AbortController();
  const bell = createBell();
  let provedAt = never;
  let repairedAt = never;
  let reachable: boolean | null = null;
  /** What cannot be reached at the moment; the log has been told. */
  let trouble: Place | null = null;
  /** When the oldest row was written, on our clock. */
  let waitingSince: number | null = null;
  let listening: { stop(): Promise<void> } | null = null;
  const running = run();

  return {
    reconnect() {
      provedAt = repairedAt = never;
      bell.ring();
    },
    lagMs: () => (waitingSince === null ? 0 : performance.now() - waitingSince),
    async stop() {
      stopping.abort();
      bell.ring();
      await running;
      await listening?.stop();
    },
  };

  async function run(): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted; ) {
      try {
        const worked = await pass();
        failures = 0;
        if (!worked) await bell.wait(pollMs);
      } catch (error) {
        noteTrouble(error);
        await bell.wait(Math.min(longestPauseMs, shortestPauseMs * 2 ** failures));
        failures = Math.min(failures + 1, 10);
      }
    }
  }

  /** One look at the table. False: nothing was due. */
  async function pass(): Promise<boolean> {
    listening ??= await reaching('the database', () => database.listen('gateway_outbox', ringIfWell, ringIfWell));
    const waitedMs = await reaching('the database', () => measureLag(database));
    const now = performance.now();
    waitingSince = waitedMs === 0 ? null : now - waitedMs;
    if (now - provedAt >= proofMs) {
      await reaching('Temporal', options.probe);
      provedAt = now;
    }
    if (now - repairedAt >= repairEveryMs) {
      await reaching('Temporal', async () => options.schedule?.());
      await reaching('the database', options.repair);
      repairedAt = now;
    }
    const rows = await reaching('the database', () => claimRows(database));
    noteWell();
    if (rows.length === 0) return false;
    const outcome = await reaching('the database', () => deliverRows(rows, options));
    if (outcome) throw new Unreachable('Temporal', outcome.away);
    provedAt = performance.now();
    return true;
  }

  /** While something is away, new rows are no reason to ask it more often. */
  function ringIfWell(): void {
    if (trouble === null) bell.ring();
  }

  function noteTrouble(error: unknown): void {
    const place = error instanceof Unreachable ? error.place : 'the database';
    if (trouble !== place) logger.warn({ err: error }, `${place} cannot be reached: ${errorSummary(error)}; durable work waits`);
    trouble = place;
    if (place !== 'Temporal') return;
    provedAt = repairedAt = never; // It may come back without its state.
    change(false);
  }

  function noteWell(): void {
    if (trouble !== null) logger.info({}, `${trouble} can be reached again: durable work goes on`);
    trouble = null;
    change(true);
  }

  function change(now: boolean): void {
    if (now === reachable) return;
    reachable = now;
    options.onChange?.(now);
  }
}

async function reaching<Result>(place: Place, action: () => Promise<Result>): Promise<Result> {
  try {
    return await action();
  } catch (error) {
    throw new Unreachable(place, error);
  }
}

/** A wait that can be cut short; a ring while nobody waits ends the next wait. */
function createBell(): { ring(): void; wait(ms: number): Promise<void> } {
  let rung = new AbortController();
  return {
    ring: () => rung.abort(),
    async wait(ms) {
      await sleep(ms, undefined, { signal: rung.signal }).catch(() => {}); // Rejects when rung.
      rung = new AbortController();
    },
  };
}
