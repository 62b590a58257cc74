/** The only place where rooms are built and joined. Nothing here decides anything; it says who gets what, and in which order it ends. */
import { createActivities } from '../activities/create-activities.ts';
import type { Activities } from '../workflows/contract.ts';
import { createApi } from './app/api.ts';
import { createCallRecording } from './app/call-recording.ts';
import { createCleanupSteps } from './app/cleanup.ts';
import { createErasures } from './app/erasures.ts';
import { createLearning, signalWaitingBatches } from './app/learning.ts';
import { createMediaHandlers } from './app/media.ts';
import { createMemory } from './app/memory.ts';
import { createVideoHandlers } from './app/videos.ts';
import { startCostAdjustment } from './ceilings/counter-updates.ts';
import { createUsageReader } from './ceilings/counter-usage.ts';
import { cacheDirectory } from './config/cache-directory.ts';
import { parseImportedRows } from './config/catalog.ts';
import type { Config } from './config/config.ts';
import type { Environment } from './config/environment.ts';
import { readTemporalConnection } from './config/temporal-settings.ts';
import type { Clock } from './core/time.ts';
import { systemClock } from './core/time.ts';
import type { Database } from './db/database.ts';
import { createBreakers } from './failover/breaker.ts';
import { closeServer, listenOn } from './http/listen.ts';
import type { HealthDeps } from './http/routes/health.ts';
import { createHealthServer } from './http/server.ts';
import type { Durable } from './jobs/durable.ts';
import { startDurable } from './jobs/durable.ts';
import type { JournalFileSystem } from './journal/file-system.ts';
import { listLiveProcesses } from './journal/heartbeat.ts';
import type { Keyring } from './keys/keyring.ts';
import { createKeyring } from './keys/keyring.ts';
import { reenqueueIdleTimers } from './memory/conversations/reenqueue-idle-timers.ts';
import { reenqueueErasures } from './memory/erasure/erasure-steps.ts';
import { reenqueueLearning } from './memory/learning/reenqueue-learning.ts';
import { reenqueueEmbeddings } from './memory/triggers/embedding-runs.ts';
import type { Logger } from './observability/logger.ts';
import type { ResponseCache } from './pipeline/cache/response-cache.ts';
import { createResponseCache } from './pipeline/cache/response-cache.ts';
import { createHandleCall } from './pipeline/call/handle-call.ts';
import { createEmbedder } from './pipeline/internal/embedder.ts';
import { createMemoryModel } from './pipeline/internal/memory-model.ts';
import { createMediaCalls } from './pipeline/media/handle-media-call.ts';
import type { Projects } from './projects/projects.ts';
import { createProjects } from './projects/projects.ts';
import { buildCatalog, toPrice } from './routing/catalog.ts';
import { chooseTier } from './routing/classify.ts';
import { createPlanner } from './routing/plan.ts';
import type { RoutingFlags } from './routing/select.ts';
import { createActiveModels } from './usage/prices/active-models.ts';
import { createUsageReports } from './usage/reports.ts';
import { createReprice } from './usage/reprice.ts';
import { createVendorHttpClient } from './vendors/http-client.ts';
import { buildMediaProviders } from './vendors/media.ts';
import { buildProviders } from './vendors/registry.ts';
import { reenqueueVideoPolls } from './videos/videos.ts';

/** `start` does everything, `serve` the API, `worker` the durable work. */
export type Role = 'start' | 'serve' | 'worker';

export interface AppOptions {
  readonly role: Role;
  readonly config: Config;
  readonly database: Database;
  readonly logger: Logger;
  readonly dataDir: string;
  readonly adminToken: string;
  readonly environment: Environment;
  readonly clock?: Clock;
  /** What the process around it still waits for before calls can be served, for `/readyz`. */
  readonly startupBlockers?: () => readonly string[];
  /** What the journal writes to instead of the disk. */
  readonly journalFiles?: JournalFileSystem;
  /** What the worker runs instead of each activity; tests kill real processes in the middle of them. */
  readonly interceptActivities?: (activities: Activities) => Activities;
  /** How long `close` lets running answers take to end. */
  readonly graceMs?: number;
}

