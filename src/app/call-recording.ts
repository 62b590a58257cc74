/**
 * What becomes of a call that ended, joined of the rooms that write it down: the journal, its way to the database, what ceilings count of it,
 * and the journals of processes that died. Decides nothing but the order in which these end.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Admission, createAdmission } from '../ceilings/admission.ts';
import { applyCalls } from '../ceilings/counter-updates.ts';
import { revokeLeases } from '../ceilings/lease-store.ts';
import type { Config } from '../config/config.ts';
import type { SettledCall } from '../core/call.ts';
import { tokenCost, unitsCost } from '../core/cost.ts';
import type { Clock } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { createDrain, type Drain } from '../journal/drain.ts';
import type { JournalFileSystem } from '../journal/file-system.ts';
import { createHeartbeat, deleteIfStale, deleteProcess } from '../journal/heartbeat.ts';
import { createJournal, type Journal } from '../journal/journal.ts';
import type { IsErased } from '../journal/quarantine.ts';
import { createRecovery, type Recovery, recoverOnce } from '../journal/recover.ts';
import type { EstimateCost } from '../journal/unfinished-calls.ts';
import { recordCalls } from '../memory/conversations/record-calls.ts';
import { isAnyErased, redactErased } from '../memory/erasure/tombstones.ts';
import { createCredentialMasker } from '../memory/text/credential-masker.ts';
import type { Logger } from '../observability/logger.ts';
import type { Catalog } from '../routing/catalog.ts';
import { ensurePartitions } from '../usage/partitions.ts';
import { storeCalls } from '../usage/store-calls.ts';
import { correctStoredCalls } from './videos.ts';

export interface CallRecordingDeps {
  readonly config: () => Config;
  readonly catalog: () => Catalog;
  readonly database: Database;
  readonly dataDir: string;
  /** What the journal writes to instead of the disk. */
  readonly journalFiles: JournalFileSystem | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface CallRecording {
  readonly journal: Journal;
  readonly admission: Admission;
  readonly drain: Drain;
  readonly recovery: Recovery;
  /** Gives up what a process held of ceilings; returns of how many counters, null when it was heard of within the last minute. */
  revokeLeases(journalId: string): Promise<number | null>;
  start(): Promise<void>;
  /** Resolves when no call is open any more, or at the instant `limitAt` of `performance.now()`. */
  waitUntilSettled(deadline: number): Promise<void>;
  /** Stores what the journal holds, if the database is there; what is left is the next process's. */
  stop(): Promise<void>;
}

export async function createCallRecording(deps: CallRecordingDeps): Promise<CallRecording> {
  const { config, catalog, database, dataDir, journalFiles, clock, logger } = deps;
  const masker = createCredentialMasker();
  const store = async (tx: Queries, input: readonly SettledCall[]): Promise<void> => {
    const calls = await redactErased(tx, input);
    const added = await storeCalls(tx, calls);
    const stored = calls.filter(({ facts }) => added.has(facts.id));
    await correctStoredCalls(tx, stored);
    await applyCalls(tx, stored);
    await recordCalls(tx, stored, masker);
  };
  const journal = await createJournal({ dataDir, clock, logger, sync: config().journalSync, ...(journalFiles && { files: journalFiles }) });
  const admission = createAdmission({ database, clock, logger, process: journal.id, onStoreDown: () => config().onBudgetStoreDown });
  const isErased: IsErased = (calls) => isAnyErased(database, calls);
  const prepare = (): Promise<void> => ensurePartitions(database, clock);
  const drain = createDrain({
    journal,
    dataDir,
    database,
    store,
    clock,
    logger,
    prepare,
    isErased,
    onStored: admission.commit,
    onRejected: admission.revert,
  });
  const estimateCost: EstimateCost = (model, { tokens, units, searches }) => {
    const row = catalog().models.get(model);
    return row ? (unitsCost(units, row.unitPrices) ?? (row.price ? tokenCost(tokens, row.price, searches) : null)) : null;
  };
  const onRecovered = async (journalId: string): Promise<void> => {
    await admission.leases.revokeAll(journalId);
    await deleteProcess(database, journalId);
  };
  const recoveryOptions = { dataDir, database, store, logger, estimateCost, onRecovered, isErased };
  const recovery = createRecovery({ ...recoveryOptions, ownId: journal.id });
  const heartbeat = createHeartbeat({ database, journalId: journal.id, logger, onReconnected: admission.verifyLeases });

  return {
    journal,
    admission,
    drain,
    recovery,
    // Together: one that was only cut off, and is back now, hears of it before it is seen to live.
    revokeLeases: (journalId) =>
      database.transaction(async (tx) => ((await deleteIfStale(tx, journalId)) ? await revokeLeases(tx, journalId) : null)),
    async start() {
      await admission.start();
      drain.start();
      recovery.start();
      heartbeat.start();
    },
    async waitUntilSettled(deadline) {
      // Parked calls are settled: they wait for the disk, and `journal.close` writes them if it can.
      const isSettled = (): boolean => journal.state().openCalls <= journal.state().parkedCalls;
      while (!isSettled() && performance.now() < deadline) await sleep(10);
    },
    async stop() {
      await recovery.stop();
      await drain.stop();
      await admission.stop();
      // Its recovery gives back the leases, now or, should the database be away, at the next start.
      await journal.close({ keepFolder: true });
      await recoverOnce(recoveryOptions, journal.id);
      await heartbeat.stop();
    },
  };
}
