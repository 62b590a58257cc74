/**
 * Moves this process's journal to the database: what was written is read back from its files, stored in batches within `intervalMs`, and a
 * segment is deleted when all of it is stored. A crash between two steps repeats the last one, which changes nothing (calls are stored
 * by id).
 *
 * With the database down the journal grows on the disk, and the drain tries again with growing pauses; afterwards it catches up one
 * window of a segment at a time, so memory does not grow with the backlog.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { SettledCall } from '../core/call.ts';
import type { Clock } from '../core/time.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { type BatchCounts, type BatchEntry, type BatchStore, createBatchStore, type StoreCalls } from './batch-store.ts';
import type { HitFailpoint } from './failpoints.ts';
import type { Frame } from './frame.ts';
import type { Journal } from './journal.ts';
import { createQuarantine, type IsErased } from './quarantine.ts';
import { decodeRecord } from './record.ts';
import { readWindow } from './segment-reader.ts';
import type { Segment } from './segment-writer.ts';

export interface Drain {
  start(): void;
  /**
   * Resolves when all records written so far are in the database, or after `timeoutMs`. Readers of what calls leave behind wait for this:
   * long where the database takes calls, however slowly, so that they see their own; briefly where it is known to take none.
   */
  waitUntilDrained(timeoutMs?: number): Promise<void>;
  /** True when nothing is left on the disk of what the journal holds now; false when that takes longer than `limitMs`. */
  drainAndDelete(timeoutMs?: number): Promise<boolean>;
  /** A last drain of at most `limitMs`, then no more. What is left stays in the journal. */
  stop(timeoutMs?: number): Promise<void>;
  counts(): BatchCounts & { readonly backlogBytes: number };
}

export interface DrainOptions {
  readonly journal: Journal;
  readonly dataDir: string;
  readonly database: Database;
  readonly store: StoreCalls;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly intervalMs?: number;
  /** Before the first batch and then daily: makes the partitions that the calls will need (`usage/partitions.ts`). */
  readonly prepare?: () => Promise<void>;
  /** Told of calls once they are in the database. */
  readonly onStored?: (calls: readonly SettledCall[]) => void;
  /** Told of a call that the database does not take in any form. */
  readonly onRejected?: (call: SettledCall) => void;
  /** What is from before an erasure is not put into the quarantine. */
  readonly isErased?: IsErased;
  readonly failpoint?: HitFailpoint;
}

/** How far a journal was read and stored. */
interface Position {
  readonly segment: number;
  readonly offset: number;
}

interface Waiter {
  readonly target: Position;
  readonly resolve: () => void;
}

const initialBackoffMs = 250;
const maxBackoffMs = 5_000;
const defaultWaitMs = 10_000;
const failureWaitMs = 1_000;
const dayMs = 86_400_000;
/** An idle journal gives up its last segment after this, so that no text stays in it for long. */
const idleSegmentMs = 10_000;

