/**
 * The journal: a write-ahead log of the calls of one process. Every call is written before its first attempt and again when it settles, so
 * that a kill -9 loses nothing and calls never wait for the database. `drain.ts` copies the records to the database.
 *
 * Each process has a folder `<dataDir>/journal/<uuid>/` with a lock that the kernel releases when the process dies (then see `recover.ts`).
 *
 * When a write fails (disk full, I/O error), new calls are rejected with `budget_unavailable`; the ballast file is deleted, so that calls in
 * flight can settle; calls that still cannot be written are parked in memory (`parked-calls.ts`). Every `retryIntervalMs` the journal tries to write
 * the parked calls, a new ballast file and a probe record, and accepts calls again when all succeed. See docs/architecture/journal.md.
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
  /** Name of its folder, which identifies the process in leases and recovery. */
  readonly id: string;
  readonly folder: string;
  /** Call it before the first attempt. Throws `budget_unavailable` when it cannot be written: then the call must not be sent. */
  open(metadata: CallMetadata, first: AttemptStart): Promise<void>;
  /** Call it before each further attempt. Throws `budget_unavailable`, as `open` does. */
  attempt(callId: string, attempt: AttemptStart): Promise<void>;
  /** Resolves when the record is written, or parked because it cannot be. Also accepts calls that were never opened (cache hits). */
  settle(call: SettledCall): Promise<void>;
  /** Erasure: matching calls in flight continue, and settle without text and subject. Returns their number. */
  redactSubject(matches: (call: CallMetadata) => boolean): number;
  /** Oldest first; the last one may still grow. */
  segments(): readonly Segment[];
  /** Calls `listener` after each write; returns a function that stops this. */
  onAppended(listener: (range: WrittenRange) => void): () => void;
  /** Seals the current segment, so that everything in the journal now can be deleted once it is stored, as erasure requires. */
  seal(): Promise<void>;
  /** Deletes a segment that is stored completely. Resolves with false, to be retried, while a call prevents it. */
  deleteSegment(segment: number): Promise<boolean>;
  state(): JournalState;
  /**
   * Writes pending and parked records and releases the lock; remaining segments are taken over by another process or the next start. An empty
   * folder is deleted, unless `keepFolder` is set: its recovery then also releases the leases of this process.
   */
  close(options?: { readonly keepFolder?: boolean }): Promise<void>;
}

/** For metrics and `/readyz`. */
export interface JournalState {
  /** False: new calls are rejected because they could not be recorded. */
  readonly accepting: boolean;
  /** Why; null while calls are accepted. */
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
  /** Flush every write to disk, so that records survive a power failure and not only the death of the process. */
  readonly sync: boolean;
  readonly segmentBytes?: number;
  readonly ballastBytes?: number;
  readonly parkedBytes?: number;
  readonly retryIntervalMs?: number;
  /** Called with a settled call that is lost, because both the disk and the memory for parked calls were full. */
  readonly onLost?: (call: SettledCall) => void;
  readonly files?: JournalFileSystem;
  readonly failpoint?: HitFailpoint;
}

const mebibyte = 1024 * 1024;
/** As long as a segment: a thousand calls in flight with 16 KiB of text each; what does not fit is parked in memory. */
const defaultBallastBytes = 16 * mebibyte;

/** Creates and locks the folder. Throws when the data directory cannot be written. */
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
  /** What must be free besides the ballast file, so that a journal that was resumed is not full again after a few calls. */
  const spareBytes = segmentBytes / 4;
  let obstacle: JournalObstacle | null = null;
  let isClosed = false;

  const tryResume = async (): Promise<'again' | 'idle'> => {
    await writeParked();
    await ballast.create(spareBytes);
    await writer.append({ kind: 'probe' });
    if (!ballast.exists) throw new Error('the ballast file was deleted meanwhile');
    if (parked.size > 0) return 'again'; // Parked since `writeParked`, while the disk still failed.
    obstacle = null;
    logger.info({}, 'journal writable again');
    return 'idle';
  };

  /** Woken by a failed write; repeats until the journal accepts calls. */
  const resume = createBackgroundLoop({
    run: tryResume,
    intervalMs: null,
    backoff: { initialMs: retryIntervalMs, maxMs: retryIntervalMs },
    onFailure(err) {
      obstacle = toObstacle(err);
      logger.debug({ err }, 'journal still not writable');
    },
  });

  /** Rejects new calls and frees disk space, after which the write may be retried once. */
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

  /** Writes, if necessary after deleting the ballast file; throws when that fails too. */
  const appendUsingBallast = async (record: JournalRecord): Promise<void> => {
    // Not in the `try`: a record that cannot be encoded is not a failure of the disk.
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
        await onWriteFailure(cause).catch((err: unknown) => logger.warn({ err }, 'ballast file not deleted'));
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
        return false; // Logged by `onWriteFailure`; the segment stays until the journal is writable again.
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
      // While the lock is held: recovery must not take over a folder that is about to be deleted.
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
    // Recovery in another process claimed the folder before it was locked here, and deletes it; retry with a new id.
  }
}
