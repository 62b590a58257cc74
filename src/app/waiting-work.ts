/** Reads how much work is waiting, for `/provision/status`. */
import { withTimeout } from '../core/time-limit.ts';
import type { WaitingWork } from '../http/routes/provision/status-routes.ts';
import { countQuarantined } from '../journal/quarantine.ts';
import type { AppBase } from './base.ts';
import { readStoredWork } from './stored-metrics.ts';

const timeoutMs = 5_000;

type WorkReaderDeps = Pick<AppBase, 'snapshot' | 'database' | 'dataDir' | 'logger'>;

/** Resolves to null if the database fails or takes longer than five seconds. */
export function createWorkReader({ snapshot, database, dataDir, logger }: WorkReaderDeps): () => Promise<WaitingWork | null> {
  const read = async (): Promise<WaitingWork> => {
    const { outbox, batches, learningLagMs, ...counts } = await readStoredWork(database, snapshot().config.memory.idleMs);
    return {
      outbox_due: outbox.due,
      outbox_rejected: outbox.rejected,
      outbox_lag_seconds: outbox.lagMs / 1_000,
      batches_running: batches.running,
      batches_failing: batches.failing,
      batches_failed: batches.failed,
      batches_stopped: batches.stopped,
      learning_lag_seconds: learningLagMs / 1_000,
      conversations_kept: counts.conversationsKept,
      prompts_to_convert: counts.promptsToConvert,
      leases_without_owner: counts.ownerlessLeases,
      quarantined_records: await countQuarantined(dataDir),
    };
  };
  return () => {
    const unavailable = (err: unknown): null => {
      logger.debug({ err }, 'failed to read pending work');
      return null;
    };
    return withTimeout(read().catch(unavailable), timeoutMs, () => unavailable('timed out'));
  };
}
