/**
 * The life of a service process: settings, data directory, database, schema, demo vendor, app; then signals until the end.
 *
 * What stops a start is a StartError with one clear sentence. A stop undoes the start in reverse order, each phase with a limit of its own.
 */
import { constants } from 'node:fs';
import { access, mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { App, Role } from './app.ts';
import { createApp } from './app.ts';
import { publishAddress } from './cli/addresses.ts';
import { formatBanner } from './cli/banner.ts';
import { readOrCreateAdminToken } from './config/admin-token.ts';
import type { Config } from './config/config.ts';
import { ConfigError } from './config/config.ts';
import { type ConfigSource, loadConfig, readConfigSource } from './config/load.ts';
import type { Logger } from './observability/logger.ts';
import { createLogger } from './observability/logger.ts';
import { runCluster } from './service/cluster.ts';
import { createSharedDemoVendor, withDemoVendor } from './service/demo-vendor-config.ts';
import { migrateSchema, openDatabase, verifySchema, waitForSchema } from './service/open-database.ts';
import type { ServiceHost } from './service/service-host.ts';
import { errorMessage, StartError, wrapStartError } from './service/start-error.ts';

/** What was started and must be stopped, last first. */
type Started = { readonly name: string; readonly timeoutMs: number; readonly stop: () => Promise<unknown> }[];

/** Brings the schema up to date and ends. Throws ConfigError and StartError. */
export async function runMigrations(host: ServiceHost): Promise<void> {
  const config = loadConfig(readConfigSource(host.env, 'migrate'));
  const logger = createLogger({ level: config.server.logLevel });
  const database = await openDatabase(config, logger);
  try {
    const { applied } = await migrateSchema(database);
    host.write(applied === 0 ? 'The schema was up to date.\n' : `Applied ${applied} migration${applied === 1 ? '' : 's'}.\n`);
  } finally {
    await database.close();
  }
}

/** Runs a service, or the set of processes that it is, until it is told to stop. Throws ConfigError and StartError. */
export async function runService(role: Role, host: ServiceHost): Promise<void> {
  const { clusterWorker } = host;
  const source = readSource(role, host);
  const config = loadConfig(source);
  if (config.server.workers > 1 && role !== 'worker' && clusterWorker === null) return runCluster({ role, source, config, host });
  const logger = createLogger({ level: config.server.logLevel, ...(clusterWorker && { process: clusterWorker.slot }) });
  const started: Started = [];
  try {
    const { watching } = await startService({ role, config, logger, host, started });
    await Promise.all([stopped(host.stopping), watching]);
    logger.info({}, 'stopping');
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

/** `watching` ends at the stop, and rejects when the service cannot go on. */
async function startService({ role, config: loaded, logger, host, started }: ServiceStart): Promise<{ watching: Promise<void> }> {
  const dataDir = resolve(loaded.server.dataDir);
  const { clusterWorker } = host;
  await prepareDataDir(dataDir);
  const database = await openDatabase(loaded, logger);
  started.push({ name: 'database', timeoutMs: 2_000, stop: () => database.close() });
  if (role === 'start') await migrateSchema(database);
  let isSchemaVerified = role === 'start' || (await verifySchema(database));

  const completeConfig = createConfigCompleter(role, host, started);
  const config = await completeConfig(loaded);
  const adminToken = await wrapStartError(
    `the admin token of ${dataDir} cannot be read`,
    readOrCreateAdminToken(loaded.adminToken, dataDir),
  );
  const startupBlockers = (): string[] => (isSchemaVerified ? [] : ['the database has not been reached yet']);
  const creating = createApp({ role, config, database, logger, dataDir, adminToken, environment: host.env, startupBlockers });
  const app = await wrapStartError(`the data directory ${dataDir} or the database cannot be used`, creating);
  started.push({ name: 'app', timeoutMs: 33_000, stop: () => app.close() });

  const url = await listen(app, loaded);
  if (role !== 'worker' && !clusterWorker) await publishServiceAddress(dataDir, url, started);
  if (role === 'start' && (clusterWorker?.isFirst ?? true)) {
    host.write(formatBanner({ url, firstKey: await app.issueFirstKey(), dataDir: loaded.server.dataDir, demo: loaded.demo }));
  }
  if (clusterWorker?.isLeader ?? true) {
    if (loaded.server.otlpEndpoint !== null)
      logger.warn({}, 'OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces are not built yet: none are sent');
    app.startDurable((uiUrl) => {
      if (role === 'start' && uiUrl !== null) host.write(`\n  Temporal UI     ${uiUrl}\n\n`);
    });
  }
  (clusterWorker?.onReload ?? host.onReload)(() => void reload({ role, host, completeConfig, app, logger }));
  if (clusterWorker) clusterWorker.reportListening(url);
  else logger.info({ url, role }, 'listening');
  if (isSchemaVerified) return { watching: Promise.resolve() };
  logger.warn({}, 'the database cannot be reached; trying again');
  const watching = waitForSchema(database, host.stopping).then(() => {
    isSchemaVerified = true;
    logger.info({}, 'the database is reached');
  });
  return { watching };
}

async function prepareDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new StartError(`the data directory ${dataDir} cannot be used: ${errorMessage(cause)}`, { cause });
  }
}

/** All members of a set have the file as their parent read it last, whatever stands in it when one of them is replaced. */
function readSource(role: Role, { env, clusterWorker }: ServiceHost): ConfigSource {
  return clusterWorker ? { ...clusterWorker.configFile(), env, command: role } : readConfigSource(env, role);
}

/** What puts a demo vendor into configurations that have no vendor: the set's, or one of our own. */
function createConfigCompleter(role: Role, { clusterWorker }: ServiceHost, started: Started): (config: Config) => Promise<Config> {
  if (role !== 'start') return async (config) => config;
  if (clusterWorker) return async (config) => withDemoVendor(config, clusterWorker.demoUrl());
  const vendor = createSharedDemoVendor();
  // As if it had been started first, so that it is stopped last: running answers may come from it.
  started.unshift({ name: 'demo vendor', timeoutMs: 2_000, stop: vendor.stop });
  return async (config) => withDemoVendor(config, await vendor.urlFor(config));
}

/** For the commands that call a running service. */
async function publishServiceAddress(dataDir: string, url: string, started: Started): Promise<void> {
  const stop = await wrapStartError(`${dataDir}/addresses cannot be written`, publishAddress(dataDir, url));
  started.push({ name: 'address file', timeoutMs: 1_000, stop });
}

async function listen(app: App, { server }: Config): Promise<string> {
  try {
    return await app.listen(server.host, server.port);
  } catch (cause) {
    const code: unknown = cause instanceof Error && 'code' in cause ? cause.code : null;
    if (code === 'EADDRINUSE') throw new StartError(`port ${server.port} of ${server.host} is in use; set PORT to another one`, { cause });
    if (code === 'EACCES') throw new StartError(`port ${server.port} may not be used by this user; set PORT to another one`, { cause });
    throw new StartError(`cannot listen on ${server.host}:${server.port}: ${errorMessage(cause)}`, { cause });
  }
}

interface Reload {
  readonly role: Role;
  readonly host: ServiceHost;
  readonly completeConfig: (config: Config) => Promise<Config>;
  readonly app: App;
  readonly logger: Logger;
}

/** A file with faults leaves the old configuration in force and says so. */
async function reload({ role, host, completeConfig, app, logger }: Reload): Promise<void> {
  try {
    app.reload(await completeConfig(loadConfig(readSource(role, host))));
    logger.info({}, 'configuration read again');
  } catch (error) {
    const why = error instanceof ConfigError ? { faults: error.errors } : { error };
    logger.error(why, 'the configuration has faults; the old one stays in force');
  }
}

function stopped(stopping: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (stopping.aborted) done();
    else stopping.addEventListener('abort', () => done(), { once: true });
  });
}

async function stopAll(started: Started, logger: Logger): Promise<void> {
  for (const { name, timeoutMs, stop } of [...started].reverse()) {
    const timer = new AbortController();
    const tooLong = sleep(timeoutMs, 'too long' as const, { signal: timer.signal }).catch(() => null);
    try {
      if ((await Promise.race([stop(), tooLong])) === 'too long') logger.error({ name, limitMs: timeoutMs }, 'did not stop in time');
    } catch (error) {
      logger.error({ name, error }, 'did not stop in order');
    } finally {
      timer.abort();
    }
  }
}
