/**
 * Takes over the journals of dead processes, i.e. folders whose lock is free. Like the drain, it stores their settled
 * calls in batches. Calls without a `settled` record are settled as `unknown` at an estimated cost. Afterwards the
 * folder is deleted.
 *
 * Recovery runs at startup and every `intervalMs`. After a crash or an error the next process can start over, because
 * calls are stored by id. If several processes try, the one that gets the lock wins. During a database outage a
 * takeover keeps its lock and its position.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { FileLock } from '../core/file-lock.ts';
import { isUuid } from '../core/ids.ts';
import { withTimeout } from '../core/time-limit.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { type BatchCounts, type BeforeStore, createBatchStore, type StoreCalls } from './batch-store.ts';
import type { HitFailpoint } from './failpoints.ts';
import { type JournalFileSystem, nodeFileSystem } from './file-system.ts';
import { createQuarantine, type IsErased } from './quarantine.ts';
import { lockFileName, segmentName, segmentNumbers } from './segment-name.ts';
import { readWindow } from './segment-reader.ts';
import { createUnfinishedCalls, type EstimateCost, type UnfinishedCalls } from './unfinished-calls.ts';

export interface Recovery {
  /** Runs immediately and then every `intervalMs`. Doesn't wait for the first run. */
  start(): void;
  /**
   * Runs once and returns the number of journals that were recovered. Rejects with the errors of the journals that
   * couldn't be recovered.
   */
  recover(): Promise<number>;
  stop(): Promise<void>;
  counts(): BatchCounts;
}

export interface RecoveryOptions {
  readonly dataDir: string;
  /** The journal of this process, which we skip. */
  readonly ownId: string;
  /** The journal that this process has closed. Its recovery is part of the shutdown. */
  readonly closedId?: string;
  readonly database: Database;
  readonly store: StoreCalls;
  readonly beforeStore?: BeforeStore;
  readonly logger: Logger;
  readonly intervalMs?: number;
  readonly estimateCost?: EstimateCost;
  /** Called when all calls of a dead process have been stored, to release its leases. Must be idempotent. */
  readonly onRecovered?: (journalId: string) => Promise<void>;
  /** Used to keep data from before an erasure out of the quarantine. */
  readonly isErased?: IsErased;
  readonly files?: JournalFileSystem;
  readonly failpoint?: HitFailpoint;
}

interface Takeover {
  readonly journalId: string;
  readonly folder: string;
  readonly lock: FileLock;
  readonly unfinished: UnfinishedCalls;
  segment: number;
  offset: number;
}

/** Marks a folder that is being deleted. */
const recoveredSuffix = '.recovered';
const recoverOnceTimeoutMs = 5_000;

/**
 * Recovers what's left in the closed journal during an orderly shutdown. That can be interrupted calls and records that
 * weren't drained. Stops after five seconds and leaves the rest to the next process.
 */
export async function recoverOnce(options: Omit<RecoveryOptions, 'ownId'>, journalId: string): Promise<void> {
  const { files = nodeFileSystem } = options;
  if (!files.exists(join(options.dataDir, 'journal', journalId))) return;
  const recovery = createRecovery({ ...options, ownId: '', closedId: journalId });
  const warn = (err: unknown): void => options.logger.warn({ err }, 'journal not recovered at shutdown; leaving it to the next process');
  await withTimeout(recovery.recover().catch(warn), recoverOnceTimeoutMs, () => undefined);
  await recovery.stop();
}

