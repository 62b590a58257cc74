/**
 * The journal is a write-ahead log of the calls of one process. We write a record before the first attempt of a call
 * and another one when the call settles, so a kill -9 loses nothing and calls never wait for the database. `drain.ts`
 * copies the records to the database.
 *
 * Each process has a folder `<dataDir>/journal/<uuid>/` with a lock that the kernel releases when the process dies.
 * Another process can recover the folder then (see `recover.ts`).
 *
 * If a write fails because the disk is full or returns an I/O error, we reject new calls with `budget_unavailable` and
 * delete the ballast file, so that calls in flight can settle. Calls that still can't be written are parked in memory
 * (`parked-calls.ts`). Every `retryIntervalMs` the journal tries to write the parked calls, a new ballast file and a
 * probe record. It accepts calls again once all of that succeeds. See docs/architecture/journal.md.
 */
import { join } from 'node:path';
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { CallMetadata, SettledCall } from '../core/call.ts';
import type { FileLock } from '../core/file-lock.ts';
import { newId } from '../core/ids.ts';
import type { Clock } from '../core/time.ts';
import type { Logger } from '../observability/logger.ts';
import { spanNames } from '../observability/trace-names.ts';
import { markFailed, startStep } from '../observability/tracing.ts';
import { createBallastFile } from './ballast-file.ts';
import type { HitFailpoint } from './failpoints.ts';
import { type JournalFileSystem, nodeFileSystem } from './file-system.ts';
import { createInFlightCalls } from './in-flight-calls.ts';
import { isDiskFull, type JournalObstacle, notRecorded, toObstacle } from './obstacle.ts';
import { createParkedCalls } from './parked-calls.ts';
import type { WrittenRange } from './recent-calls.ts';
import type { AttemptStart, JournalRecord } from './record.ts';
import { lockFileName } from './segment-name.ts';
import { createSegmentWriter, type Segment } from './segment-writer.ts';

export interface Journal {
  /** The name of the folder, which identifies the process in leases and in recovery. */
  readonly id: string;
  readonly folder: string;
  /**
   * Call this before the first attempt. If this throws `budget_unavailable`, we couldn't write the record and you must
   * not send the call.
   */
  open(metadata: CallMetadata, first: AttemptStart): Promise<void>;
  /** Call this before each further attempt. Throws `budget_unavailable` like `open`. */
  attempt(callId: string, attempt: AttemptStart): Promise<void>;
  /**
   * Resolves when the record has been written, or parked because it can't be written. Also accepts calls that were
   * never opened, i.e. cache hits.
   */
  settle(call: SettledCall): Promise<void>;
  /**
   * Removes the text and subject of matching calls in flight from their records, for an erasure. The calls themselves
   * continue. Returns their number.
   */
  redactSubject(matches: (call: CallMetadata) => boolean): number;
  /** Oldest first. The last one may still grow. */
  segments(): readonly Segment[];
  /** Calls `listener` after each write. Returns a function that removes the listener. */
  onAppended(listener: (range: WrittenRange) => void): () => void;
  /**
   * Seals the current segment. Everything that's in the journal now can be deleted once it's stored, as an erasure
   * requires.
   */
  seal(): Promise<void>;
  /**
   * Deletes a segment that has been stored completely. Resolves with false if a call prevents it for now, so the caller
   * should retry.
   */
  deleteSegment(segment: number): Promise<boolean>;
  state(): JournalState;
  /**
   * Writes pending and parked records and releases the lock. Another process, or the next start of this one, takes over
   * the remaining segments. Deletes the folder if it's empty, unless `keepFolder` is set. Recovering a kept folder also
   * releases the leases of this process.
   */
  close(options?: { readonly keepFolder?: boolean }): Promise<void>;
}

export interface JournalState {
  /** If this is false, we reject new calls because we couldn't record them. */
  readonly accepting: boolean;
  /** Why calls are rejected. Null while calls are accepted. */
  readonly obstacle: JournalObstacle | null;
  readonly segments: number;
  readonly bytes: number;
  readonly openCalls: number;
  readonly parkedCalls: number;
  readonly lostCalls: number;
}

