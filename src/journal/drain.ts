/**
 * Copies the journal of this process to the database. It stores settled calls in batches within `intervalMs`, and
 * deletes a segment once all of it is stored. Calls are stored by id, so a crash between two steps only repeats the
 * last step.
 *
 * We keep the latest calls in memory (`recent-calls.ts`) and read older ones back from the segment files. During a
 * database outage the journal grows on disk, and the drain retries with backoff. Afterwards it processes one window of
 * a segment at a time, so its memory doesn't grow with the backlog. See docs/architecture/journal.md.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createBackgroundLoop, type NextRun } from '../core/background-loop.ts';
import type { SettledCall } from '../core/call.ts';
import { type Clock, dayMs } from '../core/time.ts';
import { withTimeout } from '../core/time-limit.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { type BatchCounts, type BeforeStore, createBatchStore, maxBatchBytes, type StoreCalls } from './batch-store.ts';
import type { HitFailpoint } from './failpoints.ts';
import { type JournalFileSystem, nodeFileSystem } from './file-system.ts';
import type { Journal } from './journal.ts';
import { createQuarantine, type IsErased } from './quarantine.ts';
import { createRecentCalls } from './recent-calls.ts';
import { readWindow } from './segment-reader.ts';
import type { Segment } from './segment-writer.ts';

export interface Drain {
  start(): void;
  /** Stores the records written so far immediately instead of within the interval. */
  wake(): void;
  /**
   * Resolves when all records written so far are in the database, or after `timeoutMs`. By default we wait long while
   * the database accepts calls, so that readers see their own calls, and only briefly during an outage. If a project is
   * given, we only wait for its own calls, so a project that reads all the time doesn't split other projects' calls
   * into small batches.
   */
  waitUntilDrained(options?: { readonly projectId?: string; readonly timeoutMs?: number }): Promise<void>;
  /**
   * Resolves with true once everything that's in the journal now has been stored and deleted from disk, or with false
   * after `timeoutMs`.
   */
  drainAndDelete(timeoutMs?: number): Promise<boolean>;
  /** Drains once more, for at most `timeoutMs`, and stops. The remaining records stay in the journal. */
  stop(timeoutMs?: number): Promise<void>;
  /** `lagMs` is the age of the oldest record that hasn't been stored, or 0 if all records have been. */
  counts(): BatchCounts & { readonly backlogBytes: number; readonly lagMs: number };
}

export interface DrainOptions {
  readonly journal: Journal;
  readonly dataDir: string;
  readonly database: Database;
  readonly store: StoreCalls;
  readonly beforeStore?: BeforeStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The longest time until a call is stored. A full batch is stored earlier. Defaults to 100. */
  readonly intervalMs?: number;
  /** The most bytes of calls that we keep in memory until they're stored. */
  readonly recentBytes?: number;
  /** Runs before the first batch and then daily. Creates the partitions that calls need (`usage/partitions.ts`). */
  readonly prepare?: () => Promise<void>;
  /** Called with calls once they are in the database. */
  readonly onStored?: (calls: readonly SettledCall[]) => void;
  /** Called with a call that the database rejects even without its text. */
  readonly onRejected?: (call: SettledCall) => void;
  /** Used to keep data from before an erasure out of the quarantine. */
  readonly isErased?: IsErased;
  readonly files?: JournalFileSystem;
  readonly failpoint?: HitFailpoint;
}

/** Everything before this position in the journal has been stored. */
interface Position {
  readonly segment: number;
  readonly offset: number;
}

interface Waiter {
  readonly target: Position;
  readonly resolve: () => void;
}

const backoff = { initialMs: 250, maxMs: 5_000 };
const defaultWaitMs = 10_000;
const failureWaitMs = 1_000;
/** We delete the last segment of an idle journal at this age, so that no text stays in it for long. */
const idleSegmentMs = 10_000;