export function createDrain(options: DrainOptions): Drain {
  const { journal, dataDir, database, store, clock, logger, intervalMs = 100, prepare, failpoint = () => undefined } = options;
  const callbacks = {
    ...(options.onStored && { onStored: options.onStored }),
    ...(options.onRejected && { onRejected: options.onRejected }),
  };
  const quarantine = createQuarantine(dataDir, options.isErased);
  const batches = createBatchStore({ database, store, quarantine, logger, faultPoint: failpoint, ...callbacks });
  let position: Position = { segment: 0, offset: 0 };
  let waiters: readonly Waiter[] = [];
  let timer: { readonly handle: NodeJS.Timeout; readonly dueAt: number } | null = null;
  let running: Promise<void> | null = null;
  let backoffMs = 0;
  let startedAt = 0;
  let preparedAt: number | null = null;
  let isStopped = false;
  let stopListening: () => void = () => undefined;

  /** Runs a pass after `delayMs`, unless one is due earlier. While the database is away, no sooner than its pause allows. */
  const schedule = (delayMs: number): void => {
    if (isStopped) return;
    // Of the clock that timers go by: one that is set forward or back must not hold up the drain.
    const dueAt = performance.now() + delayMs;
    if (timer && timer.dueAt <= dueAt) return;
    if (timer) clearTimeout(timer.handle);
    const handle = setTimeout(() => {
      timer = null;
      void run();
    }, delayMs);
    handle.unref();
    timer = { handle, dueAt };
  };

  /** One pass at a time; never rejects. */
  const run = (): Promise<void> => {
    running ??= drainOnce()
      .then(afterSuccess, afterFailure)
      .finally(() => {
        running = null;
      });
    return running;
  };

  const drainOnce = async (): Promise<void> => {
    startedAt = performance.now();
    await prepareDaily();
    // What comes meanwhile waits for the next pass. Taken along, it made batches of ten calls under load, each with all the statements of a
    // batch: on the embedded database that was half of the CPU time of a call (990 µs, now 500).
    const ends = journal.segments().map((segment) => ({ segment, endOffset: segment.bytes }));
    for (const { segment, endOffset } of ends) {
      if (segment.number < position.segment) continue;
      if (segment.number > position.segment) position = { segment: segment.number, offset: 0 };
      await drainSegment(segment, endOffset);
      wakeWaiters();
    }
    await deleteDrainedSegments();
  };

  const prepareDaily = async (): Promise<void> => {
    if (!prepare || (preparedAt !== null && clock.now() - preparedAt < dayMs)) return;
    try {
      await prepare();
    } catch (error) {
      if (isConnectionError(error)) throw error;
      // Rows go into the default partition then, which is no reason to keep them waiting.
      logger.error({ error }, 'partitions for calls could not be made; the next try is in a day');
    }
    preparedAt = clock.now();
  };

  const drainSegment = async (segment: Segment, endOffset: number): Promise<void> => {
    while (position.offset < endOffset && !isStopped) {
      failpoint('before read');
      const window = await readWindow(segment.file, position.offset, endOffset);
      await storeFrames(window.frames, batches);
      position = { segment: segment.number, offset: window.nextOffset };
      if (window.end === 'more' || window.nextOffset === endOffset) continue;
      // What was written for good cannot be read back: the disk has failed under us.
      logger.error(
        { segment: segment.number, offset: window.nextOffset },
        'a segment of the journal is damaged; a copy is in the quarantine',
      );
      await quarantine.addSegment(journal.id, segment.number, segment.file);
      position = { segment: segment.number, offset: endOffset };
    }
  };

  /** Oldest first, and none before its elders: the beginnings of calls never outlive their ends in the journal. */
  const deleteDrainedSegments = async (): Promise<void> => {
    for (const segment of [...journal.segments()]) {
      if (!isDrained(segment)) return;
      if (!segment.sealed) {
        if (segment.bytes === 0) return;
        if (clock.now() - segment.createdAt < idleSegmentMs) return schedule(idleSegmentMs);
        await journal.seal();
        if (!isDrained(segment)) return schedule(0);
      }
      if (!(await journal.deleteSegment(segment.number))) return schedule(intervalMs);
    }
  };

  const isDrained = ({ number, bytes }: Segment): boolean =>
    number < position.segment || (number === position.segment && position.offset === bytes);

  const afterSuccess = (): void => {
    if (backoffMs > 0) logger.info({}, 'the journal drains into the database again');
    backoffMs = 0;
    if (backlogBytes() > 0) schedule(Math.max(0, startedAt + intervalMs - performance.now()));
  };

  const afterFailure = (error: unknown): void => {
    if (backoffMs === 0) logger.warn({ error }, 'the journal cannot be drained: calls stay in it until the database takes them');
    backoffMs = Math.min(maxBackoffMs, Math.max(initialBackoffMs, backoffMs * 2));
    schedule(backoffMs);
  };

  const wakeWaiters = (): void => {
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
      stopListening = journal.onAppended(() => {
        if (backoffMs === 0) schedule(intervalMs);
      });
      schedule(0);
    },
    async waitUntilDrained(timeoutMs = backoffMs === 0 ? defaultWaitMs : failureWaitMs) {
      const newest = journal.segments().at(-1);
      const target = newest ? { segment: newest.number, offset: newest.bytes } : position;
      if (!isBefore(position, target) || isStopped) return;
      const reached = new Promise<void>((resolve) => {
        const handle = setTimeout(done, timeoutMs);
        const waiter: Waiter = { target, resolve: done };
        waiters = [...waiters, waiter];
        function done(): void {
          clearTimeout(handle);
          waiters = waiters.filter((other) => other !== waiter);
          resolve();
        }
      });
      // A pass under way may have looked at the newest segment before our record was in it.
      if (backoffMs === 0) void (running ?? Promise.resolve()).then(run);
      await reached;
    },
    async drainAndDelete(timeoutMs = 10_000) {
      const deadline = performance.now() + timeoutMs;
      await journal.seal();
      const last = journal.segments().findLast(({ sealed }) => sealed)?.number ?? 0;
      const isDeleted = (): boolean => journal.segments().every(({ number }) => number > last);
      while (!isDeleted() && !isStopped && performance.now() < deadline) {
        await run();
        if (!isDeleted()) await sleep(intervalMs, undefined, { ref: false });
      }
      return isDeleted();
    },
    async stop(timeoutMs = 5_000) {
      stopListening();
      await withLimit(finalDrain(), timeoutMs);
      isStopped = true;
      if (timer) clearTimeout(timer.handle);
      for (const waiter of waiters) waiter.resolve();
    },
    counts: () => ({ ...batches.counts(), backlogBytes: backlogBytes() }),
  };

  async function finalDrain(): Promise<void> {
    if (running) await running;
    await journal.seal();
    await run();
  }
}

/** Stores the settled calls among the frames; what was opened only matters when its process is dead. */
async function storeFrames(frames: readonly Frame[], batches: BatchStore): Promise<void> {
  const entries: BatchEntry[] = [];
  for (const frame of frames) {
    const record = decodeRecord(frame);
    if (record.kind === 'settled') entries.push({ call: record.call, frame });
    else if (record.kind === 'unreadable') await batches.quarantineUnreadable(record.callId, frame);
  }
  await batches.storeAll(entries);
}

function isBefore(one: Position, other: Position): boolean {
  return one.segment < other.segment || (one.segment === other.segment && one.offset < other.offset);
}

/** Resolves when `work` ends or the time is over. */
async function withLimit(work: Promise<void>, limitMs: number): Promise<void> {
  let handle: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    handle = setTimeout(resolve, limitMs);
  });
  await Promise.race([work, limit]);
  clearTimeout(handle);
}
