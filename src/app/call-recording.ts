/**
 * Connects everything that records settled calls: the journal, the drain that copies it to the database, the ceilings,
 * and the recovery of dead processes' journals. The only logic here is the order of starting and stopping.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createAbandonedLeases } from '../ceilings/abandoned-leases.ts';
import { createAdmission } from '../ceilings/admission.ts';
import { revokeLeases } from '../ceilings/lease-store.ts';
import { createBackgroundLoop } from '../core/background-loop.ts';
import { tokenCost, unitsCost } from '../core/cost.ts';
import type { TurnBatch } from '../core/turn-batch.ts';
import type { Database } from '../db/database.ts';
import type { LeaseRouteDeps } from '../http/routes/provision/lease-routes.ts';
import { createDrain } from '../journal/drain.ts';
import type { JournalFileSystem } from '../journal/file-system.ts';
import { createHeartbeat, deleteIfStale, deleteProcess, listLiveProcesses } from '../journal/heartbeat.ts';
import { createJournal } from '../journal/journal.ts';
import { deleteExpired, type IsErased, listQuarantined } from '../journal/quarantine.ts';
import { createRecovery, recoverOnce } from '../journal/recover.ts';
import type { EstimateCost } from '../journal/unfinished-calls.ts';
import type { KnownPrompts } from '../memory/conversations/known-prompts.ts';
import { readLargePrompts } from '../memory/conversations/large-texts.ts';
import { findRetentionPeriods } from '../memory/erasure/retention.ts';
import { isAnyErased } from '../memory/erasure/tombstones.ts';
import { createCredentialMasker } from '../memory/text/credential-masker.ts';
import { ensurePartitions } from '../usage/partitions.ts';
import { createRefusalRecorder } from '../usage/refusals/recorder.ts';
import { createRollupUpkeep } from '../usage/rollups/upkeep.ts';
import type { AppBase } from './base.ts';
import { createStoreBatch } from './store-batch.ts';

export type CallRecording = Awaited<ReturnType<typeof createCallRecording>>;

/**
 * We collect calls for this long before we store them in a batch. That pays off, because a batch takes about a dozen
 * statements no matter how many calls it contains.
 */
const serverDrainIntervalMs = 1_000;
/** The embedded database blocks the event loop, so keep batches small. */
const embeddedDrainIntervalMs = 100;

interface CallRecordingDeps extends AppBase {
  /** Separate connections, so that admission doesn't queue behind other statements. */
  readonly admissionDatabase: Database;
  readonly knownPrompts: KnownPrompts;
  readonly journalFiles: JournalFileSystem | undefined;
  readonly turnBatch: TurnBatch;
}

export async function createCallRecording(deps: CallRecordingDeps) {
  const { snapshot, database, admissionDatabase, knownPrompts, dataDir, journalFiles, turnBatch, clock, logger } = deps;
  const store = createStoreBatch(createCredentialMasker(), knownPrompts);
  const journal = await createJournal({
    dataDir,
    clock,
    logger,
    sync: snapshot().config.journalSync,
    onLost: (call) => admission.revert(call),
    turnBatch,
    ...(journalFiles && { files: journalFiles }),
  });
  const admission = createAdmission({
    database: admissionDatabase,
    clock,
    logger,
    process: journal.id,
    onStoreDown: () => snapshot().config.onBudgetStoreDown,
    onQuotaRequested: () => drain.wake(),
  });
  const isErased: IsErased = (calls) => isAnyErased(database, calls);
  const shared = {
    dataDir,
    database,
    store,
    beforeStore: readLargePrompts,
    logger,
    isErased,
    ...(journalFiles && { files: journalFiles }),
  };
  const drain = createDrain({
    ...shared,
    journal,
    clock,
    intervalMs: database.kind === 'embedded' ? embeddedDrainIntervalMs : serverDrainIntervalMs,
    prepare: () => ensurePartitions(database, clock),
    onStored: admission.commit,
    onRejected: admission.revert,
  });
  const estimateCost: EstimateCost = (model, { tokens, units, searches }) => {
    const row = snapshot().catalog.models.get(model);
    return row ? (unitsCost(units, row.unitPrices) ?? (row.price ? tokenCost(tokens, row.price, { ...units, searches }) : null)) : null;
  };
  const onRecovered = async (journalId: string): Promise<void> => {
    await admission.leases.revokeAll(journalId);
    await deleteProcess(database, journalId);
  };
  const recoveryOptions = { ...shared, estimateCost, onRecovered };
  const recovery = createRecovery({ ...recoveryOptions, ownId: journal.id });
  const rollups = createRollupUpkeep({ database, logger });
  const refusals = createRefusalRecorder({ database, logger });
  const heartbeat = createHeartbeat({ database, journalId: journal.id, logger, onReconnected: admission.verifyLeases });

  const listLive = async (): Promise<string[]> => (await listLiveProcesses(database)).map(({ id }) => id);
  const abandonedLeases = createAbandonedLeases({ database, listLiveProcesses: listLive, logger });
  /** Runs in every process, because the quarantine is a folder on the host's own disk. */
  const quarantineRetention = createBackgroundLoop({
    async run() {
      await deleteExpired(dataDir, await findRetentionPeriods(database, clock.now()));
      return 'idle';
    },
    intervalMs: 3_600_000,
    backoff: { initialMs: 60_000, maxMs: 3_600_000 },
    onFirstFailure: (err) => logger.warn({ err }, 'failed to delete expired quarantine records; retrying'),
  });

  return {
    journal,
    admission,
    drain,
    recovery,
    refusals,
    listQuarantined: () => listQuarantined(dataDir),
    /** Lists dead processes with leases for which an alert has been logged. */
    listLeaseholders: abandonedLeases.list,
    leases: {
      leases: admission.leases,
      listLiveProcesses: listLive,
      // Delete the row of the process and revoke its leases in the same transaction. A process that reconnects at this
      // moment then notices that its row is gone before anybody considers it alive.
      revokeLeases: (journalId) =>
        database.transaction(async (tx) => ((await deleteIfStale(tx, journalId)) ? await revokeLeases(tx, journalId) : null)),
    } satisfies LeaseRouteDeps,
    async start(): Promise<void> {
      await admission.start();
      drain.start();
      refusals.start();
      recovery.start();
      heartbeat.start();
      rollups.start();
      abandonedLeases.start();
      quarantineRetention.start();
    },
    /** Resolves when no call is in flight, or at `deadline` (`performance.now()`). */
    async waitUntilSettled(deadline: number): Promise<void> {
      // Don't wait for settled calls that are parked in memory because the journal can't write to the disk.
      // `journal.close` writes them if the disk works again.
      const isSettled = (): boolean => journal.state().openCalls <= journal.state().parkedCalls;
      while (!isSettled() && performance.now() < deadline) await sleep(10);
    },
    /** Drains the journal if the database is available. Otherwise, the next process recovers what's left. */
    async stop(): Promise<void> {
      await Promise.all([recovery.stop(), rollups.stop(), abandonedLeases.stop(), quarantineRetention.stop()]);
      await Promise.all([drain.stop(), refusals.stop()]);
      await admission.stop();
      // Keep the folder, because `recoverOnce` needs it to recover the journal and return this process's leases. If the
      // database is unavailable, the next start does that.
      await journal.close({ keepFolder: true });
      await recoverOnce(recoveryOptions, journal.id);
      await heartbeat.stop();
    },
  };
}
