/**
 * The journal is a write-ahead log for the calls of one process. We write one record before the first attempt of a call
 * and another one when the call settles, so nothing is lost on a kill -9, and calls never wait for the database.
 * `drain.ts` copies the records to the database.
 *
 * Each process has its own folder `<dataDir>/journal/<uuid>/` and holds a lock on it. When the process dies, the kernel
 * releases the lock, and another process can recover the folder (see `recover.ts`).
 *
 * If a write fails because the disk is full or has an I/O error, we reject new calls with `budget_unavailable`, and
 * delete the ballast file so that calls in flight can settle. If they still can't be written, we park them in memory
 * (`parked-calls.ts`). Every `retryIntervalMs` we try to write the parked calls, a new ballast file and a probe record.
 * Once all of that works, the journal accepts calls again. See docs/architecture/journal.md.
 */
import { join } from 'node:path';
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { CallMetadata, SettledCall } from '../core/call.ts';
import type { FileLock } from '../core/file-lock.ts';
import { newId } from '../core/ids.ts';
import type { Clock } from '../core/time.ts';
import type { TurnBatch } from '../core/turn-batch.ts';
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
  /** The name of the folder. Leases and recovery use it to identify the process. */
  readonly id: string;
  readonly folder: string;
  /**
   * Call this before the first attempt. If it throws `budget_unavailable`, we couldn't write the record, so don't send
   * the call.
   */
  open(metadata: CallMetadata, first: AttemptStart): Promise<void>;
  /**
   * Call this before each further attempt. If we can't write the record, this throws `budget_unavailable`, like `open`.
   */
  attempt(callId: string, attempt: AttemptStart): Promise<void>;
  /**
   * Resolves when the record has been written. If it can't be written, resolves when we've parked it. Cache hits can be
   * settled without having been opened.
   */
  settle(call: SettledCall): Promise<void>;
  /**
   * Call this if a subject is being erased. The records of matching calls in flight will then contain neither the
   * subject nor any text. The calls themselves go on. Returns how many calls match.
   */
  redactSubject(matches: (call: CallMetadata) => boolean): number;
  /** The segments, oldest first. The last one can still grow. */
  segments(): readonly Segment[];
  /** Registers a listener that's called after each write. Returns a function that removes it. */
  onAppended(listener: (range: WrittenRange) => void): () => void;
  /**
   * Seals the current segment. Erasures need this, so that everything in the journal can be deleted as soon as it's
   * stored.
   */
  seal(): Promise<void>;
  /**
   * Deletes a segment whose records are all stored. Resolves to false if a call still needs the segment, in which case
   * you should retry later.
   */
  deleteSegment(segment: number): Promise<boolean>;
  state(): JournalState;
  /**
   * Writes all pending and parked records, and then releases the lock. If some segments haven't been drained, another
   * process recovers them, or this one does at its next start. If there are none, the folder is deleted. Set
   * `keepFolder` if you want to recover the journal afterwards, e.g. because that also returns the leases of this
   * process.
   */
  close(options?: { readonly keepFolder?: boolean }): Promise<void>;
}

export interface JournalState {
  /** False while we reject new calls because we can't record them. */
  readonly accepting: boolean;
  /** The reason why we reject new calls. Null if we accept them. */
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
   * If true, every write is flushed to disk. Records then survive a power failure, and not just the death of the
   * process.
   */
  readonly sync: boolean;
  readonly segmentBytes?: number;
  readonly ballastBytes?: number;
  readonly parkedBytes?: number;
  readonly retryIntervalMs?: number;
  /** Called with a settled call that we have to drop because both the disk and the memory for parked calls are full. */
  readonly onLost?: (call: SettledCall) => void;
  readonly files?: JournalFileSystem;
  readonly failpoint?: HitFailpoint;
  /**
   * We write records after this batch has run, so that all records from one turn of the event loop are written
   * together.
   */
  readonly turnBatch?: TurnBatch;
}

const mebibyte = 1024 * 1024;
/**
 * As large as a segment. With this much space, we can settle a thousand calls in flight with 16 KiB of text each. If
 * there are more, we park them in memory.
 */
const defaultBallastBytes = 16 * mebibyte;

/** Creates and locks a folder for this process. Throws if the data directory isn't writable. */
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
      // Stop tracking the call. Otherwise its `opened` record would pin its segment, and erasures would wait for that
      // segment forever.
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
    turnBatch: options.turnBatch,
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
   * After the disk was full, we only accept calls again once this much space is free besides the ballast file. Without
   * such a reserve, the disk would be full again a few calls later.
   */
  const spareBytes = segmentBytes / 4;
  let obstacle: JournalObstacle | null = null;
  let isClosed = false;

  const tryResume = async (): Promise<'again' | 'idle'> => {
    await writeParked();
    await ballast.create(spareBytes);
    await writer.append({ kind: 'probe' });
    if (!ballast.exists) throw new Error('the ballast file no longer exists');
    if (parked.size > 0) return 'again'; // Another write has failed after `writeParked`.
    obstacle = null;
    logger.info({}, 'journal writable again');
    return 'idle';
  };

  /** A failed write wakes this loop, which then runs until the journal accepts calls again. */
  const resume = createBackgroundLoop({
    run: tryResume,
    intervalMs: null,
    backoff: { initialMs: retryIntervalMs, maxMs: retryIntervalMs },
    onFailure(err) {
      obstacle = toObstacle(err);
      logger.debug({ err }, 'journal still not writable');
    },
  });

  /**
   * Rejects new calls from now on, and deletes the ballast file to free disk space. The caller can then try the write
   * once more.
   */
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

  /**
   * Writes the record. If that fails, we delete the ballast file and try once more, and if that fails as well, this
   * throws.
   */
  const appendUsingBallast = async (record: JournalRecord): Promise<void> => {
    // Keep this outside of the `try` block. If we can't encode a record, that doesn't say anything about the disk.
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
        await onWriteFailure(cause).catch((err: unknown) => logger.warn({ err }, 'failed to delete ballast file'));
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
      if (isClosed)
        return logger.warn({ call: callId }, 'call finished after the journal was closed; recovery will record its outcome as unknown');
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
        return false; // The error has been logged, and the segment stays until the journal is writable again.
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
        logger.error({ err, parked: parked.size }, 'call records lost, because the journal was not writable at shutdown');
      });
      isClosed = true;
      await writer.close();
      await ballast.release();
      // We still hold the lock, so recovery can't take over the folder while we delete it.
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
    // Another process has the lock. It's already recovering the new folder and is about to delete it, so start over
    // with a new id.
  }
}
