/**
 * Records refused calls. `record` only appends to memory, and a background loop stores what has been appended once per
 * second, so a refusal never waits for the database.
 *
 * A key may be refused thousands of times per second, so it gets at most `maxRowsPerMinute` rows per minute and process.
 * All other refusals are only counted. If the database is unavailable, up to `maxQueuedRows` rows and `maxCounts`
 * counts wait in memory. Beyond that, refusals without a row are still counted, and refusals without a count are
 * lost, which a metric reports. A process that is killed loses the last second.
 */
import { createBackgroundLoop } from '../../core/background-loop.ts';
import { GatewayError } from '../../core/errors.ts';
import { timeOf } from '../../core/ids.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import type { Refusal, RefusedKey } from '../../core/refusal.ts';
import { minuteMs } from '../../core/time.ts';
import { withTimeout } from '../../core/time-limit.ts';
import type { Database } from '../../db/database.ts';
import type { Logger } from '../../observability/logger.ts';
import { type RefusalCount, type RefusedRow, storeRefusals } from './store-refusals.ts';

/** What we know about a call when it's refused. */
export interface RefusedCall {
  readonly id: string;
  readonly startedAt: number;
  readonly route: string;
  /** Null if the key isn't valid. Its error then says which key it is, if we know it. */
  readonly caller: RefusedKey | null;
  readonly source: string | null;
  readonly requestedModel: string | null;
}

/** Records the call if `error` is a refusal of a known key. Each error is recorded once. Never throws. */
export type RecordRefusal = (error: unknown, call: RefusedCall) => void;

export interface RefusalRecorder {
  readonly record: RecordRefusal;
  /** Stores what has been recorded so far, so that a reader sees it. Resolves after a second if it can't be stored. */
  flush(): Promise<void>;
  /** Returns how many refusals this process has recorded, only counted, and lost. */
  totals(): RefusalTotals;
  start(): void;
  /** Stores what is left if the database is available. */
  stop(): Promise<void>;
}

export interface RefusalTotals {
  readonly recorded: number;
  readonly counted: number;
  readonly lost: number;
}

export const maxRowsPerMinute = 60;
const maxQueuedRows = 10_000;
const maxCounts = 20_000;
/** Rows of one transaction. The embedded database blocks the event loop during a statement. */
const maxBatch = 500;
const maxCodePoints = 256;
const intervalMs = 1_000;
const flushTimeoutMs = 1_000;
const stopTimeoutMs = 2_000;

/** The refusals of a key in the current minute. */
interface KeyWindow {
  rows: number;
  /** The counts that aren't being stored yet. */
  readonly counts: Map<string, RefusalCount>;
}

interface RecorderOptions {
  readonly database: Database;
  readonly logger: Pick<Logger, 'warn' | 'info'>;
}

