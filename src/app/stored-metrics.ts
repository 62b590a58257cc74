/**
 * Metrics that come from the database and the quarantine, which we read during a scrape. The queries run one after the
 * other on a separate connection, at most every ten seconds. If the database fails or hangs, the scrape takes at most
 * two seconds longer, and `databaseUp` is 0.
 */
import { countOwnerlessLeases } from '../ceilings/abandoned-leases.ts';
import { countUsedCeilings } from '../ceilings/used-ceilings.ts';
import { systemClock } from '../core/time.ts';
import { withTimeout } from '../core/time-limit.ts';
import type { Queries } from '../db/database.ts';
import { defaultLivenessTimeoutMs } from '../journal/heartbeat.ts';
import { countQuarantined } from '../journal/quarantine.ts';
import { countOldPrompts } from '../memory/conversations/convert-prompts.ts';
import { countOpenBatches } from '../memory/learning/batches.ts';
import { measureLearningLag } from '../memory/learning/learning-lag.ts';
import { countKeptUnlearned } from '../memory/records/deletion-rule.ts';
import { type MetricValues, samplesBy } from '../observability/metrics/families.ts';
import { countRows, measureLag } from '../temporal/outbox/outbox-rows.ts';
import type { AppBase } from './base.ts';

type StoredMetricsDeps = Pick<AppBase, 'snapshot' | 'database' | 'dataDir' | 'logger'>;

const maxAgeMs = 10_000;
const timeoutMs = 2_000;

/**
 * Returns a function that reads the metrics, or returns values that are less than ten seconds old. Never rejects. If
 * the database fails or takes too long, the only value is `databaseUp: 0`.
 */
export function createStoredMetrics({ snapshot, database, dataDir, logger }: StoredMetricsDeps): () => Promise<MetricValues> {
  let last: { readonly values: MetricValues; readonly readAt: number } | null = null;
  let reading: Promise<MetricValues> | null = null;

  const read = async (): Promise<MetricValues> => {
    // The metrics don't have to be consistent with each other, so read them without a transaction.
    const values = {
      ...(await readTables(database, snapshot().config.memory.idleMs)),
      quarantinedRecords: await countQuarantined(dataDir),
      databaseUp: 1,
    };
    last = { values, readAt: performance.now() };
    return values;
  };

  return async () => {
    if (last && performance.now() - last.readAt < maxAgeMs) return last.values;
    reading ??= read().finally(() => {
      reading = null;
    });
    const unavailable = (err: unknown): MetricValues => {
      logger.debug({ err }, 'failed to read metrics from the database');
      return { databaseUp: 0 };
    };
    return withTimeout(reading.catch(unavailable), timeoutMs, () => unavailable('timed out'));
  };
}

/**
 * Reads how much work is waiting in the database, and other numbers that operators should watch. `idleMs` is how long a
 * conversation has to be idle before we close it.
 */
export async function readStoredWork(queries: Queries, idleMs: number) {
  const { due, rejected } = await countRows(queries);
  return {
    outbox: { due, rejected, lagMs: await measureLag(queries) },
    batches: await countOpenBatches(queries, null),
    /** The age of the oldest message that hasn't been learned yet. */
    learningLagMs: await measureLearningLag(queries, { projectId: null, idleMs }),
    conversationsKept: await countKeptUnlearned({ database: queries, clock: systemClock }, null),
    /**
     * How many prompts still have to be converted to the current format. Exact up to 10,000, and an estimate above
     * that.
     */
    promptsToConvert: await countOldPrompts(queries),
    ownerlessLeases: await countOwnerlessLeases(queries, defaultLivenessTimeoutMs),
  };
}

async function readTables(queries: Queries, idleMs: number): Promise<MetricValues> {
  const { outbox, batches, learningLagMs, ...counts } = await readStoredWork(queries, idleMs);
  const { running, failing, failed, stopped } = batches;
  const used = await countUsedCeilings(queries);
  return {
    ...counts,
    outboxRows: samplesBy('state', { due: outbox.due, rejected: outbox.rejected }),
    outboxLag: outbox.lagMs / 1_000,
    // Failed batches are labeled `parked`, because existing dashboards use this label.
    learningBatches: samplesBy('state', { running, failing, parked: failed, stopped }),
    learningLag: learningLagMs / 1_000,
    ceilings: limitedScopes.flatMap(([scope, ceiling]) => {
      const row = used.find((other) => other.scope === scope && other.ceiling === ceiling);
      return (['near', 'reached'] as const).map((state) => ({ value: row?.[state] ?? 0, labels: { scope, ceiling, state } }));
    }),
  };
}

/** All ceilings that have metrics. We list them here so that each metric exists before the first call. */
const limitedScopes = [
  ['key', 'calls'],
  ['key', 'cost'],
  ['source', 'calls'],
  ['source', 'cost'],
  ['project', 'cost'],
] as const;
