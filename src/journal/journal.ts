/**
 * The journal of this process: every call is written here before its first attempt and again when it settles, so that a kill -9 loses
 * nothing and the hot path never waits for the database. `drain.ts` moves the records on.
 *
 * Each process has a folder of its own, `<dataDir>/journal/<uuid>/`, with a lock that the kernel frees at death (`recover.ts` adopts it then).
 *
 * When it cannot be written (disk full, input/output error): new calls are refused with `budget_unavailable` at once; the reserve is given
 * up, so that open calls still settle; what cannot be settled even so waits in memory (`parked-calls.ts`). Every `retryMs` the journal
 * tries to write what waits, to rebuild the reserve and to write a probe; when all of that works it takes calls again.
 */
import { join } from 'node:path';
import type { CallMetadata, SettledCall } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import { acquireFileLock, type FileLock } from '../core/file-lock.ts';
import { newId } from '../core/ids.ts';
import { redactSubject } from '../core/redact-subject.ts';
import type { Clock } from '../core/time.ts';
import type { Logger } from '../observability/logger.ts';
import { createBallastFile } from './ballast-file.ts';
import type { HitFailpoint } from './failpoints.ts';
import { type JournalFileSystem, nodeFileSystem } from './file-system.ts';
import { createInFlightCalls, type InFlightCall } from './in-flight-calls.ts';
import { createParkedCalls } from './parked-calls.ts';
import { type AttemptStart, encodeRecord } from './record.ts';
import { lockFileName } from './segment-name.ts';
import { createSegmentWriter, type Segment } from './segment-writer.ts';

export interface Journal {
  /** Name of its folder: the process, as leases and recovery know it. */
  readonly id: string;
  readonly folder: string;
  /** Before the first attempt. Throws `budget_unavailable` when it cannot be written: then the call must not be made. */
  open(facts: CallMetadata, first: AttemptStart): Promise<void>;
  /** Before each further attempt. Throws `budget_unavailable` likewise. */
  attempt(callId: string, attempt: AttemptStart): Promise<void>;
  /** Resolves when the record is written, or waits in memory because it cannot be. Also for calls that were never opened (cache hits). */
  settle(call: SettledCall): Promise<void>;
  /** Erasure: these open calls go on, and settle without text and subject. Returns how many they are. */
  redactSubject(matches: (facts: CallMetadata) => boolean): number;
  /** Oldest first; the last one may still grow. */
  segments(): readonly Segment[];
  /** Calls `listener` after each write; returns how to stop that. */
  onAppended(listener: () => void): () => void;
  /** Seals the current segment, so that all that is in the journal now can be discarded once it is stored (erasure waits for that). */
  seal(): Promise<void>;
  /** All of this segment is stored: deletes it, unless an open call still needs it (false: ask again later). */
  deleteSegment(segment: number): Promise<boolean>;
  state(): JournalState;
  /**
   * Writes what waits and gives the folder back; what is not discarded by then is adopted by another process or the next start. An empty
   * folder goes, unless it is to be kept: then whoever adopts it also gives back what else was in this process's name.
   */
  close(options?: { readonly keepFolder?: boolean }): Promise<void>;
}

/** For metrics and `/readyz`. */
export interface JournalState {
  /** False: calls are refused, because they could not be recorded. */
  readonly accepting: boolean;
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
  /** Flush to the disk at each write: survives a power cut, not only the death of the process. */
  readonly sync: boolean;
  readonly segmentBytes?: number;
  readonly ballastBytes?: number;
  readonly parkedBytes?: number;
  readonly retryIntervalMs?: number;
  readonly files?: JournalFileSystem;
  readonly failpoint?: HitFailpoint;
}

const mebibyte = 1024 * 1024;

