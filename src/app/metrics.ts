import type { SettledCall } from '../core/call.ts';
import type { Database } from '../db/database.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { ContentWaits } from '../failover/content-waits.ts';
import type { BodyMemory } from '../http/body-memory.ts';
import type { Journal } from '../journal/journal.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { CallMetrics } from '../observability/metrics/call-metrics.ts';
import { metrics } from '../observability/metrics/definitions.ts';
import { type MetricFamily, type MetricValues, samplesBy, toFamilies } from '../observability/metrics/families.ts';
import { createProcessMetrics } from '../observability/metrics/process-metrics.ts';
import type { ResponseCache } from '../pipeline/cache/response-cache.ts';
import type { Catalog } from '../routing/catalog.ts';
import type { PoolState } from '../routing/pools.ts';
import type { Durable } from '../temporal/durable.ts';
import type { VendorHttpClient } from '../vendors/http-client.ts';
import type { Identities } from '../vendors/identity/identities.ts';
import type { AppBase } from './base.ts';
import type { CallRecording } from './call-recording.ts';
import { createStoredMetrics } from './stored-metrics.ts';

interface MetricsDeps extends Pick<AppBase, 'snapshot' | 'database' | 'dataDir' | 'logger'> {
  readonly calls: CallMetrics;
  readonly callRecording: CallRecording;
  readonly keyring: Pick<Keyring, 'countCached'>;
  readonly breakers: Breakers;
  readonly pools: PoolState;
  readonly contentWaits: Pick<ContentWaits, 'countSlow'>;
  readonly responseCache: ResponseCache;
  readonly httpClient: VendorHttpClient;
  readonly bodyMemory: BodyMemory;
  readonly identities: Pick<Identities, 'states'>;
  /** Null if durable work is turned off or hasn't started yet. */
  readonly durable: () => Durable | null;
  /** Null if the local embedder isn't used. */
  readonly isLocalEmbedderReady: () => boolean | null;
  /**
   * Separate connections for metrics about stored data, so that they don't slow down anything else. Null if another
   * process exports these metrics.
   */
  readonly stateDatabase: Database | null;
}

export function createMetrics(deps: MetricsDeps) {
  const { snapshot, dataDir, logger, stateDatabase } = deps;
  const processMetrics = createProcessMetrics();
  const readStored = stateDatabase && createStoredMetrics({ snapshot, dataDir, logger, database: stateDatabase });
  return {
    /** If the database is down, only the metrics that come from it are missing. */
    async collect(): Promise<MetricFamily[]> {
      const [ofProcess, stored] = await Promise.all([processMetrics.read(), readStored?.() ?? {}]);
      return toFamilies([deps.calls.read(), readRecording(deps), readVendors(deps), readCache(deps), readState(deps), stored, ofProcess]);
    },
    stop: processMetrics.stop,
  };
}

function readRecording({ callRecording: { journal, admission, drain, recovery, refusals } }: MetricsDeps): MetricValues {
  const { accepting, segments, bytes, openCalls, parkedCalls, lostCalls } = journal.state();
  const drained = drain.counts();
  const recovered = recovery.counts();
  return {
    callsInFlight: openCalls,
    journalAccepting: accepting ? 1 : 0,
    journalSegments: segments,
    journalBytes: bytes,
    journalBacklog: drained.backlogBytes,
    journalLag: drained.lagMs / 1_000,
    parkedCalls,
    lostCalls,
    uncheckedRefusals: samplesBy('reason', admission.uncheckedRefusals()),
    refusedCalls: samplesBy('kept', { ...refusals.totals() }),
    storedCalls: samplesBy('source', { drain: drained.stored, recovery: recovered.stored }),
    rejectedCalls: samplesBy('source', { drain: drained.rejected, recovery: recovered.rejected }),
  };
}

