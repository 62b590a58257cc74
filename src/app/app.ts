/**
 * The composition root. Creates the modules, passes them their dependencies, and starts and stops them in order.
 * Contains no logic of its own.
 */
import type { Activities } from '../../workflows/contract.ts';
import { applyCostAdjustments } from '../ceilings/counter-updates.ts';
import { createCounterReader, createUsageReader } from '../ceilings/counter-usage.ts';
import type { Config } from '../config/config.ts';
import type { Environment } from '../config/environment.ts';
import { type Clock, systemClock } from '../core/time.ts';
import { createTurnBatch } from '../core/turn-batch.ts';
import type { Database } from '../db/database.ts';
import { createBreakers } from '../failover/breaker.ts';
import { createContentWaits } from '../failover/content-waits.ts';
import { createBodyMemory } from '../http/body-memory.ts';
import { closeServer, endKeptAliveConnections, listenForMany, listenOn, trackUnusedConnections } from '../http/listen.ts';
import { createHealthServer } from '../http/server.ts';
import type { JournalFileSystem } from '../journal/file-system.ts';
import { defaultLivenessTimeoutMs } from '../journal/heartbeat.ts';
import { createKeyring } from '../keys/keyring.ts';
import { createKnownPrompts } from '../memory/conversations/known-prompts.ts';
import { reenqueueEmbeddings } from '../memory/triggers/embedding-runs.ts';
import type { Logger } from '../observability/logger.ts';
import { createCallMetrics } from '../observability/metrics/call-metrics.ts';
import { renderFamilies } from '../observability/metrics/families.ts';
import { createAudit } from '../people/audit.ts';
import { createPeople } from '../people/people.ts';
import { createResponseCache } from '../pipeline/cache/response-cache.ts';
import { createCeilingCheck } from '../pipeline/call/check-ceilings.ts';
import { createUsageEstimates } from '../pipeline/call/usage-estimates.ts';
import { createEmbedder } from '../pipeline/internal/embedder.ts';
import { createMemoryModel } from '../pipeline/internal/memory-model.ts';
import { createReranker } from '../pipeline/internal/reranker.ts';
import { createProjects } from '../projects/projects.ts';
import type { Catalog } from '../routing/catalog.ts';
import { createPoolState } from '../routing/pools.ts';
import { createSharedBreakers } from '../routing/shared-breakers.ts';
import type { Durable } from '../temporal/durable.ts';
import { durableOff } from '../temporal/durable-off.ts';
import { readUiUrl } from '../temporal/ui-url.ts';
import { createUsageReports } from '../usage/reports.ts';
import { createReprice } from '../usage/reprice.ts';
import { createVendorHttpClient } from '../vendors/http-client.ts';
import { createIdentities } from '../vendors/identity/identities.ts';
import type { Api } from './api.ts';
import { createCallHandler, createCurrentPlanner, createTokenCounter } from './call-handler.ts';
import { createCallRecording } from './call-recording.ts';
import { createCurrentConfig, listIdentities } from './config-snapshot.ts';
import { createErasures } from './erasures.ts';
import { createFirstAccess } from './first-access.ts';
import { createLearning, signalWaitingBatches } from './learning.ts';
import { createMediaHandlers } from './media.ts';
import { createMemory } from './memory.ts';
import { createMetrics, observeSettled } from './metrics.ts';
import { createReadiness } from './readiness.ts';
import { recordRefused } from './record-refused.ts';
import { separateConnections } from './separate-connections.ts';
import { createCacheWarmer } from './warm-caches.ts';

/** `start` runs everything, `serve` runs the API, and `worker` runs durable work. */
export type Role = 'start' | 'serve' | 'worker';

