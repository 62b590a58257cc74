/**
 * The life of a service process: settings, data directory, database, schema, demo vendor, app; then signals until the end.
 *
 * What stops a start is a StartError with one clear sentence. A stop undoes the start in reverse order, each phase with a limit of its own.
 */
import { constants } from 'node:fs';
import { access, mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { App, Role } from './app.ts';
import { createApp } from './app.ts';
import { formatBanner } from './cli/banner.ts';
import { readAdminToken } from './config/admin-token.ts';
import type { Config } from './config/config.ts';
import { ConfigError } from './config/config.ts';
import type { Environment } from './config/environment.ts';
import { demoConfig, loadConfigFrom } from './config/load.ts';
import { createDemoVendor } from './demo-vendor/server.ts';
import type { Logger } from './observability/logger.ts';
import { createLogger } from './observability/logger.ts';
import { bringUpToDate, findSchema, openDatabase, waitForSchema } from './service/open-database.ts';
import { orStartError, reasonOf, StartError } from './service/start-error.ts';

export interface ServiceHost {
  readonly env: Environment;
  readonly write: (text: string) => void;
  /** Aborted when the process is told to stop. */
  readonly stopping: AbortSignal;
  /** Sets what a SIGHUP does. */
  readonly onReload: (reload: () => void) => void;
}

/** What was started and must be stopped, last first. */
type Started = { readonly name: string; readonly limitMs: number; readonly stop: () => Promise<unknown> }[];

/** Brings the schema up to date and ends. Throws ConfigError and StartError. */
export async function runMigrations(host: ServiceHost): Promise<void> {
  const config = loadConfigFrom(host.env, 'migrate');
  const logger = createLogger({ level: config.server.logLevel });
  const database = await openDatabase(config, logger);
  try {
    const { applied } = await bringUpToDate(database);
    host.write(applied === 0 ? 'The schema was up to date.\n' : `Applied ${applied} migration${applied === 1 ? '' : 's'}.\n`);
  } finally {
    await database.close();
  }
}

/** Runs a service until it is told to stop. Throws ConfigError and StartError. */
export async function runService(role: Role, host: ServiceHost): Promise<void> {
  const config = loadConfigFrom(host.env, role);
  const logger = createLogger({ level: config.server.logLevel });
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
async function startService({ role, config: own, logger, host, started }: ServiceStart): Promise<{ watching: Promise<void> }> {
  const dataDir = resolve(own.server.dataDir);
  await prepareDataDir(dataDir);
  const database = await openDatabase(own, logger);
  started.push({ name: 'database', limitMs: 2_000, stop: () => database.close() });
  if (role === 'start') await bringUpToDate(database);
  let isSchemaKnown = role === 'start' || (await findSchema(database));

  const complete = role === 'start' ? createDemoCompletion(started) : async (config: Config) => config;
  const config = await complete(own);
  const adminToken = await orStartError(`the admin token of ${dataDir} cannot be read`, readAdminToken(own.adminToken, dataDir));
  const waitsFor = (): string[] => (isSchemaKnown ? [] : ['the database has not been reached yet']);
  const building = createApp({ role, config, database, logger, dataDir, adminToken, environment: host.env, waitsFor });
  const app = await orStartError(`the data directory ${dataDir} or the database cannot be used`, building);
  started.push({ name: 'app', limitMs: 33_000, stop: () => app.close() });

  const url = await listen(app, own);
  const addressFile = join(dataDir, 'address');
  if (role !== 'worker') {
    await orStartError(`${addressFile} cannot be written`, writeFile(addressFile, `${url}\n`, { mode: 0o600 }));
    started.push({ name: 'address file', limitMs: 1_000, stop: () => rm(addressFile, { force: true }) });
  }
  if (role === 'start') host.write(formatBanner({ url, firstKey: await app.issueFirstKey(), dataDir: own.server.dataDir, demo: own.demo }));
  logger.info({ url, role }, 'listening');
  if (own.server.otlpEndpoint !== null) logger.warn({}, 'OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces are not built yet: none are sent');
  app.startDurable((uiUrl) => {
    if (role === 'start' && uiUrl !== null) host.write(`\n  Temporal UI     ${uiUrl}\n\n`);
  });
  host.onReload(() => void reload({ role, host, complete, app, logger }));
  if (isSchemaKnown) return { watching: Promise.resolve() };
  logger.warn({}, 'the database cannot be reached; trying again');
  const watching = waitForSchema(database, host.stopping).then(() => {
    isSchemaKnown = true;
    logger.info({}, 'the database is reached');
  });
  return { watching };
}

async function prepareDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new StartError(`the data directory ${dataDir} cannot be used: ${reasonOf(cause)}`, { cause });
  }
}

/** Puts the demo vendor into configurations that have no vendor; it runs from the first of them on. */
function createDemoCompletion(started: Started): (config: Config) => Promise<Config> {
  let url: Promise<string> | null = null;
  const startVendor = async (): Promise<string> => {
    const vendor = await createDemoVendor({ paceMs: 15 });
    // As if it had been started first, so that it is stopped last: running answers may come from it.
    started.unshift({ name: 'demo vendor', limitMs: 2_000, stop: () => vendor.close() });
    return vendor.url;
  };
  return async (config) => {
    if (!config.demo) return config;
    url ??= startVendor();
    return demoConfig(config, await url);
  };
}

async function listen(app: App, { server }: Config): Promise<string> {
  try {
    return await app.listen(server.host, server.port);
  } catch (cause) {
    const code: unknown = cause instanceof Error && 'code' in cause ? cause.code : null;
    if (code === 'EADDRINUSE') throw new StartError(`port ${server.port} of ${server.host} is in use; set PORT to another one`, { cause });
    if (code === 'EACCES') throw new StartError(`port ${server.port} may not be used by this user; set PORT to another one`, { cause });
    throw new StartError(`cannot listen on ${server.host}:${server.port}: ${reasonOf(cause)}`, { cause });
  }
}

interface Reload {
  readonly role: Role;
  readonly host: ServiceHost;
  readonly complete: (config: Config) => Promise<Config>;
  readonly app: App;
  readonly logger: Logger;
}

/** A file with faults leaves the old configuration in force and says so. */
async function reload({ role, host, complete, app, logger }: Reload): Promise<void> {
  try {
    app.reload(await complete(loadConfigFrom(host.env, role)));
    logger.info({}, 'configuration read again');
  } catch (error) {
    const why = error instanceof ConfigError ? { faults: error.faults } : { error };
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
  for (const { name, limitMs, stop } of [...started].reverse()) {
    const limit = new AbortController();
    const tooLong = sleep(limitMs, 'too long' as const, { signal: limit.signal }).catch(() => null);
    try {
      if ((await Promise.race([stop(), tooLong])) === 'too long') logger.error({ name, limitMs }, 'did not stop in time');
    } catch (error) {
      logger.error({ name, error }, 'did not stop in order');
    } finally {
      limit.abort();
    }
  }
}