export function createDrain(options: DrainOptions): Drain {
  const { journal, dataDir, database, store, clock, logger, intervalMs = 100, prepare, failpoint = () => undefined } = options;
  const { beforeStore, onStored, onRejected, recentBytes = 64 * 1_024 * 1_024, files = nodeFileSystem } = options;
  const quarantine = createQuarantine(dataDir, options.isErased, files);
  const batches = createBatchStore({ database, store, beforeStore, quarantine, logger, failpoint, onStored, onRejected });
  let position: Position = { segment: 0, offset: 0 };
  let waiters: readonly Waiter[] = [];
  let preparedAt: number | null = null;
  let isStopped = false;
  let isStarted = false;
  /**
   * All records written before this time (by `performance.now()`) have been stored. Null if there are no other records.
   */
  let storedUntil: number | null = null;
  /** The end of each project's last call, for projects with calls that may not have been stored yet. */
  const lastCalls = new Map<string, Position>();
  const recent = createRecentCalls({ maxBytes: recentBytes, batchBytes: maxBatchBytes });
  const stopListening = journal.onAppended((range) => {
    recent.add(range);
    const end = { segment: range.segment, offset: range.end };
    for (const { metadata } of range.calls) lastCalls.set(metadata.projectId, end);
    storedUntil ??= performance.now();
    if (isStarted && !loop.isFailing) loop.wake(recent.isBatchFull ? 0 : intervalMs);
  });

  const drainOnce = async (): Promise<NextRun> => {
    const startedAt = performance.now();
    await prepareDaily();
    // Records that arrive in the meantime wait for the next run. When we included them, batches had only ten calls
    // under load, and each batch runs all statements. On the embedded database this took half of the CPU time of a call
    // (990 µs instead of 500).
    const ends = journal.segments().map((segment) => ({ segment, endOffset: segment.bytes }));
    for (const { segment, endOffset } of ends) {
      if (segment.number < position.segment) continue;
      if (segment.number > position.segment) position = { segment: segment.number, offset: 0 };
      await drainSegment(segment, endOffset);
      // Recovery stores and deletes the rest of the journal.
      if (isStopped) return 'idle';
      resolveWaiters();
    }
    storedUntil = backlogBytes() > 0 ? startedAt : null;
    for (const [projectId, end] of lastCalls) if (!isBefore(position, end)) lastCalls.delete(projectId);
    await deleteDrainedSegments();
    return backlogBytes() > 0 ? Math.max(0, startedAt + intervalMs - performance.now()) : 'idle';
  };

  /** Stays idle until a record is appended. */
  const loop = createBackgroundLoop({
    run: drainOnce,
    intervalMs: null,
    backoff,
    onFirstFailure: (err) =>
      // Outages end without our help. Any other error, e.g. a damaged index, persists until somebody fixes it.
      logger[isConnectionError(err) ? 'warn' : 'error'](
        { err, backlogBytes: backlogBytes() },
        'journal drain failed; records are kept on disk',
      ),
    onRecovered: () => logger.info({}, 'journal drain recovered'),
  });

  const prepareDaily = async (): Promise<void> => {
    if (!prepare || (preparedAt !== null && clock.now() - preparedAt < dayMs)) return;
    try {
      await prepare();
    } catch (error) {
      if (isConnectionError(error)) throw error;
      // Until then the rows go into the default partition.
      logger.error({ err: error }, 'partition creation failed; retrying in a day');
    }
    preparedAt = clock.now();
  };

  const drainSegment = async (segment: Segment, endOffset: number): Promise<void> => {
    while (position.offset < endOffset && !isStopped) {
      const { end, calls } = recent.next(segment.number, position.offset, endOffset);
      if (calls === null) {
        await drainFromDisk(segment, end);
      } else {
        await batches.storeSettled(calls);
        position = { segment: segment.number, offset: end };
      }
      recent.removeBefore(position.segment, position.offset);
    }
  };

  const drainFromDisk = async (segment: Segment, endOffset: number): Promise<void> => {
    failpoint('before read');
    const window = await readWindow(files, segment.file, position.offset, endOffset);
    await batches.storeFrames(window.frames);
    position = { segment: segment.number, offset: window.nextOffset };
    if (window.end === 'more' || window.nextOffset === endOffset) return;
    // We can't read back bytes that were written successfully, so the disk must be damaged.
    const inQuarantine = await quarantine.addSegment(journal.id, segment.number, segment.file);
    logger.error({ segment: segment.number, offset: window.nextOffset, inQuarantine }, 'journal segment damaged');
    position = { segment: segment.number, offset: endOffset };
  };

  /** Deletes segments in order, so that an `opened` record never outlives the `settled` record of its call. */
  const deleteDrainedSegments = async (): Promise<void> => {
    for (const segment of [...journal.segments()]) {
      if (!isDrained(segment)) return;
      if (!segment.sealed) {
        if (segment.bytes === 0) return;
        if (clock.now() - segment.createdAt < idleSegmentMs) return loop.wake(idleSegmentMs);
        await journal.seal();
        if (!isDrained(segment)) return loop.wake();
      }
      if (!(await journal.deleteSegment(segment.number))) return loop.wake(intervalMs);
    }
  };

  const isDrained = ({ number, bytes }: Segment): boolean =>
    number < position.segment || (number === position.segment && position.offset === bytes);

  const resolveWaiters = (): void => {
    const isReached = ({ target }: Waiter): boolean => !isBefore(position, target);
    for (const waiter of waiters.filter(isReached)) waiter.resolve();
    waiters = waiters.filter((waiter) => !isReached(waiter));
  };

  const backlogBytes = (): number =>
    journal.segments().reduce((sum, { number, bytes }) => {
      if (number < position.segment) return sum;
      return sum + bytes - (number === position.segment ? position.offset : 0);
    }, 0);

  return {
    start() {
      isStarted = true;
      loop.start();
    },
    wake() {
      if (!loop.isFailing) loop.wake();
    },
    async waitUntilDrained({ projectId, timeoutMs = loop.isFailing ? failureWaitMs : defaultWaitMs } = {}) {
      const newest = journal.segments().at(-1);
      const end = newest && { segment: newest.number, offset: newest.bytes };
      const target = (projectId === undefined ? end : lastCalls.get(projectId)) ?? position;
      if (!isBefore(position, target) || isStopped) return;
      const { promise: reached, resolve } = Promise.withResolvers<void>();
      const waiter: Waiter = { target, resolve };
      waiters = [...waiters, waiter];
      // Requests another run, because a run in progress may have read the length of the newest segment before this
      // call.
      if (!loop.isFailing) loop.wake();
      await withTimeout(reached, timeoutMs, () => undefined);
      waiters = waiters.filter((other) => other !== waiter);
    },
    async drainAndDelete(timeoutMs = 10_000) {
      const deadline = performance.now() + timeoutMs;
      await journal.seal();
      const last = journal.segments().findLast(({ sealed }) => sealed)?.number ?? 0;
      const isDeleted = (): boolean => journal.segments().every(({ number }) => number > last);
      while (!isDeleted() && !isStopped && performance.now() < deadline) {
        await runReported();
        if (!isDeleted()) await sleep(intervalMs, undefined, { ref: false });
      }
      return isDeleted();
    },
    async stop(timeoutMs = 5_000) {
      stopListening();
      await withTimeout(drainFinally(), timeoutMs, () => undefined);
      isStopped = true;
      void loop.stop(); // We don't wait for this, because a run may hang in the database.
      for (const waiter of waiters) waiter.resolve();
    },
    counts: () => ({
      ...batches.counts(),
      backlogBytes: backlogBytes(),
      lagMs: storedUntil === null || backlogBytes() === 0 ? 0 : performance.now() - storedUntil,
    }),
  };

  /** The loop has already logged a failed run, so we ignore the error. */
  async function runReported(): Promise<void> {
    await loop.runNow().catch(() => undefined);
  }

  async function drainFinally(): Promise<void> {
    await loop.idle();
    await journal.seal();
    await runReported();
  }
}

function isBefore(one: Position, other: Position): boolean {
  return one.segment < other.segment || (one.segment === other.segment && one.offset < other.offset);
}