export interface JournalOptions {
  readonly dataDir: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * If true, every write is flushed to disk, so that records also survive a power failure and not only the death of the
   * process.
   */
  readonly sync: boolean;
  readonly segmentBytes?: number;
  readonly ballastBytes?: number;
  readonly parkedBytes?: number;
  readonly retryIntervalMs?: number;
  /** Called with a settled call that we lose because both the disk and the memory for parked calls are full. */
  readonly onLost?: (call: SettledCall) => void;
  readonly files?: JournalFileSystem;
  readonly failpoint?: HitFailpoint;
}

const mebibyte = 1024 * 1024;
/**
 * As large as a segment, which is enough to settle a thousand calls in flight with 16 KiB of text each. Calls that
 * don't fit are parked in memory.
 */
const defaultBallastBytes = 16 * mebibyte;

/** Creates and locks the folder. Throws if we can't write to the data directory. */
export async function createJournal(options: JournalOptions): Promise<Journal> {
  const { dataDir, clock, logger, sync, files = nodeFileSystem, retryIntervalMs = 250, failpoint = () => undefined } = options;
  const { onLost, segmentBytes = 16 * mebibyte, ballastBytes = defaultBallastBytes, parkedBytes = 64 * mebibyte } = options;
  const { id, folder, lock } = await createOwnedFolder(dataDir, clock, files);
  if (sync) for (const parent of [dataDir, join(dataDir, 'journal')]) await files.syncFolder(parent);
  const listeners = new Set<(range: WrittenRange) => void>();
  const inFlight = createInFlightCalls();
  const parked = createParkedCalls({
    maxBytes: parkedBytes,
    logger,
    onLost(call) {
      // Otherwise the call's `opened` record would keep a segment forever, and erasures would wait for that segment.
      inFlight.remove(call.metadata.id);
      onLost?.(call);
    },
  });
  const ballast = createBallastFile({ folder, files, bytes: ballastBytes });
  const writer = createSegmentWriter({
    folder,
    files,
    clock,
    segmentBytes,
    sync,
    failpoint,
    onWritten(record, segment) {
      if (record.kind === 'opened') inFlight.setSegment(record.metadata.id, segment);
      else if (record.kind === 'settled') {
        inFlight.remove(record.call.metadata.id);
        parked.remove(record.call.metadata.id);
      }
    },
    onAppended(range) {
      for (const listener of listeners) listener(range);
    },
  });
  /**
   * This much space has to be free besides the ballast file, so that the journal isn't full again a few calls after it
   * resumed.
   */
  const spareBytes = segmentBytes / 4;
  let obstacle: JournalObstacle | null = null;
  let isClosed = false;

  const tryResume = async (): Promise<'again' | 'idle'> => {
    await writeParked();
    await ballast.create(spareBytes);
    await writer.append({ kind: 'probe' });
    if (!ballast.exists) throw new Error('the ballast file was deleted in the meantime');
    if (parked.size > 0) return 'again'; // A write failed after `writeParked`.
    obstacle = null;
    logger.info({}, 'journal writable again');
    return 'idle';
  };

  /** Woken by a failed write. Repeats until the journal accepts calls again. */
  const resume = createBackgroundLoop({
    run: tryResume,
    intervalMs: null,
    backoff: { initialMs: retryIntervalMs, maxMs: retryIntervalMs },
    onFailure(err) {
      obstacle = toObstacle(err);
      logger.debug({ err }, 'journal still not writable');
    },
  });

  /** Rejects new calls and frees disk space. The caller may retry the write once afterwards. */
  const onWriteFailure = async (error: unknown): Promise<void> => {
    const next = toObstacle(error);
    if (obstacle === null) logger.error({ err: error, reason: next.summary }, 'journal write failed; calls are rejected');
    obstacle ??= next;
    resume.wake(retryIntervalMs);
    if (ballast.exists && isDiskFull(error)) await ballast.release();
  };

  const writeParked = async (): Promise<void> => {
    while (await parked.writeOldest((call) => writer.append({ kind: 'settled', call })));
  };

  /** Writes the record, if necessary after deleting the ballast file. Throws if that fails too. */
  const appendUsingBallast = async (record: JournalRecord): Promise<void> => {
    // This isn't in the `try` block because a record that we can't encode isn't a disk failure.
    const written = writer.append(record);
    try {
      await written;
    } catch (error) {
      await onWriteFailure(error);
      await writer.append(record);
    }
  };

  await ballast.create(spareBytes).catch(onWriteFailure);

  return {
    id,
    folder,
    async open(metadata, first) {
      if (obstacle !== null) throw notRecorded(obstacle);
      const facts = JSON.stringify(metadata);
      inFlight.add(metadata, first, facts);
      const span = startStep(spanNames.journalOpen);
      try {
        await writer.append({ kind: 'opened', metadata, attempts: [first], facts });
      } catch (cause) {
        inFlight.remove(metadata.id);
        await onWriteFailure(cause).catch((err: unknown) => logger.warn({ err }, 'deleting ballast file failed'));
        if (span) markFailed(span, cause);
        throw notRecorded(toObstacle(cause), cause);
      } finally {
        span?.end();
      }
    },
    async attempt(callId, attempt) {
      inFlight.addAttempt(callId, attempt);
      try {
        await appendUsingBallast({ kind: 'attempt', callId, attempt });
      } catch (cause) {
        throw notRecorded(toObstacle(cause), cause);
      }
    },
    async settle(input) {
      const { id: callId } = input.metadata;
      if (isClosed) return logger.warn({ call: callId }, 'call settled after the journal was closed; recovery records it as unknown');
      const { call, facts } = inFlight.beginSettling(input);
      const span = startStep(spanNames.journalSettle);
      try {
        await appendUsingBallast({ kind: 'settled', call, facts });
      } catch {
        parked.add(call);
        resume.wake(retryIntervalMs);
      } finally {
        span?.end();
      }
    },
    redactSubject: inFlight.redactSubject,
    segments: writer.segments,
    onAppended(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    seal: writer.seal,
    async deleteSegment(segment) {
      const { toCopy, settling } = inFlight.callsPinning(segment);
      if (settling > 0) return false;
      try {
        await Promise.all(toCopy.map(({ metadata, attempts }) => appendUsingBallast({ kind: 'opened', metadata, attempts })));
      } catch {
        return false; // `onWriteFailure` has logged this. The segment stays until the journal is writable again.
      }
      failpoint('before discard');
      await writer.remove(segment);
      failpoint('after discard');
      return true;
    },
    state() {
      const segments = writer.segments();
      const bytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
      const calls = { openCalls: inFlight.size, parkedCalls: parked.size, lostCalls: parked.lost };
      return { accepting: obstacle === null, obstacle, segments: segments.length, bytes, ...calls };
    },
    async close({ keepFolder = false } = {}) {
      await resume.stop();
      await writeParked().catch((err: unknown) => {
        logger.error({ err, parked: parked.size }, 'settled calls lost: journal not writable at shutdown');
      });
      isClosed = true;
      await writer.close();
      await ballast.release();
      // We still hold the lock, so recovery can't take over a folder that we're about to delete.
      if (!keepFolder && writer.segments().length === 0) await files.remove(folder);
      lock.release();
    },
  };
}

async function createOwnedFolder(
  dataDir: string,
  clock: Clock,
  files: JournalFileSystem,
): Promise<{ id: string; folder: string; lock: FileLock }> {
  for (;;) {
    const id = newId(clock.now());
    const folder = join(dataDir, 'journal', id);
    const lock = await files.lock(join(folder, lockFileName));
    if (lock) return { id, folder, lock };
    // A recovery in another process claimed the folder before we locked it, and deletes it. We try again with a new id.
  }
}
