/**
 * Adopts the journals of dead processes: folders whose lock is free. Their settled calls go through the same batches as the living ones',
 * and calls without an end are settled as `unknown`, with an estimate for what was asked. Then the folder is deleted.
 *
 * Looks at start and every `intervalMs`. A crash or a fault in the middle is harmless: whoever comes next begins again, and calls are stored by
 * id. Two processes that look at once: the lock decides. While an adoption waits for the database it keeps its lock and its place.
 */
import { existsSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { acquireFileLock, type FileLock } from '../core/file-lock.ts';
import { isUuid } from '../core/ids.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { type BatchCounts, type BatchEntry, createBatchStore, type StoreCalls } from './batch-store.ts';
import type { HitFailpoint } from './failpoints.ts';
import type { Frame } from './frame.ts';
import { createQuarantine, type IsErased } from './quarantine.ts';
import { decodeRecord } from './record.ts';
import { lockFileName, segmentName, segmentNumbers } from './segment-name.ts';
import { readWindow } from './segment-reader.ts';
import { createUnfinishedCalls, type EstimateCost, type UnfinishedCalls } from './unfinished-calls.ts';

export interface Recovery {
  /** Looks now and then every `intervalMs`; does not wait for the first look. */
  start(): void;
  /** One look: adopts and finishes what can be finished now; returns how many journals are done. Throws what kept it from the rest. */
  recover(): Promise<number>;
  stop(): Promise<void>;
  counts(): BatchCounts;
}

export interface RecoveryOptions {
  readonly dataDir: string;
  /** The journal of this process, which is never looked at. */
  readonly ownId: string;
  readonly database: Database;
  readonly store: StoreCalls;
  readonly logger: Logger;
  readonly intervalMs?: number;
  readonly estimateCost?: EstimateCost;
  /** A dead process's calls are all stored: what else was in its name (leases) can be given back. Must be idempotent. */
  readonly onRecovered?: (journalId: string) => Promise<void>;
  /** What is from before an erasure is not put into the quarantine. */
  readonly isErased?: IsErased;
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

const recoverOnceTimeoutMs = 5_000;

/**
 * When a process ends in order: what its journal still holds after it was closed (calls that were cut, records that the drain did not get
 * to) is finished now, if that can be done in a few seconds; else whoever comes next does it.
 */
export async function recoverOnce(options: Omit<RecoveryOptions, 'ownId'>, journalId: string): Promise<void> {
  if (!existsSync(join(options.dataDir, 'journal', journalId))) return;
  const recovery = createRecovery({ ...options, ownId: '' });
  const warn = (error: unknown): void => options.logger.warn({ error }, 'the journal is left to the next process');
  await Promise.race([recovery.recover().then(() => undefined, warn), sleep(recoverOnceTimeoutMs, undefined, { ref: false })]);
  await recovery.stop();
}

export function createRecovery(options: RecoveryOptions): Recovery {
  const { dataDir, ownId, database, store, logger, intervalMs = 5_000 } = options;
  const { estimateCost = () => null, onRecovered, failpoint = () => undefined } = options;
  const journalFolder = join(dataDir, 'journal');
  const quarantine = createQuarantine(dataDir, options.isErased);
  const batches = createBatchStore({ database, store, quarantine, logger, faultPoint: failpoint });
  const takeovers = new Map<string, Takeover>();
  let timer: NodeJS.Timeout | null = null;
  let running: Promise<number> | null = null;
  let isStopped = false;

  const runOnce = async (): Promise<number> => {
    let finished = 0;
    const errors: unknown[] = [];
    for (const journalId of await listJournals()) {
      if (isStopped) break;
      try {
        const takeover = takeovers.get(journalId) ?? (await takeOver(journalId));
        if (!takeover) continue;
        await finish(takeover);
        finished += 1;
      } catch (error) {
        errors.push(error);
        // Without the database none of the others will do better; a folder that cannot be read stands alone.
        if (isConnectionError(error)) break;
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, 'some journals could not be recovered');
    return finished;
  };

  const listJournals = async (): Promise<string[]> => {
    if (!existsSync(journalFolder)) return [];
    const names = await readdir(journalFolder);
    return names.filter((name) => isUuid(name) && name !== ownId).toSorted();
  };

  /** Null: its owner lives. */
  const takeOver = async (journalId: string): Promise<Takeover | null> => {
    const folder = join(journalFolder, journalId);
    const lock = await acquireFileLock(join(folder, lockFileName));
    if (!lock) return null;
    const takeover = { journalId, folder, lock, unfinished: createUnfinishedCalls(estimateCost), segment: 0, offset: 0 };
    takeovers.set(journalId, takeover);
    failpoint('after adopt');
    return takeover;
  };

  /** Goes on where an earlier look had to stop. */
  const finish = async (takeover: Takeover): Promise<void> => {
    const { journalId, folder, lock, unfinished } = takeover;
    for (const segment of segmentNumbers(await readdir(folder))) await drainSegment(takeover, segment);
    failpoint('before unknown');
    const unknown = unfinished.settleAll();
    await batches.storeAll(unknown.map((call) => ({ call, frame: null })));
    await onRecovered?.(journalId);
    failpoint('before remove');
    await rm(folder, { recursive: true, force: true });
    failpoint('after remove');
    takeovers.delete(journalId);
    lock.release();
    logger.info({ journal: journalId, unknown: unknown.length }, 'the journal of a dead process is recovered');
  };

  const drainSegment = async (takeover: Takeover, segment: number): Promise<void> => {
    if (segment < takeover.segment) return;
    if (segment > takeover.segment) Object.assign(takeover, { segment, offset: 0 });
    const file = join(takeover.folder, segmentName(segment));
    const { size } = await stat(file);
    while (takeover.offset < size) {
      if (isStopped) throw new Error('recovery was stopped');
      failpoint('before read');
      const window = await readWindow(file, takeover.offset, size);
      await storeFrames(window.frames, takeover.unfinished);
      takeover.offset = window.nextOffset;
      if (window.end === 'more' || window.end === 'end') continue;
      // A record that is cut is what a crash leaves: nobody was told that it is written. Damage in the middle is kept for a person to look at.
      const lostBytes = size - window.nextOffset;
      logger.warn({ journal: takeover.journalId, segment, lostBytes }, `a segment of a dead process ends in a ${window.end} record`);
      if (window.end === 'damaged') await quarantine.addSegment(takeover.journalId, segment, file);
      takeover.offset = size;
    }
  };

  const storeFrames = async (frames: readonly Frame[], unfinished: UnfinishedCalls): Promise<void> => {
    const entries: BatchEntry[] = [];
    for (const frame of frames) {
      const record = decodeRecord(frame);
      if (record.kind === 'settled') entries.push({ call: record.call, frame });
      else if (record.kind === 'unreadable') await batches.quarantineUnreadable(record.callId, frame);
      else unfinished.observe(record);
    }
    await batches.storeAll(entries);
    for (const { call } of entries) unfinished.settled(call.facts.id);
  };

  const recover = (): Promise<number> => {
    running ??= runOnce().finally(() => {
      running = null;
    });
    return running;
  };

  return {
    start() {
      const runRepeatedly = (): void => {
        recover()
          .catch((error: unknown) => logger.warn({ error }, 'journals of dead processes cannot be recovered yet'))
          .finally(() => {
            if (isStopped) return;
            timer = setTimeout(runRepeatedly, intervalMs);
            timer.unref();
          });
      };
      runRepeatedly();
    },
    recover,
    async stop() {
      isStopped = true;
      if (timer) clearTimeout(timer);
      await running?.catch(() => undefined); // Whoever asked for that look has been told.
      for (const { lock } of takeovers.values()) lock.release();
      takeovers.clear();
    },
    counts: batches.counts,
  };
}
