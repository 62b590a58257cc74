/**
 * The lifecycle of a service process. It reads the configuration, prepares the data directory, opens the database,
 * checks the schema, and starts the demo vendor and the app. Then it handles signals until it's asked to stop. If it
 * can't start, it throws a StartError with a single sentence. Stopping reverses the steps of the start, each with its
 * own timeout.
 */
import cluster from 'node:cluster';
import { constants } from 'node:fs';
import { access, mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { App, Role } from '../app/app.ts';
import { publishAddress } from '../cli/addresses.ts';
import { readOrCreateAdminTokens } from '../config/admin-token.ts';
import { type Config, ConfigError } from '../config/config.ts';
import { type ConfigSource, loadConfig, readConfigSource, withLocalEmbedder } from '../config/load.ts';
import { errorCode, errorSummary } from '../core/error-messages.ts';
import { untilAborted, withTimeout } from '../core/time-limit.ts';
import { readVersion } from '../core/version.ts';
import { createLogger, type Logger } from '../observability/logger.ts';
import { startTracing } from '../observability/tracing-sdk.ts';
import { formatBanner } from './banner.ts';
import { runCluster } from './cluster.ts';
import { createSharedDemoVendor, withDemoVendor } from './demo-vendor-config.ts';
import {
  createSharedLocalEmbedder,
  describeMemorySearch,
  type Endpoint,
  formatStatus,
  type SharedLocalEmbedder,
} from './local-embedder-config.ts';
import { startMetricsServer } from './metrics-server.ts';
import { migrateSchema, openDatabase, startSchemaCheck } from './open-database.ts';
import type { ServiceHost } from './service-host.ts';
import { StartError, wrapStartError } from './start-error.ts';

/** The running components in the order in which they were started. They're stopped in reverse order. */
type Started = { readonly name: string; readonly timeoutMs: number; readonly stop: () => Promise<unknown> }[];

/**
 * How long a start may continue after a stop signal. We can only stop properly once it has finished, but it may hang,
 * e.g. if the database doesn't respond.
 */
const startTimeoutMs = 2_000;

/** How long the app may take to stop after the stop timeout, to abort calls, drain the journal and return leases. */
const appStopMs = 20_000;

/** Migrates the database schema. Throws ConfigError and StartError. */
export async function runMigrations(host: ServiceHost): Promise<void> {
  const config = loadConfig(readConfigSource(host.env, 'migrate'));
  const logger = createLogger({ level: config.server.logLevel, format: config.server.logFormat });
  const database = await openDatabase(config, logger);
  try {
    const { applied } = await migrateSchema(database);
    host.write(applied === 0 ? 'The schema was up to date.\n' : `Applied ${applied} migration${applied === 1 ? '' : 's'}.\n`);
  } finally {
    await database.close();
  }
}

/** Runs a single process or a cluster until it's asked to stop. Throws ConfigError and StartError. */
export async function runService(role: Role, host: ServiceHost): Promise<void> {
  const { clusterWorker } = host;
  const source = readSource(role, host);
  const config = loadConfig(source);
  if (config.server.apiProcesses > 1 && role !== 'worker' && clusterWorker === null) return runCluster({ role, source, config, host });
  const logger = createLogger({
    ...{ level: config.server.logLevel, format: config.server.logFormat },
    ...(clusterWorker && { process: clusterWorker.slot }),
  });
  const started: Started = [];
  try {
    const starting = startService({ role, config, logger, host, started });
    const stopped = untilAborted(host.stopping);
    await Promise.race([starting, stopped]);
    const service = await (host.stopping.aborted ? withTimeout(starting, startTimeoutMs, () => null) : starting);
    if (service === null) return logger.info({}, 'stopping before startup is complete');
    const { app, watching } = service;
    await Promise.race([stopped, watching.then(() => stopped)]);
    logger.info({}, 'stopping');
    app.announceStop();
    await sleep(config.server.stopDelayMs);
  } finally {
    await stopAll(started, logger);
  }
}

interface ServiceStart {
  readonly role: Role;
  readonly config: Config;
  readonly logger: Logger;
  readonly host: ServiceHost;
  readonly started: Started;
}

/** Starts all components. `watching` rejects if the service later runs into a problem that forces it to stop. */
async function startService({ role, config: loaded, logger, host, started }: ServiceStart): Promise<{ app: App; watching: Promise<void> }> {
  const dataDir = resolve(loaded.server.dataDir);
  const { clusterWorker } = host;
  await prepareDataDir(dataDir);
  if (loaded.tracing) {
    const tracing = await startTracing(loaded.tracing, logger);
    started.push({ name: 'traces', timeoutMs: 5_000, stop: tracing.stop });
  }
  const database = await openDatabase(loaded, logger);
  started.push({ name: 'database', timeoutMs: 2_000, stop: () => database.close() });
  if (role === 'start') await migrateSchema(database);
  const schema = role === 'start' ? null : await startSchemaCheck(database, logger);

  let isEmbedderReady = false;
  let takeUpEmbeddings = (): void => undefined;
  const onEmbedderChange = (isReady: boolean): void => {
    isEmbedderReady = isReady;
    if (isReady) takeUpEmbeddings();
  };
  // In a cluster, the parent runs the embedder and tells its processes whether it's ready.
  const embedder = clusterWorker ? null : createSharedLocalEmbedder({ env: host.env, logger, onChange: onEmbedderChange });
  clusterWorker?.onEmbedderChange(onEmbedderChange);
  const completeVendors = createConfigCompleter({ role, host, started, embedder });
  const completeConfig = async (next: Config): Promise<Config> => {
    const reading = readOrCreateAdminTokens(next.adminTokens, dataDir);
    const adminTokens = await wrapStartError(`cannot read the admin token of ${dataDir}`, reading);
    return { ...(await completeVendors(next)), adminTokens };
  };
  const config = await completeConfig(loaded);
  const isFirstProcess = clusterWorker?.isLeader ?? true;
  if (isFirstProcess) logWarnings(config, logger);
  const startupBlockers = (): string[] => (schema === null || schema.isVerified() ? [] : ['the database has not been reached yet']);
  // Import the app late, because that takes up most of the start time. This way, errors in the configuration or the
  // database are reported sooner, and the parent of a cluster never loads the app.
  const { createApp } = await import('../app/app.ts');
  const appLogger = database.outage?.quieten(logger) ?? logger;
  const creating = createApp({
    ...{ role, config, database, logger: appLogger, dataDir, environment: host.env, startupBlockers },
    isLocalEmbedderReady: () => isEmbedderReady,
    ...(clusterWorker && { readMetrics: clusterWorker.readMetrics, readsStoredState: clusterWorker.isLeader }),
  });
  const app = await wrapStartError(`cannot use the data directory ${dataDir} or the database`, creating);
  started.push({ name: 'app', timeoutMs: config.server.stopTimeoutMs + appStopMs, stop: () => app.close() });

  clusterWorker?.onCollectMetrics(app.collectMetrics);
  const address = clusterWorker ? null : loaded.server.metricsAddress;
  if (address) {
    const stop = await startMetricsServer({ address, readMetrics: app.readMetrics, logger });
    // Components are stopped from the end of the list. Insert the metrics before the app, so that they're available
    // until the app has stopped.
    started.splice(started.length - 1, 0, { name: 'metrics', timeoutMs: 1_000, stop });
  }
  takeUpEmbeddings = app.takeUpEmbeddings;
  if (isEmbedderReady) takeUpEmbeddings();
  const url = await listen(app, loaded);
  if (role !== 'worker' && !clusterWorker) await publishServiceAddress(dataDir, url, started);
  if (role === 'start' && (clusterWorker?.isFirst ?? true)) {
    const firstKey = await app.issueFirstKey();
    const origin = loaded.publicUrl ?? url;
    const firstSignIn = await app.prepareFirstSignIn({ origin, mayShowLink: host.isTerminal });
    const memorySearch = describeMemorySearch(config, embedder?.takeStatus() ?? null);
    host.write(formatBanner({ url, origin, firstKey, firstSignIn, memorySearch, dataDir: loaded.server.dataDir, demo: loaded.demo }));
    embedder?.onStatus((status) => host.write(formatStatus(status)));
  }
  if (isFirstProcess && !host.stopping.aborted) {
    app.startDurable((uiUrl) => {
      if (role === 'start' && uiUrl !== null) host.write(`\n  Temporal UI     ${uiUrl}\n\n`);
    });
  }
  const reload = async (): Promise<boolean> => {
    const next = await completeConfig(loadConfig(readSource(role, host)));
    if (isFirstProcess) {
      logWarnings(next, logger);
      const settings = startSettings.flatMap(({ name, read }) => (read(next) === read(loaded) ? [] : [name]));
      if (settings.length > 0) logger.warn({ settings }, 'changed settings need a restart');
    }
    return app.reload(next);
  };
  (clusterWorker?.onReload ?? host.onReload)(() => void tryReload(reload, logger));
  if (clusterWorker) clusterWorker.reportListening(url);
  else logger.info({ url, role, version: readVersion() }, 'listening');
  return { app, watching: schema?.wait(host.stopping) ?? Promise.resolve() };
}

/** Settings that can come from a file, but are only read when the process starts. */
const startSettings: readonly { readonly name: string; readonly read: (config: Config) => string | null }[] = [
  { name: 'DATABASE_URL', read: ({ server }) => server.databaseUrl },
  { name: 'TEMPORAL_API_KEY', read: ({ temporal }) => temporal.apiKey },
];

async function prepareDataDir(dataDir: string): Promise<void> {
  try {
    await makeFolders(dataDir);
    if (!(await stat(dataDir)).isDirectory()) throw new Error('it is not a directory');
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new StartError(`cannot use the data directory ${dataDir}: ${errorSummary(cause)}`, { cause });
  }
}

/**
 * Creates a folder with its parents. With `recursive`, Node would retry forever if the kernel responds with ENOENT,
 * e.g. below /proc.
 */
async function makeFolders(folder: string): Promise<void> {
  const make = async (): Promise<void> => {
    await mkdir(folder, { mode: 0o700 });
  };
  try {
    await make();
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return;
    if (errorCode(error) !== 'ENOENT') throw error;
    await makeFolders(dirname(folder));
    await make().catch((again: unknown) => {
      // EEXIST means that another process has created the folder in the meantime.
      if (errorCode(again) !== 'EEXIST') throw again;
    });
  }
}

/**
 * In a cluster, uses the file as the parent last read it, so that a replacement has the same configuration as the other
 * processes.
 */
function readSource(role: Role, { env, clusterWorker }: ServiceHost): ConfigSource {
  return clusterWorker ? { ...clusterWorker.configFile(), env, command: role } : readConfigSource(env, role);
}

interface CompleterOptions extends Pick<ServiceStart, 'role' | 'host' | 'started'> {
  readonly embedder: SharedLocalEmbedder | null;
}

/**
 * Returns a function that adds the embedder and the demo vendor to a configuration. In a cluster, the parent runs both.
 */
function createConfigCompleter({
  role,
  host: { clusterWorker },
  started,
  embedder,
}: CompleterOptions): (config: Config) => Promise<Config> {
  const complete = (config: Config, endpoint: Endpoint | null, demoUrl: string | null): Config =>
    withDemoVendor(withLocalEmbedder(config, endpoint), demoUrl);
  if (clusterWorker)
    return async (config) => complete(config, clusterWorker.localEmbedder(), role === 'start' ? clusterWorker.demoUrl() : null);
  const vendor = createSharedDemoVendor();
  // Components are stopped in reverse order. Insert these at the beginning, so that they're still there for running
  // calls until the app has stopped.
  started.unshift({ name: 'demo vendor', timeoutMs: 2_000, stop: vendor.stop });
  if (embedder) started.unshift({ name: 'local embedder', timeoutMs: 5_000, stop: embedder.stop });
  return async (config) =>
    complete(config, (await embedder?.endpointFor(config)) ?? null, role === 'start' ? await vendor.urlFor(config) : null);
}

async function publishServiceAddress(dataDir: string, url: string, started: Started): Promise<void> {
  const stop = await wrapStartError(`cannot write ${dataDir}/addresses`, publishAddress(dataDir, url));
  started.push({ name: 'address file', timeoutMs: 1_000, stop });
}

async function listen(app: App, { server }: Config): Promise<string> {
  try {
    // Ask Node rather than checking `clusterWorker`, because this can also be a worker in somebody else's cluster, e.g.
    // with pm2.
    return await app.listen(server.host, server.port, cluster.isWorker);
  } catch (cause) {
    const code = errorCode(cause);
    if (code === 'EADDRINUSE')
      throw new StartError(`port ${server.port} on ${server.host} is already in use; set PORT to a different port`, { cause });
    if (code === 'EACCES') throw new StartError(`no permission to listen on port ${server.port}; set PORT to another one`, { cause });
    throw new StartError(`cannot listen on ${server.host}:${server.port}: ${errorSummary(cause)}`, { cause });
  }
}

function logWarnings({ warnings }: Config, logger: Logger): void {
  for (const warning of warnings) logger.warn({ warning }, 'possible configuration mistake');
}

/** Applies the configuration file again. If it has errors, logs them and keeps the current configuration. */
async function tryReload(reload: () => Promise<boolean>, logger: Logger): Promise<void> {
  try {
    if (await reload()) logger.info({}, 'configuration reloaded');
  } catch (error) {
    const reason = error instanceof ConfigError ? { errors: error.errors } : { err: error };
    logger.error(reason, 'configuration rejected; keeping the active one');
  }
}

async function stopAll(started: Started, logger: Logger): Promise<void> {
  for (const { name, timeoutMs, stop } of [...started].reverse()) {
    try {
      await withTimeout(stop(), timeoutMs, () => logger.error({ phase: name, timeoutMs }, 'shutdown phase timed out'));
    } catch (error) {
      logger.error({ phase: name, err: error }, 'shutdown phase failed');
    }
  }
}
