/**
 * Metrics about the state in the database and the quarantine, which we read at a scrape. The queries run one after the
 * other on a connection that nothing else uses, at most every ten seconds. If the database fails or hangs, the scrape
 * is delayed by two seconds at most, and `databaseUp` reports it.
 */
import { countOwnerlessLeases } from '../ceilings/abandoned-leases.ts';
import { countUsedCeilings } from '../ceilings/used-ceilings.ts';
import { systemClock } from '../core/time.ts';
import { withTimeout } from '../core/time-limit.ts';
import type { Database, Queries } from '../db/database.ts';
import { countRows, measureLag } from '../jobs/outbox/outbox-rows.ts';
import { defaultLivenessTimeoutMs } from '../journal/heartbeat.ts';
import { countQuarantined } from '../journal/quarantine.ts';
import { countOldPrompts } from '../memory/conversations/convert-prompts.ts';
import { countOpenBatches } from '../memory/learning/batches.ts';
import { measureLearningLag } from '../memory/learning/learning-lag.ts';
import { countKeptUnlearned } from '../memory/records/deletion-rule.ts';
import type { Logger } from '../observability/logger.ts';
import type { MetricValues } from '../observability/metrics/families.ts';

interface StoredMetricsOptions {
  readonly database: Database;
  readonly dataDir: string;
  /** How long a conversation has to be idle before we close it. */
  readonly idleMs: () => number;
  readonly logger: Logger;
}

const maxAgeMs = 10_000;
const timeoutMs = 2_000;

/**
 * Returns a function that resolves to values from the last ten seconds. If they can't be read, `databaseUp` is 0 and
 * the others are missing. Never rejects.
 */
export function createStoredMetrics({ database, dataDir, idleMs, logger }: StoredMetricsOptions): () => Promise<MetricValues> {
  let last: { readonly values: MetricValues; readonly readAt: number } | null = null;
  let reading: Promise<MetricValues> | null = null;

  const read = async (): Promise<MetricValues> => {
    // The tables are unrelated, so we don't need a consistent snapshot of them.
    const values = { ...(await readTables(database, idleMs())), quarantinedRecords: await countQuarantined(dataDir), databaseUp: 1 };
    last = { values, readAt: performance.now() };
    return values;
  };

  return async () => {
    if (last && performance.now() - last.readAt < maxAgeMs) return last.values;
    reading ??= read().finally(() => {
      reading = null;
    });
    const unavailable = (err: unknown): MetricValues => {
      logger.debug({ err }, 'reading metrics from the database failed');
      return { databaseUp: 0 };
    };
    return withTimeout(reading.catch(unavailable), timeoutMs, () => unavailable('no response in time'));
  };
}

/** What waits in the database, apart from ceilings. */
export interface StoredWork {
  /** Rows of the outbox that are due, and rows that were rejected. */
  readonly outbox: { readonly due: number; readonly rejected: number; readonly lagMs: number };
  readonly batches: { readonly running: number; readonly failing: number; readonly failed: number; readonly stopped: number };
  /** For how long the oldest message has been ready to be learned from. */
  readonly learningLagMs: number;
  readonly conversationsKept: number;
  /** An estimate above 10,000. */
  readonly promptsToConvert: number;
  readonly ownerlessLeases: number;
}

export async function readStoredWork(queries: Queries, idleMs: number): Promise<StoredWork> {
  const { due, rejected } = await countRows(queries);
  return {
    outbox: { due, rejected, lagMs: await measureLag(queries) },
    batches: await countOpenBatches(queries, null),
    learningLagMs: await measureLearningLag(queries, { projectId: null, idleMs }),
    conversationsKept: await countKeptUnlearned({ database: queries, clock: systemClock }, null),
    promptsToConvert: await countOldPrompts(queries),
    ownerlessLeases: await countOwnerlessLeases(queries, defaultLivenessTimeoutMs),
  };
}

async function readTables(queries: Queries, idleMs: number): Promise<MetricValues> {
  const { outbox, batches, learningLagMs, ...counts } = await readStoredWork(queries, idleMs);
  const used = await countUsedCeilings(queries);
  return {
    ...counts,
    outboxRows: [
      { value: outbox.due, labels: { state: 'due' } },
      { value: outbox.rejected, labels: { state: 'rejected' } },
    ],
    outboxLag: outbox.lagMs / 1_000,
    // Existing dashboards use the label `parked` for failed batches.
    learningBatches: [
      { value: batches.running, labels: { state: 'running' } },
      { value: batches.failing, labels: { state: 'failing' } },
      { value: batches.failed, labels: { state: 'parked' } },
      { value: batches.stopped, labels: { state: 'stopped' } },
    ],
    learningLag: learningLagMs / 1_000,
    ceilings: limitedScopes.flatMap(([scope, ceiling]) => {
      const row = used.find((other) => other.scope === scope && other.ceiling === ceiling);
      return (['near', 'reached'] as const).map((state) => ({ value: row?.[state] ?? 0, labels: { scope, ceiling, state } }));
    }),
  };
}

/** All ceilings that exist, so that each has a value from the start. */
const limitedScopes = [
  ['key', 'calls'],
  ['key', 'cost'],
  ['source', 'calls'],
  ['source', 'cost'],
  ['project', 'cost'],
] as const;