export interface App {
  readonly keyring: Keyring;
  readonly projects: Projects;
  readonly responseCache: ResponseCache;
  /** Accepts calls; returns the address. */
  listen(host: string, port: number): Promise<string>;
  /** Makes the project `default` and its first key when there is no project yet; returns the secret, null at later starts. */
  issueFirstKey(): Promise<string | null>;
  /** Finds, fetches and joins Temporal in the background; `onReady` gets the address of its web page, if it is ours. */
  startDurable(onReady?: (uiUrl: string | null) => void): Durable;
  /** Puts a new configuration in force for the calls that come from now on. */
  reload(config: Config): void;
  /** Refuses new calls, lets running ones end (25 s), ends and settles those that do not, stops durable work, flushes the journal. */
  close(): Promise<void>;
}

/** How long calls whose vendors were cut may take to settle and tell their callers. Together with the grace time less than the 30 s of Kubernetes. */
const abortTimeoutMs = 2_000;

export async function createApp(options: AppOptions): Promise<App> {
  const {
    role,
    database,
    logger,
    dataDir,
    adminToken,
    environment,
    clock = systemClock,
    startupBlockers = () => [],
    graceMs = 25_000,
    journalFiles,
    interceptActivities = (activities) => activities,
  } = options;
  let config = options.config;
  let catalog = buildCatalog(config);
  let providers = buildProviders(config.providers);
  let mediaProviders = buildMediaProviders(config.providers);
  /** Counts the configurations: answers of one are not given under another. */
  let revision = 0;

  const modelsInForce = createActiveModels({
    database,
    clock,
    logger,
    configured: config.models,
    parseRows: (models) => parseImportedRows(models, (name) => config.providers[name] ?? null),
    priceOf: toPrice,
    onChange: (models) => {
      catalog = buildCatalog({ ...config, models });
    },
  });
  const keyring = createKeyring({ database, clock, logger });
  const projects = createProjects({ database, clock, logger, onChange: (id) => signalWaitingBatches(database, logger, id) });
  const breakers = createBreakers(clock);
  const httpClient = createVendorHttpClient();
  const reports = createUsageReports({ database, clock });

  const callRecording = await createCallRecording({
    config: () => config,
    catalog: () => catalog,
    database,
    dataDir,
    journalFiles,
    clock,
    logger,
  });
  const { journal, admission, drain, recovery } = callRecording;

  const routingFlags = (): RoutingFlags => ({ translates: true, catalogFill: config.catalogFill });
  const planner = createPlanner({ catalog: () => catalog, breakers, flags: routingFlags });
  const responseCache = createResponseCache({ clock, revision: () => revision });
  const handleCall = createHandleCall({
    planner,
    responseCache,
    chooseTier: (request) => chooseTier({ catalog, classifier: config.auto.classifier }, request),
    httpClient,
    findProvider: (name) => providers.get(name),
    breakers,
    getKeyCeilings: keyring.getCeilings,
    admission,
    recall: (request) => memory.recall(request),
    journal,
    clock,
    logger,
  });
  const embedder = createEmbedder({ handleCall, catalog: () => catalog, clock });
  const memory = createMemory({
    database,
    clock,
    logger,
    recallDeadlineMs: () => config.memory.recallDeadlineMs,
    embedder,
    findProject: projects.get,
  });
  const learning = createLearning({
    database,
    clock,
    model: createMemoryModel({ handleCall, planner, catalog: () => catalog, findProject: projects.get, clock }),
    retry: () => config.memory.retry,
  });
  const mediaDeps = {
    catalog: () => catalog,
    routingFlags,
    providers: () => mediaProviders,
    breakers,
    calls: createMediaCalls({ getKeyCeilings: keyring.getCeilings, admission, breakers, journal, clock, logger }),
    httpClient,
    clock,
    logger,
  };
  const media = createMediaHandlers(mediaDeps);
  const videos = createVideoHandlers({ ...mediaDeps, database });
  let durable: Durable | null = null;
  const deleteRuns: Durable['deleteRuns'] = async (workflowId, recordRuns) => {
    if (!durable) throw new Error('durable work has not begun');
    return durable.deleteRuns(workflowId, recordRuns);
  };
  const erasures = createErasures({ database, dataDir, journal, drain, recovery, responseCache, deleteRuns, logger });
  const health: HealthDeps = {
    getNotReadyReasons: async () => [...startupBlockers(), ...(journal.state().accepting ? [] : ['the journal cannot be written'])],
  };
  const server =
    role === 'worker'
      ? createHealthServer({ health, logger })
      : createApi({
          config: () => config,
          catalog: () => catalog,
          routingFlags,
          modelsInForce,
          keyring,
          projects,
          breakers,
          reports,
          reprice: createReprice({ database, clock, startCostAdjustment }),
          memory,
          erasures: erasures.routes,
          applyErasure: erasures.listener.apply,
          learning,
          leases: {
            leases: admission.leases,
            listLiveProcesses: async () => (await listLiveProcesses(database)).map(({ id }) => id),
            revokeLeases: callRecording.revokeLeases,
          },
          readUsage: createUsageReader({ database, admission, process: journal.id }),
          handleCall,
          media,
          videos,
          drain,
          health,
          adminToken,
          clock,
          logger,
        });

  await keyring.start();
  await projects.start();
  await memory.settings.start();
  await modelsInForce.start();
  await callRecording.start();
  await erasures.listener.start();

  return {
    keyring,
    projects,
    responseCache,
    listen: (host, port) => listenOn(server, host, port),
    async issueFirstKey() {
      if ((await projects.list()).length > 0) return null;
      const { project } = await projects.ensureDefault('default');
      return (await keyring.issue(project.id, { name: 'first key' })).secret;
    },
    startDurable(onReady) {
      durable ??= startDurable({
        temporal: readTemporalConnection(config.temporal),
        role: role === 'serve' ? 'client' : 'worker',
        environment: { path: environment.PATH ?? '', cacheDir: cacheDirectory(environment), variables: environment },
        dataDir,
        database,
        activities: interceptActivities(
          createActivities({
            cleanup: { steps: createCleanupSteps({ database, clock }) },
            memory: { idleMs: () => config.memory.idleMs, readConversation: memory.episodes.readConversation },
            embeddings: { embedPassages: memory.embedPassages },
            erasures: erasures.activities,
            learning: learning.activities,
            videos: { pollVideo: videos.pollVideo },
          }),
        ),
        async reenqueueUnfinished() {
          await reenqueueIdleTimers(database);
          await reenqueueEmbeddings(database, memory.embeddingModelOf);
          await reenqueueLearning(database);
          await reenqueueVideoPolls(database);
          await reenqueueErasures(database);
        },
        startDelayMs: (workflow) => (workflow === 'conversationIdle' ? config.memory.idleMs : 0),
        logger,
        onReady: (ready) => onReady?.(ready.uiUrl()),
      });
      return durable;
    },
    reload(next) {
      config = next;
      revision += 1;
      providers = buildProviders(next.providers);
      mediaProviders = buildMediaProviders(next.providers);
      modelsInForce.reconfigure(next.models);
      signalWaitingBatches(database, logger, null);
    },
    async close() {
      const deadline = performance.now() + graceMs;
      const serverClosed = closeServer(server, { drainTimeoutMs: graceMs, onDrainTimeout: httpClient.abort, abortTimeoutMs });
      await Promise.all([serverClosed, durable?.stop()]);
      // A plain call whose caller has left has no connection to wait for, but its vendor bills it all the same.
      await callRecording.waitUntilSettled(deadline);
      httpClient.abort();
      await callRecording.waitUntilSettled(performance.now() + abortTimeoutMs);
      await erasures.listener.stop();
      await callRecording.stop();
      await modelsInForce.stop();
      await Promise.all([keyring.stop(), projects.stop(), memory.settings.stop(), httpClient.close()]);
    },
  };
}
