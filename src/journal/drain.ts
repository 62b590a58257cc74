/**
 * Copies this process's journal to the database. The drain stores settled calls in batches within `intervalMs`, and
 * deletes each segment once everything in it is stored. Storing a call twice has no effect, so after a crash the drain
 * can safely repeat the last step.
 *
 * The latest calls are kept in memory (`recent-calls.ts`), and older ones are read back from the segment files. During
 * a database outage the journal grows on disk, and the drain retries with backoff. Afterwards it processes the backlog
 * in windows of limited size, so its memory usage doesn't grow. If a project is locked for a long time, its calls are
 * stored separately (`set-aside.ts`). See docs/architecture/journal.md.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createBackgroundLoop, type NextRun } from '../core/background-loop.ts';
import type { SettledCall } from '../core/call.ts';
import { type Clock, dayMs } from '../core/time.ts';
import { withTimeout } from '../core/time-limit.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { LogFields } from '../observability/log-fields.ts';
import { type BatchCounts, createBatchStore, maxBatchBytes, type StoringOptions } from './batch-store.ts';
import { nodeFileSystem } from './file-system.ts';
import type { Frame } from './frame.ts';
import type { Journal } from './journal.ts';
import { isBefore, type Position } from './position.ts';
import { createQuarantine } from './quarantine.ts';
import { createRecentCalls } from './recent-calls.ts';
import { readWindow } from './segment-reader.ts';
import type { Segment } from './segment-writer.ts';
import { createSetAside, type SegmentPart } from './set-aside.ts';
import { createWaiters } from './waiters.ts';

export interface Drain {
  start(): void;
  /** Stores the current records right away, without waiting for the interval. */
  wake(): void;
  /**
   * Resolves when all current records are in the database, or after `timeoutMs`. By default, that's long enough for
   * readers to see their own calls, but keeps the wait short during an outage. If you pass a project, we only wait for
   * its calls, so that a project that reads all the time doesn't break up the calls of others into small batches.
   * Without a project, we don't wait for those that are locked, or whose reader is failing or far behind after a lock. It
   * can take minutes until these are stored, and the caller probably wants to read the calls of other projects.
   */
  waitUntilDrained(options?: { readonly projectId?: string; readonly timeoutMs?: number }): Promise<void>;
  /**
   * Waits until everything that's in the journal now has been stored in the database and deleted from disk. Resolves to
   * false if that takes longer than `timeoutMs`.
   */
  drainAndDelete(timeoutMs?: number): Promise<boolean>;
  /** Drains once more for at most `timeoutMs`, and then stops. Records that are left stay in the journal. */
  stop(timeoutMs?: number): Promise<void>;
  /** `lagMs` says how long the oldest unstored record has been waiting, and is 0 if there isn't any. */
  counts(): BatchCounts & { readonly backlogBytes: number; readonly lagMs: number };
}

export interface DrainOptions extends StoringOptions {
  readonly journal: Journal;
  readonly clock: Clock;
  /**
   * The maximum time that a call waits before we store it, in milliseconds. If a batch is full, we store it earlier.
   * Defaults to 100.
   */
  readonly intervalMs?: number;
  /** How much memory recent calls can use until they're stored, in bytes. */
  readonly recentBytes?: number;
  /** See SetAsideOptions. */
  readonly minAsideMs?: number | undefined;
  /** Runs before the first batch and once a day. Creates the partitions for upcoming calls (`usage/partitions.ts`). */
  readonly prepare?: () => Promise<void>;
  readonly onStored?: (calls: readonly SettledCall[]) => void;
  /** Receives each call that the database rejects even after we've removed its text. */
  readonly onRejected?: (call: SettledCall) => void;
}

const backoff = { initialMs: 250, maxMs: 5_000 };
const defaultWaitMs = 10_000;
const failureWaitMs = 1_000;
/** If the journal is idle, we delete its last segment at this age, so that no text stays on disk for long. */
const idleSegmentMs = 10_000;

