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
import type { CallFacts, SettledCall } from '../core/call.ts';
import { gatewayError } from '../core/errors.ts';
import { type OwnerLock, takeLock } from '../core/file-lock.ts';
import { newId } from '../core/ids.ts';
import { forgetSubject } from '../core/redact-subject.ts';
import type { Clock } from '../core/time.ts';
import type { Logger } from '../observability/logger.ts';
import { createReserve } from './ballast-file.ts';
import type { PassPoint } from './failpoints.ts';
import { diskFiles, type JournalFiles } from './file-system.ts';
import { createOpenCalls, type OpenCall } from './in-flight-calls.ts';
import { createParkedCalls } from './parked-calls.ts';
import { type AttemptStart, encodeRecord } from './record.ts';
import { lockName } from './segment-name.ts';
import { createSegmentWriter, type Segment } from './segment-writer.ts';

export interface Journal {
  /** Name of its folder: the process, as leases and recovery know it. */
  readonly id: string;
  readonly folder: string;
  /** Before the first attempt. Throws `budget_unavailable` when it cannot be written: then the call must not be made. */
  open(facts: CallFacts, first: AttemptStart): Promise<void>;
  /** Before each further attempt. Throws `budget_unavailable` likewise. */
  attempt(callId: string, attempt: AttemptStart): Promise<void>;
  /** Resolves when the record is written, or waits in memory because it cannot be. Also for calls that were never opened (cache hits). */
  settle(call: SettledCall): Promise<void>;
  /** Erasure: these open calls go on, and settle without text and subject. Returns how many they are. */
  forgetSubject(isMeant: (facts: CallFacts) => boolean): number;
  /** Oldest first; the last one may still grow. */
  segments(): readonly Segment[];
  /** Calls `listener` after each write; returns how to stop that. */
  onAppended(listener: () => void): () => void;
  /** Seals the current segment, so that all that is in the journal now can be discarded once it is stored (erasure waits for that). */
  seal(): Promise<void>;
  /** All of this segment is stored: deletes it, unless an open call still needs it (false: ask again later). */
  discard(segment: number): Promise<boolean>;
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
  readonly reserveBytes?: number;
  readonly parkedBytes?: number;
  readonly retryMs?: number;
  readonly files?: JournalFiles;
  readonly faultPoint?: PassPoint;
}

const mebibyte = 1024 * 1024;