export interface AppOptions {
  readonly role: Role;
  readonly config: Config;
  readonly database: Database;
  readonly logger: Logger;
  readonly dataDir: string;
  readonly environment: Environment;
  readonly clock?: Clock;
  /** Additional reasons for `/readyz` to respond with 503, e.g. that the schema hasn't been checked yet. */
  readonly startupBlockers?: () => readonly string[];
  /** Defaults to a function that returns true, i.e. we assume that the local embedder is up. */
  readonly isLocalEmbedderReady?: () => boolean;
  readonly journalFiles?: JournalFileSystem;
  /** Lets a test kill the process in the middle of an activity. */
  readonly interceptActivities?: (activities: Activities) => Activities;
  /** Returns the metrics of all processes that share the port. Defaults to those of this process. */
  readonly readMetrics?: () => Promise<string>;
  /** True to export metrics from the database, which only one process of a cluster has to do. */
  readonly readsStoredState?: boolean;
  /**
   * How often to check for calls that have been waiting too long for their first content. Tests use a shorter interval.
   */
  readonly contentWaitTickMs?: number;
  /** How long `close` waits for running responses and activities. Defaults to the configured stop timeout. */
  readonly graceMs?: number;
}

export type App = Awaited<ReturnType<typeof createApp>>;

/** How long a start waits for the credentials of cloud identities. The first calls would fail without them. */
const firstCredentialMs = 5_000;
/** After we've aborted the remaining calls, they have this long to settle and to send their error. */
const abortTimeoutMs = 2_000;

