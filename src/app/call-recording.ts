/**
 * Connects everything that records settled calls: the journal, its drain into the database, the ceilings, and the recovery of dead processes'
 * journals. Its only policy is the order of start and stop.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Admission, createAdmission } from '../ceilings/admission.ts';
import { revokeLeases } from '../ceilings/lease-store.ts';
import { tokenCost, unitsCost } from '../core/cost.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { createDrain, type Drain } from '../journal/drain.ts';
import type { JournalFileSystem } from '../journal/file-system.ts';
import { createHeartbeat, deleteIfStale, deleteProcess } from '../journal/heartbeat.ts';
import { createJournal, type Journal } from '../journal/journal.ts';
import type { IsErased } from '../journal/quarantine.ts';
import { createRecovery, type Recovery, recoverOnce } from '../journal/recover.ts';
import type { EstimateCost } from '../journal/unfinished-calls.ts';
import { isAnyErased } from '../memory/erasure/tombstones.ts';
import { createCredentialMasker } from '../memory/text/credential-masker.ts';
import type { Logger } from '../observability/logger.ts';
import { ensurePartitions } from '../usage/partitions.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';
import { createStoreBatch } from './store-batch.ts';

export interface CallRecordingDeps {
  readonly snapshot: () => ConfigSnapshot;
  readonly database: Database;
  readonly dataDir: string;
  /** Replaces the file system under the journal; for tests. */
  readonly journalFiles: JournalFileSystem | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface CallRecording {
  readonly journal: Journal;
  readonly admission: Admission;
  readonly drain: Drain;
  readonly recovery: Recovery;
  /** Revokes a dead process's leases; resolves to their number. Null when its last heartbeat is less than 60 seconds old. */
  revokeLeases(journalId: string): Promise<number | null>;
  start(): Promise<void>;
  /** Resolves when no call is in flight, at the latest at `deadline` (in terms of `performance.now()`). */
  waitUntilSettled(deadline: number): Promise<void>;
  /** Drains the journal if the database is available. Otherwise the next process recovers the remaining records. */
  stop(): Promise<void>;
}

export async function createCallRecording(deps: CallRecordingDeps): Promise<CallRecording> {
  const { snapshot, database, dataDir, journalFiles, clock, logger } = deps;
  const store = createStoreBatch(createCredentialMasker());
  const journal = await createJournal({
    dataDir,
    clock,
    logger,
    sync: snapshot().config.journalSync,
    ...(journalFiles && { files: journalFiles }),
  });
  const admission = createAdmission({
    database,
    clock,
    logger,
    process: journal.id,
    onStoreDown: () => snapshot().config.onBudgetStoreDown,
  });
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
    const row = snapshot().catalog.models.get(model);
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
    // One transaction: a process that reconnects sees its row deleted before others count it as live.
    revokeLeases: (journalId) =>
      database.transaction(async (tx) => ((await deleteIfStale(tx, journalId)) ? await revokeLeases(tx, journalId) : null)),
    async start() {
      await admission.start();
      drain.start();
      recovery.start();
      heartbeat.start();
    },
    async waitUntilSettled(deadline) {
      // Parked calls are settled already; `journal.close` writes them if the disk permits.
      const isSettled = (): boolean => journal.state().openCalls <= journal.state().parkedCalls;
      while (!isSettled() && performance.now() < deadline) await sleep(10);
    },
    async stop() {
      await recovery.stop();
      await drain.stop();
      await admission.stop();
      // Recovery returns the leases: now or, if the database is unavailable, at the next start.
      await journal.close({ keepFolder: true });
      await recoverOnce(recoveryOptions, journal.id);
      await heartbeat.stop();
    },
  };
}
