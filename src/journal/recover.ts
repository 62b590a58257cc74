/**
 * Takes over the journals of dead processes, which are the folders whose lock is free. Like the drain, recovery stores
 * their settled calls in batches. Calls without a `settled` record are settled as `unknown` with an estimated cost.
 * Then the folder is deleted.
 *
 * Recovery runs at startup and every `intervalMs`. Storing a call twice has no effect, so after a crash or an error the
 * next process can simply start over. If several processes try to recover a journal, the one that gets the lock wins.
 * During a database outage, recovery keeps the lock and its position in the journal.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { createBackgroundLoop } from '../core/background-loop.ts';
import type { FileLock } from '../core/file-lock.ts';
import { isUuid } from '../core/ids.ts';
import { withTimeout } from '../core/time-limit.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import { type BatchCounts, createBatchStore, type StoringOptions } from './batch-store.ts';
import { nodeFileSystem } from './file-system.ts';
import { createQuarantine } from './quarantine.ts';
import { lockFileName, segmentName, segmentNumbers } from './segment-name.ts';
import { readWindow } from './segment-reader.ts';
import { createUnfinishedCalls, type EstimateCost, type UnfinishedCalls } from './unfinished-calls.ts';

export interface Recovery {
  /** Starts recovering journals, immediately and then every `intervalMs`. Doesn't wait for the first run. */
  start(): void;
  /**
   * Recovers all abandoned journals once and returns how many there were. If that fails for some of them, this rejects
   * with all of the errors.
   */
  recover(): Promise<number>;
  stop(): Promise<void>;
  counts(): BatchCounts;
}

export interface RecoveryOptions extends StoringOptions {
  /** The journal of this process, which recovery skips. */
  readonly ownId: string;
  /** A journal that this process has just closed, if we're shutting down and want to recover it ourselves. */
  readonly closedId?: string;
  readonly intervalMs?: number;
  readonly estimateCost?: EstimateCost;
  /**
   * Called once all calls of a dead process have been stored, so that its leases can be released. It may be called
   * again, so it has to be idempotent.
   */
  readonly onRecovered?: (journalId: string) => Promise<void>;
}

interface Takeover {
  readonly journalId: string;
  readonly folder: string;
  readonly lock: FileLock;
  readonly unfinished: UnfinishedCalls;
  segment: number;
  offset: number;
}

/** We rename a folder with this suffix before we delete it. */
const recoveredSuffix = '.recovered';
const recoverOnceTimeoutMs = 5_000;

/**
 * Recovers what's left in our own journal when we shut down properly, e.g. interrupted calls and records that the drain
 * hasn't stored. We spend no more than five seconds on this, and leave the rest to the next process.
 */
export async function recoverOnce(options: Omit<RecoveryOptions, 'ownId'>, journalId: string): Promise<void> {
  const { files = nodeFileSystem } = options;
  if (!files.exists(join(options.dataDir, 'journal', journalId))) return;
  const recovery = createRecovery({ ...options, ownId: '', closedId: journalId });
  const warn = (err: unknown): void =>
    options.logger.warn({ err }, 'failed to recover the journal at shutdown; the next process will do it');
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
  /** How many journals the last run has recovered. */
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
        // If the database is down, recovering the other journals would fail as well. Any other problem only concerns
        // this folder, so go on with the next one.
        if (isConnectionError(error)) break;
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, 'some journals could not be recovered');
    return 'idle';
  };

  /**
   * Deletes folders of journals that have been recovered. They've already been renamed, but the recovery died before it
   * could delete them. Returns the errors, because these folders can contain text that was erased in the meantime.
   */
  const deleteLeftovers = async (names: readonly string[]): Promise<unknown[]> => {
    const leftovers = names.filter((name) => name.endsWith(recoveredSuffix));
    const deletions = await Promise.allSettled(leftovers.map((name) => files.remove(join(journalFolder, name))));
    return deletions.flatMap((deletion) => (deletion.status === 'rejected' ? [deletion.reason] : []));
  };

  /**
   * Returns null if the owner of the journal is alive, or if another recovery has removed the journal in the meantime.
   */
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

  /** Stores everything in the folder and deletes it. If an earlier run has failed halfway, we go on from there. */
  const finish = async (takeover: Takeover, signal: AbortSignal): Promise<void> => {
    const { journalId, folder, lock, unfinished } = takeover;
    for (const segment of segmentNumbers(await files.list(folder))) await drainSegment(takeover, segment, signal);
    failpoint('before unknown');
    const unknown = unfinished.settleAll();
    await batches.storeAll(unknown);
    await onRecovered?.(journalId);
    failpoint('before remove');
    // Deleting the files takes a while, and in the meantime another recovery could lock and read the folder. So we
    // rename the folder first.
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
    if (journalId !== closedId) logger.info({ journal: journalId, unknown: unknown.length }, 'recovered the journal of a dead process');
    else if (unknown.length > 0) logger.warn({ unknown: unknown.length }, 'shutdown interrupted calls; recorded their outcome as unknown');
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
      // A crash can leave a truncated record. We ignore it, because we never told anybody that it had been written.
      // Damaged data is kept for inspection.
      const lostBytes = size - window.nextOffset;
      logger.warn(
        { journal: takeover.journalId, segment, lostBytes, end: window.end },
        "skipped the unreadable end of a dead process's journal segment",
      );
      if (window.end === 'damaged') await quarantine.addSegment(takeover.journalId, segment, file);
      takeover.offset = size;
    }
  };

  const loop = createBackgroundLoop({
    run: runOnce,
    intervalMs,
    // If a caller is waiting in `recover`, it gets the error and reports it.
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