export function createDrain(options: DrainOptions): Drain {
  const { journal, dataDir, database, store, clock, logger, intervalMs = 100, prepare, failpoint = () => undefined } = options;
  const { beforeStore, onStored, onRejected, recentBytes = 64 * 1_024 * 1_024, files = nodeFileSystem } = options;
  const quarantine = createQuarantine(dataDir, options.isErased, files);
  const setAside = createSetAside({
    segments: journal.segments,
    drained: () => position,
    drainedUntil: () => storedUntil ?? performance.now(),
    storeWindowOf: (part, projectId, lane) => storeWindow(part, (frames) => batches.storeFramesOf(projectId, frames, lane)),
    onProgress() {
      waiters.resolveReached();
      if (!loop.isFailing) loop.wake(intervalMs);
    },
    onFirstFailure: (err, projectId) => reportFailure(err, { projectId }),
    onRecovered: (projectId) => reportRecovery({ projectId }),
    minAsideMs: options.minAsideMs,
  });
  const batches = createBatchStore({
    ...{ database, store, beforeStore, quarantine, logger, failpoint, onStored, onRejected },
    setAside: {
      has: setAside.has,
      isMentionedIn: setAside.isMentionedIn,
      isFull: setAside.isFull,
      add(projectId) {
        if (isStopped) return; // Nobody would stop the reader. Recovery stores these calls.
        setAside.add(projectId);
        logger.info({ projectId }, 'project is locked; storing its calls separately');
      },
    },
  });
  /** Everything before this position in the journal has been stored, except for projects that are set aside. */
  let position: Position = { segment: 0, offset: 0 };
  const waiters = createWaiters((projectId) => (projectId === undefined ? setAside.followedPosition() : setAside.positionOf(projectId)));
  let preparedAt: number | null = null;
  let isStopped = false;
  let isStarted = false;
  /** We've stored everything that was written before this time (`performance.now()`). Null if nothing is waiting. */
  let storedUntil: number | null = null;
  /** Maps each project to the position after its last call. We remove a project when all of its calls are stored. */
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
    // Only store records that are already in the journal, and leave later ones to the next run. When we included them,
    // batches under load shrank to ten calls. Each batch executes the same statements no matter how small it is, so
    // that doubled the CPU time per call on the embedded database (990 instead of 500 µs).
    const ends = journal.segments().map((segment) => ({ segment, endOffset: segment.bytes }));
    for (const { segment, endOffset } of ends) {
      if (segment.number < position.segment) continue;
      if (segment.number > position.segment) {
        const start = { segment: segment.number, offset: 0 };
        // Do this before `position` changes. Afterwards, all readers would count as behind.
        setAside.moveOn(start);
        position = start;
      }
      await drainSegment(segment, endOffset);
      // After `stop`, recovery takes care of the rest.
      if (isStopped) return 'idle';
      waiters.resolveReached();
    }
    storedUntil = bytesAfter(position) > 0 ? startedAt : null;
    for (const [projectId, end] of lastCalls) if (!isBefore(setAside.positionOf(projectId), end)) lastCalls.delete(projectId);
    await deleteDrainedSegments();
    return bytesAfter(position) > 0 ? Math.max(0, startedAt + intervalMs - performance.now()) : 'idle';
  };

  /** Appending a record wakes this loop. */
  const loop = createBackgroundLoop({
    run: drainOnce,
    intervalMs: null,
    backoff,
    onFirstFailure: (err) => reportFailure(err),
    onRecovered: () => reportRecovery(),
  });

  const reportFailure = (err: unknown, fields: LogFields = {}): void =>
    // Log outages as warnings, because they end without our help. Anything else, e.g. a damaged index, persists until
    // somebody fixes it.
    logger[isConnectionError(err) ? 'warn' : 'error'](
      { err, ...fields, backlogBytes: backlogBytes() },
      'failed to copy the journal to the database; records are kept on disk',
    );

  const reportRecovery = (fields: LogFields = {}): void => logger.info(fields, 'copying the journal to the database again');

  const prepareDaily = async (): Promise<void> => {
    if (!prepare || (preparedAt !== null && clock.now() - preparedAt < dayMs)) return;
    try {
      await prepare();
    } catch (error) {
      if (isConnectionError(error)) throw error;
      // Continue without the partition and try again in a day. In the meantime, PostgreSQL uses the default partition.
      logger.error({ err: error }, 'failed to create partition; retrying in a day');
    }
    preparedAt = clock.now();
  };

  const drainSegment = async (segment: Segment, endOffset: number): Promise<void> => {
    while (position.offset < endOffset && !isStopped) {
      await setAside.takeBack();
      if (isStopped) return;
      const { end, calls } = recent.next(segment.number, position.offset, endOffset);
      let offset = end;
      if (calls === null) offset = await storeWindow({ segment, start: position.offset, end }, batches.storeFrames);
      else await batches.storeSettled(calls);
      if (isStopped) return; // If a project was locked, its calls haven't been stored.
      position = { segment: segment.number, offset };
      recent.removeBefore(position.segment, position.offset);
      setAside.wake();
    }
  };

  /** Reads a window and stores it with `store`. Resolves to the offset at which to continue. */
  const storeWindow = async (
    { segment, start, end }: SegmentPart,
    store: (frames: readonly Frame[]) => Promise<unknown>,
  ): Promise<number> => {
    failpoint('before read');
    const { frames, nextOffset } = await readWindow(files, segment.file, start, end);
    await store(frames);
    if (frames.length > 0) return nextOffset;
    // These bytes were written successfully and now we can't read them, so the disk must be damaged.
    const inQuarantine = await quarantine.addSegment(journal.id, segment.number, segment.file);
    logger.error({ segment: segment.number, offset: start, inQuarantine }, 'journal segment damaged');
    return end;
  };

  /**
   * Deletes stored segments, oldest first. In any other order, a call's `settled` record could disappear before its
   * `opened` record does.
   */
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

  const isDrained = ({ number, bytes }: Segment): boolean => !isBefore(setAside.oldestPosition(), { segment: number, offset: bytes });

  const bytesAfter = ({ segment, offset }: Position): number =>
    journal.segments().reduce((sum, { number, bytes }) => {
      if (number < segment) return sum;
      return sum + bytes - (number === segment ? offset : 0);
    }, 0);

  const backlogBytes = (): number => bytesAfter(setAside.oldestPosition());

  const isFailing = (projectId: string | undefined): boolean =>
    loop.isFailing || (projectId !== undefined && setAside.isFailing(projectId));

  const lagMs = (): number => {
    const times = [bytesAfter(position) > 0 ? storedUntil : null, backlogBytes() > 0 ? setAside.storedUntil() : null].filter(
      (time) => time !== null,
    );
    return times.length === 0 ? 0 : performance.now() - Math.min(...times);
  };

  return {
    start() {
      isStarted = true;
      loop.start();
    },
    wake() {
      if (!loop.isFailing) loop.wake();
    },
    async waitUntilDrained({ projectId, timeoutMs = isFailing(projectId) ? failureWaitMs : defaultWaitMs } = {}) {
      const newest = journal.segments().findLast(({ bytes }) => bytes > 0);
      const end = newest && { segment: newest.number, offset: newest.bytes };
      const target = projectId === undefined ? end : lastCalls.get(projectId);
      if (!target || waiters.isReached({ projectId, target }) || isStopped) return;
      const reached = waiters.wait({ projectId, target }, timeoutMs);
      // The drain may be running and already past the newest segment, so make sure that it runs again.
      if (!loop.isFailing) loop.wake();
      await reached;
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
      // Don't wait for these, because a run may hang in the database.
      void loop.stop();
      setAside.stop();
      waiters.resolveAll();
    },
    counts: () => ({ ...batches.counts(), backlogBytes: backlogBytes(), lagMs: lagMs() }),
  };

  /** Runs the loop once, and ignores errors because the loop logs them. */
  async function runReported(): Promise<void> {
    await loop.runNow().catch(() => undefined);
  }

  async function drainFinally(): Promise<void> {
    await loop.idle();
    await journal.seal();
    await runReported();
    if (!isBefore(setAside.oldestPosition(), position)) return;
    await setAside.finish();
    await runReported(); // Deletes the segments.
  }
}