export async function createApp(options: AppOptions) {
  const {
    role,
    database,
    logger,
    dataDir,
    environment,
    clock = systemClock,
    startupBlockers = () => [],
    isLocalEmbedderReady = () => true,
    graceMs = options.config.server.stopTimeoutMs,
    journalFiles,
    readsStoredState = true,
    interceptActivities = (activities) => activities,
    contentWaitTickMs,
  } = options;
  const identities = createIdentities({ clock, logger });
  const { config } = options;
  const { snapshot, activeModels, replace: replaceConfig } = createCurrentConfig({ config, identities, database, clock, logger });
  const projects = createProjects({ database, clock, logger, onChange: (id) => signalWaitingBatches(database, logger, id) });
  const keyring = createKeyring({ database, clock, logger });
  const people = createPeople({ database, clock });
  const audit = createAudit({ database, clock });
  const breakers = createBreakers(clock, (projectId, provider, from, to) => {
    sharedBreakers.changed(projectId, provider);
    if (from === 'closed') logger.warn({ projectId, provider }, 'circuit breaker opened');
    if (to === 'closed') logger.info({ projectId, provider }, 'circuit breaker closed');
  });
  const pools = createPoolState();
  const contentWaits = createContentWaits(({ projectId, breakerKey }) => {
    logger.warn({ projectId, provider: breakerKey }, 'vendor unusually slow; counting it as a provider failure');
    breakers.recordFailure(projectId, breakerKey);
  }, contentWaitTickMs);
  const turnBatch = createTurnBatch();
  const httpClient = createVendorHttpClient(turnBatch);
  const admissionDatabase = separateConnections(database, 'admission');
  const statusDatabase = separateConnections(database, 'status');
  const reports = createUsageReports({ database: statusDatabase, clock });

  const knownPrompts = createKnownPrompts();
  const base = { snapshot, database, dataDir, clock, logger };
  const callRecording = await createCallRecording({ ...base, admissionDatabase, knownPrompts, journalFiles, turnBatch });
  const { admission } = callRecording;
  const callMetrics = createCallMetrics({
    isProvider: (name) => snapshot().catalog.served.has(name),
    isModel: (id) => snapshot().catalog.models.has(id),
  });
  const journal = observeSettled(callRecording.journal, callMetrics.recordCall);
  const sharedBreakers = createSharedBreakers({
    ...{ database, statusDatabase, process: journal.id, breakers, livenessTimeoutMs: defaultLivenessTimeoutMs },
    onWriteFailure: (err) => logger.warn({ err }, 'failed to share circuit breakers with other processes; retrying'),
  });
  const readCounters = createCounterReader({ database: statusDatabase, admission, process: journal.id });

  const catalog = (): Catalog => snapshot().catalog;
  const planner = createCurrentPlanner(snapshot, breakers, pools);
  const responseCache = createResponseCache({ clock });
  const ofCalls = { getKeyCeilings: keyring.getCeilings, recordRuleHit: projects.ruleHits.record };
  const checkCeilings = createCeilingCheck({ ...ofCalls, admission });
  const callDeps = { httpClient, breakers, pools, contentWaits, admission, journal, clock, logger, ...ofCalls };
  const handleCall = createCallHandler(snapshot, {
    ...callDeps,
    ...{ responseCache, usageEstimates: createUsageEstimates(), recall: (request) => memory.recall(request) },
  });
  const handleInternal = recordRefused(callRecording.refusals.record, handleCall);
  const embedder = createEmbedder({
    handleCall: handleInternal,
    catalog,
    clock,
    isLocalModelReady: (model) => {
      const { models } = snapshot().config.localEmbedder;
      return models.length === 0 || (models.includes(model) && isLocalEmbedderReady());
    },
  });
  const memory = createMemory({
    ...base,
    recallDeadlineMs: () => snapshot().config.memory.recallDeadlineMs,
    embedder,
    reranker: createReranker({ handleCall: handleInternal, catalog, clock }),
    findProject: projects.get,
  });
  const learning = createLearning({
    ...base,
    model: createMemoryModel({ handleCall: handleInternal, planner, catalog, findProject: projects.get, clock }),
    retry: () => snapshot().config.memory.retry,
    uiUrl: () => readUiUrl(snapshot().config.temporal, dataDir),
  });
  const media = createMediaHandlers({ ...callDeps, recordRefusal: callRecording.refusals.record, checkCeilings, snapshot, database });
  let durable: Durable | null = null;
  let isStopping = false;
  let reloads = 0;
  const deleteRuns: Durable['deleteRuns'] = async (workflowId, recordRuns) => {
    if (!durable) throw new Error('workflow runs cannot be deleted before durable work has started');
    return durable.deleteRuns(workflowId, recordRuns);
  };
  const erasures = createErasures({ ...base, callRecording, responseCache, deleteRuns });
  const bodyMemory = createBodyMemory(snapshot().config.server.bodyMemoryBytes);
  const health = createReadiness({
    isWorker: role === 'worker',
    isStopping: () => isStopping,
    startupBlockers,
    journal,
    keyring,
    admission,
    bodyMemory,
    isDatabaseDown: () => database.outage?.isDown ?? false,
    durableWaitReasons: () => durable?.waitReasons() ?? (role === 'worker' ? ['durable work has not started yet'] : []),
    listLeaseholders: callRecording.listLeaseholders,
    identityStates: identities.states,
  });
  const readMetrics = options.readMetrics ?? (async () => renderFamilies([await metrics.collect()]));
  const countError = callMetrics.recordErrorResponse;
  // A worker process starts faster and takes 25 MB less memory without the API's modules.
  const { server, closeStreams }: Api =
    role === 'worker'
      ? {
          server: createHealthServer({
            ...{ health, readMetrics, logger, countError },
            adminTokens: () => snapshot().config.adminTokens,
            errorPace: () => 0,
          }),
          closeStreams: async () => undefined,
        }
      : (await import('./api.ts')).createApi({
          ...base,
          countError,
          activeModels,
          keyring,
          people,
          audit,
          projects,
          breakers,
          pools,
          readBreakers: sharedBreakers.read,
          reports,
          reprice: createReprice({ database, adjustCosts: applyCostAdjustments }),
          memory,
          erasures,
          learning,
          callRecording,
          readUsage: createUsageReader(readCounters),
          readCounters,
          handleCall,
          knownPrompts,
          countTokens: createTokenCounter(snapshot, { httpClient, breakers, pools, checkCeilings, clock, logger }),
          media,
          health,
          bodyMemory,
          readMetrics,
          turnBatch,
        });
  const metrics = createMetrics({
    ...base,
    ...{ callRecording, keyring, breakers, pools, contentWaits, responseCache, httpClient, bodyMemory, identities },
    calls: callMetrics,
    durable: () => durable,
    isLocalEmbedderReady: () => (snapshot().config.localEmbedder.models.length > 0 ? isLocalEmbedderReady() : null),
    stateDatabase: readsStoredState ? separateConnections(database, 'metrics') : null,
  });

  // With warm caches, API processes can serve calls during a database outage. Workers don't serve calls, and the
  // embedded database has no outages of its own, because it runs in this process.
  const cacheWarmer =
    role === 'worker' || database.kind === 'embedded'
      ? null
      : createCacheWarmer({ ...base, keyring, projects, memorySettings: memory.settings });

  const closeUnusedConnections = trackUnusedConnections(server);

  // Load Temporal's SDK before serving any calls. It's a quarter of the code that a process loads, and loading it
  // blocks the event loop.
  const durableWork = snapshot().config.temporal.mode === 'off' ? null : await import('./durable-work.ts');
  if (role !== 'serve' && durableWork) await durableWork.loadWorkerSdk();
  await keyring.start();
  await projects.start();
  await memory.settings.start();
  await activeModels.start();
  await identities.firstAttempts(firstCredentialMs);
  cacheWarmer?.start();
  await callRecording.start();
  await erasures.listener.start();

  return {
    keyring,
    projects,
    responseCache,
    /** Starts accepting calls. Returns the URL. `isInCluster` is true in a worker of a Node cluster. */
    listen: (host: string, port: number, isInCluster = false): Promise<string> =>
      (isInCluster ? listenOn : listenForMany)(server, host, port),
    ...createFirstAccess({ projects, keyring, people }),
    /**
     * Connects to Temporal in the background. `onReady` receives the URL of Temporal's web UI, or null if there's no
     * dev server.
     */
    startDurable(onReady?: (uiUrl: string | null) => void): Durable {
      durable ??= !durableWork
        ? durableOff
        : durableWork.startDurableWork({
            ...base,
            role: role === 'serve' ? 'client' : 'worker',
            environment,
            memory,
            erasures: erasures.activities,
            learning,
            videos: media.activities,
            interceptActivities,
            graceMs,
            onReady: (ready) => onReady?.(ready.uiUrl()),
          });
      return durable;
    },
    collectMetrics: metrics.collect,
    /** Returns the metrics of all processes on the port, in Prometheus's text format. */
    readMetrics,
    /** Uses a new configuration for all new calls. Returns false if a later reload has overtaken this one. */
    async reload(next: Config): Promise<boolean> {
      reloads += 1;
      const reload = reloads;
      // Keep the current configuration until the new identities have their first credentials.
      const waiting = identities.prepare(listIdentities(next.providers), firstCredentialMs);
      if (waiting) await waiting;
      if (reload !== reloads) return false;
      const { payloadKeys } = snapshot().config.temporal;
      replaceConfig(next);
      if (payloadKeys.join() !== next.temporal.payloadKeys.join()) durable?.reconnect();
      signalWaitingBatches(database, logger, null);
      return true;
    },
    /** Starts to compute vectors that have been waiting for the local embedder. This happens in the background. */
    takeUpEmbeddings(): void {
      reenqueueEmbeddings(database, memory.embeddingModelOf).catch((err: unknown) =>
        logger.warn({ err }, 'failed to start computing embeddings'),
      );
    },
    /**
     * Makes `/readyz` fail and closes each connection after its next response, so that clients and load balancers move
     * on. Calls are still served until `close`.
     */
    announceStop(): void {
      isStopping = true;
      endKeptAliveConnections(server);
    },
    /**
     * Rejects new calls and waits for running ones until the stop timeout. Then it aborts and settles the remaining
     * calls, stops durable work and flushes the journal.
     */
    async close(): Promise<void> {
      const deadline = performance.now() + graceMs;
      const timeouts = { drainTimeoutMs: graceMs, onDrainTimeout: httpClient.abort, abortTimeoutMs };
      const serverClosed = closeServer(server, { closeUnusedConnections, ...timeouts });
      await Promise.all([serverClosed, closeStreams(), durable?.stop()]);
      // A call can outlast its connection if the client has disconnected. Wait for the call as well, because the vendor
      // can still bill it.
      await callRecording.waitUntilSettled(deadline);
      httpClient.abort();
      identities.close();
      await callRecording.waitUntilSettled(performance.now() + abortTimeoutMs);
      await Promise.all([erasures.listener.stop(), sharedBreakers.stop()]);
      await callRecording.stop();
      metrics.stop();
      void cacheWarmer?.stop(); // Don't wait for this, because the database may not respond.
      await activeModels.stop();
      await Promise.all([keyring.stop(), projects.stop(), memory.settings.stop(), httpClient.close()]);
    },
  };
}