export function createRefusalRecorder({ database, logger }: RecorderOptions): RefusalRecorder {
  let rows: RefusedRow[] = [];
  let counts = new Map<string, RefusalCount>();
  let storingCounts = 0;
  /** We measure the minute of the rate with a clock that can't be set back. */
  let windowEndsAt = 0;
  let windows = new Map<string, KeyWindow>();
  /** Errors may pass through several places that record them. */
  const seen = new WeakSet<GatewayError>();
  const totals = { recorded: 0, counted: 0, lost: 0 };

  const loop = createBackgroundLoop({
    async run() {
      await store();
      return rows.length > 0 ? 'again' : 'idle';
    },
    intervalMs: null,
    backoff: { initialMs: 250, maxMs: 5_000 },
    onFirstFailure: (err) => logger.warn({ err }, 'storing refused calls failed, retrying'),
    onRecovered: () => logger.info({ rows: rows.length, count: totals.lost }, 'refused calls are stored again'),
  });

  const windowOf = (keyId: string): KeyWindow => {
    const now = performance.now();
    if (now >= windowEndsAt) {
      windowEndsAt = now + minuteMs;
      windows = new Map();
    }
    const found = windows.get(keyId);
    if (found) return found;
    const added = { rows: 0, counts: new Map() };
    windows.set(keyId, added);
    return added;
  };

  /** Returns null if there are too many counts. */
  const addCount = (count: RefusalCount): RefusalCount | null => {
    const name = nameOf(count);
    const found = counts.get(name);
    if (found) return found;
    if (counts.size + storingCounts >= maxCounts) return null;
    counts.set(name, count);
    return count;
  };

  const record: RecordRefusal = (error, call) => {
    if (!(error instanceof GatewayError) || error.refusal === undefined || seen.has(error)) return;
    const { refusal } = error;
    const caller = call.caller ?? refusal.key;
    if (!caller) return;
    seen.add(error);
    const { projectId, keyId, keyPrefix } = caller;
    const { reason } = refusal;
    const window = windowOf(keyId);
    const minute = minuteOf(call.startedAt);
    let count = window.counts.get(reason);
    if (count?.minute !== minute) {
      const added = addCount({ projectId, keyPrefix, minute, reason, calls: 0, recorded: 0 });
      if (!added) {
        totals.lost += 1;
        return;
      }
      window.counts.set(reason, added);
      count = added;
    }
    count.calls += 1;
    if (window.rows < maxRowsPerMinute && rows.length < maxQueuedRows) {
      window.rows += 1;
      totals.recorded += 1;
      rows.push(toRow(error, refusal, caller, call));
    } else {
      totals.counted += 1;
    }
    loop.wake(intervalMs);
  };

  /** Stores one batch of rows with all counts. If that fails, both wait for the next run. */
  async function store(): Promise<void> {
    const batch = rows.slice(0, maxBatch);
    const waiting = counts;
    if (waiting.size === 0 && batch.length === 0) return;
    rows = rows.slice(batch.length);
    counts = new Map();
    storingCounts = waiting.size;
    // Later refusals begin new counts, which are added to the stored ones.
    for (const window of windows.values()) window.counts.clear();
    try {
      await storeRefusals(database, batch, withRecorded(waiting, batch));
    } catch (error) {
      rows = [...batch, ...rows];
      for (const [name, count] of waiting) {
        const later = counts.get(name);
        if (!later) counts.set(name, count);
        else later.calls += count.calls;
      }
      throw error;
    } finally {
      storingCounts = 0;
    }
  }

  let isStopped = false;
  const isWaiting = (): boolean => rows.length > 0 || counts.size > 0;
  const storeAll = async (): Promise<void> => {
    // A loop that has stopped does nothing.
    while (isWaiting() && !isStopped) await loop.runNow();
  };

  return {
    record,
    async flush() {
      if (!isWaiting() || loop.isFailing) return;
      await withTimeout(storeAll(), flushTimeoutMs, () => undefined).catch(() => undefined); // The loop reports the error.
    },
    totals: () => totals,
    start: () => loop.start(),
    async stop() {
      await withTimeout(storeAll(), stopTimeoutMs, () => undefined).catch(() => undefined); // The loop reports the error.
      isStopped = true;
      await loop.stop();
    },
  };
}

/**
 * Returns the counts together with those of the rows that are stored with them. A row only counts as recorded once it
 * is stored, because the process may end before that.
 */
function withRecorded(counts: ReadonlyMap<string, RefusalCount>, batch: readonly RefusedRow[]): RefusalCount[] {
  const merged = new Map([...counts].map(([name, count]) => [name, { ...count }]));
  for (const { id, projectId, keyPrefix, reason } of batch) {
    const count = { projectId, keyPrefix, minute: minuteOf(timeOf(id)), reason, calls: 0, recorded: 0 };
    const name = nameOf(count);
    const found = merged.get(name) ?? count;
    found.recorded += 1;
    merged.set(name, found);
  }
  return [...merged.values()];
}

function minuteOf(epochMs: number): number {
  return epochMs - (epochMs % minuteMs);
}

function nameOf({ projectId, minute, keyPrefix, reason }: Omit<RefusalCount, 'calls' | 'recorded'>): string {
  return `${projectId} ${minute} ${keyPrefix} ${reason}`;
}

function toRow(
  { code, status }: GatewayError,
  { reason, rule, limit }: Refusal,
  { projectId, keyId, keyPrefix }: RefusedKey,
  { id, route, source, requestedModel }: RefusedCall,
): RefusedRow {
  return {
    ...{ id, projectId, keyId, keyPrefix, route, status, code, reason },
    source: shorten(source),
    requestedModel: shorten(requestedModel),
    rule: shorten(rule ?? null),
    limit: limit === undefined ? null : Math.trunc(limit),
  };
}

function shorten(text: string | null): string | null {
  return text === null ? null : toPostgresText(text, maxCodePoints);
}