function readVendors({ snapshot, breakers, pools, contentWaits, httpClient, identities, isLocalEmbedderReady }: MetricsDeps): MetricValues {
  const isEmbedderUp = isLocalEmbedderReady();
  const { busy, idle, waitingRequests } = httpClient.stats();
  const notClosed = breakers.countNotClosed();
  const slow = contentWaits.countSlow();
  const { catalog } = snapshot();
  const providers = [...catalog.served.keys()];
  const credentials = identities.states();
  return {
    identityRemaining: credentials.flatMap(({ provider, remainingMs }) =>
      remainingMs === null ? [] : { value: remainingMs / 1_000, labels: { provider } },
    ),
    identityFailures: credentials.map(({ provider, failures }) => ({ value: failures, labels: { provider } })),
    breakers: providers.flatMap((provider) =>
      poolLabels(catalog, provider).flatMap(({ key, labels }) =>
        (['open', 'half_open', 'cooling'] as const).map((state) => ({
          value: notClosed.get(key)?.[state] ?? 0,
          labels: { ...labels, state },
        })),
      ),
    ),
    memberRequests: [...catalog.pools.keys()].flatMap((provider) =>
      poolLabels(catalog, provider).map(({ key, labels }) => ({ value: pools.loads.count(key), labels })),
    ),
    slowAttempts: providers.map((provider) => ({ value: slow.get(provider) ?? 0, labels: { provider } })),
    vendorConnections: samplesBy('state', { busy, idle }),
    vendorRequestsWaiting: waitingRequests,
    localEmbedderUp: isEmbedderUp === null ? null : Number(isEmbedderUp),
  };
}

/**
 * Returns the circuit breaker keys and metric labels of all pool members. A provider without a pool counts as its own
 * only member.
 */
function poolLabels({ pools }: Catalog, provider: string) {
  const members = pools.get(provider)?.members;
  return members?.map(({ key, name }) => ({ key, labels: { provider, member: name } })) ?? [{ key: provider, labels: { provider } }];
}

function readCache({ responseCache, bodyMemory }: MetricsDeps): MetricValues {
  const { entries, bytes, hits, misses, evicted } = responseCache.state();
  return {
    cacheLookups: samplesBy('result', { hit: hits, miss: misses }),
    cacheEvictions: evicted,
    cacheEntries: entries,
    cacheBytes: bytes,
    bodyMemory: bodyMemory.heldBytes,
    bodyMemoryLimit: bodyMemory.maxBytes,
  };
}

function readState({ database, durable, keyring }: MetricsDeps): MetricValues {
  const work = durable();
  const state = work?.state() ?? 'off';
  const polling = work?.isPolling() ?? null;
  const pools = database.pools?.() ?? [];
  return {
    ...(state !== 'off' && { temporalUp: state === 'ready' ? 1 : 0 }),
    ...(polling !== null && { workerPolling: polling ? 1 : 0 }),
    cachedKeys: keyring.countCached(),
    ...readTaskQueue(work),
    databaseConnections: pools.flatMap(({ name, busy, idle }) => samplesBy('state', { busy, idle }, { pool: name })),
    databaseConnectionsLimit: pools.map(({ name, maxConnections }) => ({ value: maxConnections, labels: { pool: name } })),
    databaseWaiting: pools.map(({ name, waiting }) => ({ value: waiting, labels: { pool: name } })),
  };
}

function readTaskQueue(work: Durable | null): MetricValues {
  const { backlogs = [], knowsFairness = null } = work?.taskQueue() ?? {};
  return {
    temporalBacklog: backlogs.map(({ type, tasks }) => ({ value: tasks, labels: { type } })),
    temporalBacklogAge: backlogs.map(({ type, ageMs }) => ({ value: ageMs / 1_000, labels: { type } })),
    temporalFairness: knowsFairness === null ? null : Number(knowsFairness),
    activityWait: work?.activityWaits.samples(metrics.activityWait, {}) ?? [],
  };
}

/** Wraps the journal so that `onSettled` is called whenever a call of any route ends. */
export function observeSettled(journal: Journal, onSettled: (call: SettledCall) => void): Journal {
  return {
    ...journal,
    settle(call) {
      onSettled(call);
      return journal.settle(call);
    },
  };
}