/** Makes the folder and takes its lock; throws when the data directory cannot be written. */
export async function createJournal(options: JournalOptions): Promise<Journal> {
  const { dataDir, clock, logger, sync, files = nodeFileSystem, retryIntervalMs = 250, failpoint = () => undefined } = options;
  const { segmentBytes = 16 * mebibyte, ballastBytes = 64 * mebibyte, parkedBytes = 64 * mebibyte } = options;
  const { id, folder, lock } = await createOwnedFolder(dataDir, clock);
  const listeners = new Set<() => void>();
  const openCalls = createInFlightCalls();
  const parked = createParkedCalls({ maxBytes: parkedBytes, logger });
  const ballast = createBallastFile({ folder, files, bytes: ballastBytes });
  const writer = createSegmentWriter({
    folder,
    files,
    clock,
    segmentBytes,
    sync,
    faultPoint: failpoint,
    onAppended() {
      for (const listener of listeners) listener();
    },
  });
  let isAccepting = true;
  let isClosing = false;
  let isClosed = false;
  let resumeTimer: NodeJS.Timeout | null = null;
  let resuming: Promise<void> = Promise.resolve();

  const scheduleResume = (): void => {
    if (isClosing || resumeTimer) return;
    resumeTimer = setTimeout(() => {
      resumeTimer = null;
      resuming = tryResume().catch((error: unknown) => {
        logger.debug({ error }, 'the journal still cannot be written');
        scheduleResume();
      });
    }, retryIntervalMs);
    resumeTimer.unref();
  };

  /** Stops taking calls and makes room; the caller may then try once more. */
  const onWriteFailure = async (error: unknown): Promise<void> => {
    if (isAccepting) logger.error({ error }, 'the journal cannot be written: calls are refused until it can');
    isAccepting = false;
    scheduleResume();
    if (ballast.exists && isDiskFull(error)) await ballast.release();
  };

  /** Throws when it still fails. */
  const tryResume = async (): Promise<void> => {
    await writeParked();
    await ballast.create(segmentBytes);
    await writer.append(encodeRecord({ kind: 'probe' }));
    if (!ballast.exists) throw new Error("the journal's reserve was given up meanwhile");
    isAccepting = true;
    logger.info({}, 'the journal can be written again');
  };

  const writeParked = async (): Promise<void> => {
    for (let next = parked.first(); next; next = parked.first()) {
      const entry = next;
      await writer.append(entry.buffers, () => {
        openCalls.remove(entry.call.facts.id);
        parked.remove(entry);
      });
    }
  };

  /** Writes with the reserve given up if need be; throws when not even that helps. */
  const appendUsingBallast = async (buffers: readonly Buffer[], onWritten?: (segment: number) => void): Promise<void> => {
    try {
      await writer.append(buffers, onWritten);
    } catch (error) {
      await onWriteFailure(error);
      await writer.append(buffers, onWritten);
    }
  };

  const copyForward = ({ facts, attempts }: InFlightCall): Promise<void> =>
    appendUsingBallast(encodeRecord({ kind: 'opened', facts, attempts }), (newest) => openCalls.setSegment(facts.id, newest));

  await ballast.create(0).catch(onWriteFailure);

  return {
    id,
    folder,
    async open(facts, first) {
      if (!isAccepting) throw gatewayError('budget_unavailable');
      openCalls.add(facts, first);
      try {
        await writer.append(encodeRecord({ kind: 'opened', facts, attempts: [first] }), (segment) =>
          openCalls.setSegment(facts.id, segment),
        );
      } catch (cause) {
        openCalls.remove(facts.id);
        await onWriteFailure(cause).catch((error: unknown) => logger.warn({ error }, "the journal's reserve cannot be given up"));
        throw gatewayError('budget_unavailable', { cause });
      }
    },
    async attempt(callId, attempt) {
      openCalls.addAttempt(callId, attempt);
      try {
        await appendUsingBallast(encodeRecord({ kind: 'attempt', callId, attempt }));
      } catch (cause) {
        throw gatewayError('budget_unavailable', { cause });
      }
    },
    async settle(input) {
      const { id: callId } = input.facts;
      const call = openCalls.isRedacted(callId) ? redactSubject(input) : input;
      if (isClosed) return logger.warn({ call: callId }, 'a call ended after the journal was closed: it counts as cut');
      openCalls.markSettling(callId);
      try {
        await appendUsingBallast(encodeRecord({ kind: 'settled', call }), () => openCalls.remove(callId));
      } catch {
        // Logged by both: `noteFailure` says why, `parked` says which call.
        parked.add(call);
        scheduleResume();
      }
    },
    redactSubject: openCalls.redactSubject,
    segments: writer.segments,
    onAppended(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    seal: writer.seal,
    async deleteSegment(segment) {
      const { toCopy, markSettling: settling } = openCalls.callsPinning(segment);
      if (settling > 0) return false;
      try {
        await Promise.all(toCopy.map(copyForward));
      } catch {
        return false; // `noteFailure` has said why; the segment stays until the journal can be written again.
      }
      failpoint('before discard');
      await writer.remove(segment);
      failpoint('after discard');
      return true;
    },
    state() {
      const segments = writer.segments();
      const bytes = segments.reduce((sum, segment) => sum + segment.bytes, 0);
      const calls = { openCalls: openCalls.size, parkedCalls: parked.size, lostCalls: parked.lost };
      return { accepting: isAccepting, segments: segments.length, bytes, ...calls };
    },
    async close({ keepFolder = false } = {}) {
      isClosing = true;
      if (resumeTimer) clearTimeout(resumeTimer);
      await resuming;
      await writeParked().catch((error: unknown) => {
        logger.error({ error, parked: parked.size }, 'settled calls are lost: the journal could not be written until the end');
      });
      isClosed = true;
      await writer.close();
      await ballast.release();
      // With nothing left in it, the folder goes while its lock is still held; otherwise recovery finds it free.
      if (!keepFolder && writer.segments().length === 0) await files.remove(folder);
      lock.release();
    },
  };
}

/** A folder of our own with its lock held. */
async function createOwnedFolder(dataDir: string, clock: Clock): Promise<{ id: string; folder: string; lock: FileLock }> {
  for (;;) {
    const id = newId(clock.now());
    const folder = join(dataDir, 'journal', id);
    const lock = await acquireFileLock(join(folder, lockFileName));
    if (lock) return { id, folder, lock };
    // Another process's recovery saw the folder before its lock was held, and took it for a dead one: it removes it, and we take another name.
  }
}

function isDiskFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
}
