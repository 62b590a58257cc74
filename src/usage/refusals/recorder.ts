/**
 * Records refused calls. `record` just adds to a list in memory. A background loop stores the list once per second, so
 * a refusal never waits for the database.
 *
 * A key can be refused thousands of times per second. So each process writes at most `maxRowsPerMinute` rows for a key
 * per minute, and only counts the rest.
 *
 * If the database is unavailable, up to `maxQueuedRows` rows and `maxCounts` counts wait in memory. Refusals for which
 * there's no room for a row are only counted. If there are too many counts as well, they're lost, which a metric shows.
 * If the process is killed, the last second is lost.
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
import { nameOf, type RefusalCount, type RefusedRow, storeRefusals } from './store-refusals.ts';

export interface RefusedCall {
  readonly id: string;
  readonly startedAt: number;
  readonly route: string;
  /** Null if the caller's key is invalid. The error may still name the key. */
  readonly caller: RefusedKey | null;
  readonly source: string | null;
  readonly requestedModel: string | null;
}

/**
 * Records a call if `error` is a refusal and the key is known. Never throws. A second call with the same error has no
 * effect.
 */
export type RecordRefusal = (error: unknown, call: RefusedCall) => void;

export type RefusalRecorder = ReturnType<typeof createRefusalRecorder>;

export const maxRowsPerMinute = 60;
const maxQueuedRows = 10_000;
const maxCounts = 20_000;
/**
 * Limits the number of rows per transaction, because every statement of the embedded database blocks the event loop.
 */
const maxBatch = 500;
const maxCodePoints = 256;
const intervalMs = 1_000;
const flushTimeoutMs = 1_000;
const stopTimeoutMs = 2_000;

interface KeyWindow {
  rows: number;
  /** Counts this key's refusals by reason, starting from when we last began to store counts. */
  readonly counts: Map<string, RefusalCount>;
}

export function createRefusalRecorder({ database, logger }: { database: Database; logger: Pick<Logger, 'warn' | 'info'> }) {
  let rows: RefusedRow[] = [];
  let counts = new Map<string, RefusalCount>();
  let storingCounts = 0;
  /**
   * When the current minute of the rate limit ends. We compare it with `performance.now()`, which never goes backwards.
   */
  let windowEndsAt = 0;
  let windows = new Map<string, KeyWindow>();
  /** Errors that have already been recorded, because an error can pass through several places that record refusals. */
  const seen = new WeakSet<GatewayError>();
  const totals = { recorded: 0, counted: 0, lost: 0 };

  const loop = createBackgroundLoop({
    async run() {
      await store();
      return rows.length > 0 ? 'again' : 'idle';
    },
    intervalMs: null,
    backoff: { initialMs: 250, maxMs: 5_000 },
    onFirstFailure: (err) => logger.warn({ err }, 'failed to store refused calls; retrying'),
    onRecovered: () => logger.info({ rows: rows.length, count: totals.lost }, 'storing refused calls again'),
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

  /** Returns the existing count with the same name, or adds a new one. Returns null if there are too many. */
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

  /** Stores all counts and up to `maxBatch` rows. If this fails, the next run stores them. */
  async function store(): Promise<void> {
    const batch = rows.slice(0, maxBatch);
    const waiting = counts;
    if (waiting.size === 0 && batch.length === 0) return;
    rows = rows.slice(batch.length);
    counts = new Map();
    storingCounts = waiting.size;
    // We're about to store the counts in `waiting`. Later refusals need new counts, which we'll add to the stored ones.
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
    // After `stop`, `runNow` does nothing, so this loop would never end without the check.
    while (isWaiting() && !isStopped) await loop.runNow();
  };

  return {
    record,
    /** Stores everything recorded so far, so that readers see it. Gives up after a second. */
    async flush(): Promise<void> {
      if (loop.isFailing) return;
      // A run in progress may be storing some of them. The loop reports the error.
      await withTimeout(loop.idle().then(storeAll), flushTimeoutMs, () => undefined).catch(() => undefined);
    },
    totals: (): Readonly<typeof totals> => totals,
    start: () => loop.start(),
    async stop(): Promise<void> {
      // The loop reports the error.
      await withTimeout(storeAll(), stopTimeoutMs, () => undefined).catch(() => undefined);
      isStopped = true;
      await loop.stop();
    },
  };
}

/**
 * Adds the rows of a batch to the `recorded` counts. We don't do this any earlier, because the counts would be wrong if
 * the process died before it has stored the rows.
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