export function createRecovery(options: RecoveryOptions): Recovery {
  const { dataDir, ownId, closedId, database, store, beforeStore, logger, intervalMs = 5_000 } = options;
  const { estimateCost = () => null, onRecovered, files = nodeFileSystem, failpoint = () => undefined } = options;
  const journalFolder = join(dataDir, 'journal');
  const quarantine = createQuarantine(dataDir, options.isErased, files);
  const batches = createBatchStore({ database, store, beforeStore, quarantine, logger, failpoint });
  const takeovers = new Map<string, Takeover>();
  /** The number of journals that the last run recovered. */
  let finished = 0;
  let isCallerWaiting = false;

  const runOnce = async (signal: AbortSignal): Promise<'idle'> => {
    finished = 0;
    const names = await files.list(journalFolder);
    const errors: unknown[] = await deleteLeftovers(names);
    for (const journalId of names.filter((name) => isUuid(name) && name !== ownId).toSorted()) {
      if (signal.aborted) break;
      try {
        const takeover = takeovers.get(journalId) ?? (await takeOver(journalId));
        if (!takeover) continue;
        await finish(takeover, signal);
        finished += 1;
      } catch (error) {
        errors.push(error);
        // Without the database the other journals would fail too. If only this folder is unreadable, we can continue.
        if (isConnectionError(error)) break;
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, 'some journals could not be recovered');
    return 'idle';
  };

  /**
   * Deletes folders that a recovery had already renamed when it died. Returns the errors, because a leftover may
   * contain erased text.
   */
  const deleteLeftovers = async (names: readonly string[]): Promise<unknown[]> => {
    const leftovers = names.filter((name) => name.endsWith(recoveredSuffix));
    const deletions = await Promise.allSettled(leftovers.map((name) => files.remove(join(journalFolder, name))));
    return deletions.flatMap((deletion) => (deletion.status === 'rejected' ? [deletion.reason] : []));
  };

  /** Returns null if the owner is alive, or if another recovery has removed the journal since we listed it. */
  const takeOver = async (journalId: string): Promise<Takeover | null> => {
    const folder = join(journalFolder, journalId);
    if (!files.exists(folder)) return null;
    const lock = await files.lock(join(folder, lockFileName)).catch((error: unknown) => {
      if (files.exists(folder)) throw error;
      return null;
    });
    if (!lock) return null;
    const takeover = { journalId, folder, lock, unfinished: createUnfinishedCalls(estimateCost), segment: 0, offset: 0 };
    takeovers.set(journalId, takeover);
    failpoint('after takeover');
    return takeover;
  };

  /** Continues where an earlier run stopped. */
  const finish = async (takeover: Takeover, signal: AbortSignal): Promise<void> => {
    const { journalId, folder, lock, unfinished } = takeover;
    for (const segment of segmentNumbers(await files.list(folder))) await drainSegment(takeover, segment, signal);
    failpoint('before unknown');
    const unknown = unfinished.settleAll();
    await batches.storeAll(unknown);
    await onRecovered?.(journalId);
    failpoint('before remove');
    // We rename the folder first, because another recovery could lock and read it while we're deleting its files one by
    // one.
    const renamed = `${folder}.${randomUUID()}${recoveredSuffix}`;
    await files.rename(folder, renamed);
    failpoint('after rename');
    takeovers.delete(journalId);
    try {
      await files.remove(renamed);
    } finally {
      lock.release();
    }
    failpoint('after remove');
    if (journalId !== closedId) logger.info({ journal: journalId, unknown: unknown.length }, 'journal of a dead process recovered');
    else if (unknown.length > 0) logger.warn({ unknown: unknown.length }, 'calls interrupted by the shutdown settled as unknown');
  };

  const drainSegment = async (takeover: Takeover, segment: number, signal: AbortSignal): Promise<void> => {
    if (segment < takeover.segment) return;
    if (segment > takeover.segment) Object.assign(takeover, { segment, offset: 0 });
    const file = join(takeover.folder, segmentName(segment));
    const size = await files.size(file);
    while (takeover.offset < size) {
      if (signal.aborted) throw new Error('recovery was stopped');
      failpoint('before read');
      const window = await readWindow(files, file, takeover.offset, size);
      const stored = await batches.storeFrames(window.frames, takeover.unfinished.observe);
      for (const { metadata } of stored) takeover.unfinished.settled(metadata.id);
      takeover.offset = window.nextOffset;
      if (window.end === 'more' || window.end === 'end') continue;
      // A crash leaves a truncated record, but its write was never confirmed. We keep damaged data for inspection.
      const lostBytes = size - window.nextOffset;
      logger.warn({ journal: takeover.journalId, segment, lostBytes, end: window.end }, 'journal segment of a dead process ends early');
      if (window.end === 'damaged') await quarantine.addSegment(takeover.journalId, segment, file);
      takeover.offset = size;
    }
  };

  const loop = createBackgroundLoop({
    run: runOnce,
    intervalMs,
    // Callers of `recover` report the failure themselves.
    onFailure: (err) => {
      if (!isCallerWaiting) logger.warn({ err }, 'journal recovery failed; retrying');
    },
  });

  return {
    start: loop.start,
    async recover() {
      isCallerWaiting = true;
      try {
        await loop.runNow();
      } finally {
        isCallerWaiting = false;
      }
      return finished;
    },
    async stop() {
      await loop.stop();
      finished = 0;
      for (const { lock } of takeovers.values()) lock.release();
      takeovers.clear();
    },
    counts: batches.counts,
  };
}