/** Makes the folder and takes its lock; throws when the data directory cannot be written. */
export async function createJournal(options: JournalOptions): Promise<Journal> {
  const { dataDir, clock, logger, sync, files = diskFiles, retryMs = 250, faultPoint = () => undefined } = options;
  const { segmentBytes = 16 * mebibyte, reserveBytes = 64 * mebibyte, parkedBytes = 64 * mebibyte } = options;
  const { id, folder, lock } = await claimFolder(dataDir, clock);
  const listeners = new Set<() => void>();
  const openCalls = createOpenCalls();
  const parked = createParkedCalls({ maxBytes: parkedBytes, logger });
  const reserve = createReserve({ folder, files, bytes: reserveBytes });
  const writer = createSegmentWriter({
    folder,
    files,
    clock,
    segmentBytes,
    sync,
    faultPoint,
    onAppended() {
      for (const listener of listeners) listener();
    },
  });
  let isAccepting = true;
  let isClosing = false;
  let isClosed = false;
  let repairTimer: NodeJS.Timeout | null = null;
  let repairing: Promise<void> = Promise.resolve();

  const scheduleRepair = (): void => {
    if (isClosing || repairTimer) return;
    repairTimer = setTimeout(() => {
      repairTimer = null;
      repairing = repair().catch((error: unknown) => {
        logger.debug({ error }, 'the journal still cannot be written');
        scheduleRepair();
      });
    }, retryMs);
    repairTimer.unref();
  };

  /** Stops taking calls and makes room; the caller may then try once more. */
  const noteFailure = async (error: unknown): Promise<void> => {
    if (isAccepting) logger.error({ error }, 'the journal cannot be written: calls are refused until it can');
    isAccepting = false;
    scheduleRepair();
    if (reserve.isThere && isFull(error)) await reserve.giveUp();
  };

  /** Throws when it still fails. */
  const repair = async (): Promise<void> => {
    await writeParked();
    await reserve.build(segmentBytes);
    await writer.append(encodeRecord({ kind: 'probe' }));
    if (!reserve.isThere) throw new Error("the journal's reserve was given up meanwhile");
    isAccepting = true;
    logger.info({}, 'the journal can be written again');
  };

  const writeParked = async (): Promise<void> => {
    for (let next = parked.first(); next; next = parked.first()) {
      const entry = next;
      await writer.append(entry.buffers, () => {
        openCalls.forget(entry.call.facts.id);
        parked.remove(entry);
      });
    }
  };

  /** Writes with the reserve given up if need be; throws when not even that helps. */
  const appendInsisting = async (buffers: readonly Buffer[], onWritten?: (segment: number) => void): Promise<void> => {
    try {
      await writer.append(buffers, onWritten);
    } catch (error) {
      await noteFailure(error);
      await writer.append(buffers, onWritten);
    }
  };

  const carryOver = ({ facts, attempts }: OpenCall): Promise<void> =>
    appendInsisting(encodeRecord({ kind: 'opened', facts, attempts }), (newest) => openCalls.writtenIn(facts.id, newest));

  await reserve.build(0).catch(noteFailure);

  return {
    id,
    folder,
    async open(facts, first) {
      if (!isAccepting) throw gatewayError('budget_unavailable');
      openCalls.opening(facts, first);
      try {
        await writer.append(encodeRecord({ kind: 'opened', facts, attempts: [first] }), (segment) =>
          openCalls.writtenIn(facts.id, segment),
        );
      } catch (cause) {
        openCalls.forget(facts.id);
        await noteFailure(cause).catch((error: unknown) => logger.warn({ error }, "the journal's reserve cannot be given up"));
        throw gatewayError('budget_unavailable', { cause });
      }
    },
    async attempt(callId, attempt) {
      openCalls.attempted(callId, attempt);
      try {
        await appendInsisting(encodeRecord({ kind: 'attempt', callId, attempt }));
      } catch (cause) {
        throw gatewayError('budget_unavailable', { cause });
      }
    },
    async settle(given) {
      const { id: callId } = given.facts;
      const call = openCalls.isForgotten(callId) ? forgetSubject(given) : given;
      if (isClosed) return logger.warn({ call: callId }, 'a call ended after the journal was closed: it counts as cut');
      openCalls.settling(callId);
      try {
        await appendInsisting(encodeRecord({ kind: 'settled', call }), () => openCalls.forget(callId));
      } catch {
        // Logged by both: `noteFailure` says why, `parked` says which call.
        parked.add(call);
        scheduleRepair();
      }
    },
    forgetSubject: openCalls.forgetSubject,
    segments: writer.segments,
    onAppended(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    seal: writer.seal,
    async discard(segment) {
      const { toCarry, settling } = openCalls.standingIn(segment);
      if (settling > 0) return false;
      try {
        await Promise.all(toCarry.map(carryOver));
      } catch {
        return false; // `noteFailure` has said why; the segment stays until the journal can be written again.
      }
      faultPoint('before discard');
      await writer.remove(segment);
      faultPoint('after discard');
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
      if (repairTimer) clearTimeout(repairTimer);
      await repairing;
      await writeParked().catch((error: unknown) => {
        logger.error({ error, parked: parked.size }, 'settled calls are lost: the journal could not be written until the end');
      });
      isClosed = true;
      await writer.close();
      await reserve.giveUp();
      // With nothing left in it, the folder goes while its lock is still held; otherwise recovery finds it free.
      if (!keepFolder && writer.segments().length === 0) await files.remove(folder);
      lock.release();
    },
  };
}

/** A folder of our own with its lock held. */
async function claimFolder(dataDir: string, clock: Clock): Promise<{ id: string; folder: string; lock: OwnerLock }> {
  for (;;) {
    const id = newId(clock.now());
    const folder = join(dataDir, 'journal', id);
    const lock = await takeLock(join(folder, lockName));
    if (lock) return { id, folder, lock };
    // Another process's recovery saw the folder before its lock was held, and took it for a dead one: it removes it, and we take another name.
  }
}

function isFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
}
