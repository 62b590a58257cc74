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
import { announceAddress } from './cli/addresses.ts';
import { formatBanner } from './cli/banner.ts';
import { readAdminToken } from './config/admin-token.ts';
import type { Config } from './config/config.ts';
import { ConfigError } from './config/config.ts';
import { type ConfigSource, loadConfig, readConfigSource } from './config/load.ts';
import type { Logger } from './observability/logger.ts';
import { createLogger } from './observability/logger.ts';
import { runProcessSet } from './service/cluster.ts';
import { lendDemoVendor, withDemoVendor } from './service/demo-vendor-config.ts';
import { bringUpToDate, findSchema, openDatabase, waitForSchema } from './service/open-database.ts';
import type { ServiceHost } from './service/service-host.ts';
import { orStartError, reasonOf, StartError } from './service/start-error.ts';

/** What was started and must be stopped, last first. */
type Started = { readonly name: string; readonly limitMs: number; readonly stop: () => Promise<unknown> }[];

/** Brings the schema up to date and ends. Throws ConfigError and StartError. */
export async function runMigrations(host: ServiceHost): Promise<void> {
  const config = loadConfig(readConfigSource(host.env, 'migrate'));
  const logger = createLogger({ level: config.server.logLevel });
  const database = await openDatabase(config, logger);
  try {
    const { applied } = await bringUpToDate(database);
    host.write(applied === 0 ? 'The schema was up to date.\n' : `Applied ${applied} migration${applied === 1 ? '' : 's'}.\n`);
  } finally {
    await database.close();
  }
}

/** Runs a service, or the set of processes that it is, until it is told to stop. Throws ConfigError and StartError. */
export async function runService(role: Role, host: ServiceHost): Promise<void> {
  const { member } = host;
  const source = readSource(role, host);
  const config = loadConfig(source);
  if (config.server.workers > 1 && role !== 'worker' && member === null) return runProcessSet({ role, source, config, host });
  const logger = createLogger({ level: config.server.logLevel, ...(member && { process: member.place }) });
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
  const { member } = host;
  await prepareDataDir(dataDir);
  const database = await openDatabase(own, logger);
  started.push({ name: 'database', limitMs: 2_000, stop: () => database.close() });
  if (role === 'start') await bringUpToDate(database);
  let isSchemaKnown = role === 'start' || (await findSchema(database));

  const complete = createCompletion(role, host, started);
  const config = await complete(own);
  const adminToken = await orStartError(`the admin token of ${dataDir} cannot be read`, readAdminToken(own.adminToken, dataDir));
  const waitsFor = (): string[] => (isSchemaKnown ? [] : ['the database has not been reached yet']);
  const building = createApp({ role, config, database, logger, dataDir, adminToken, environment: host.env, waitsFor });
  const app = await orStartError(`the data directory ${dataDir} or the database cannot be used`, building);
  started.push({ name: 'app', limitMs: 33_000, stop: () => app.close() });

  const url = await listen(app, own);
  if (role !== 'worker' && !member) await writeAddress(dataDir, url, started);
  if (role === 'start' && (member?.isFirst ?? true)) {
    host.write(formatBanner({ url, firstKey: await app.issueFirstKey(), dataDir: own.server.dataDir, demo: own.demo }));
  }
  if (member?.leads ?? true) {
    if (own.server.otlpEndpoint !== null)
      logger.warn({}, 'OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces are not built yet: none are sent');
    app.startDurable((uiUrl) => {
      if (role === 'start' && uiUrl !== null) host.write(`\n  Temporal UI     ${uiUrl}\n\n`);
    });
  }
  (member?.onReload ?? host.onReload)(() => void reload({ role, host, complete, app, logger }));
  if (member) member.reportUp(url);
  else logger.info({ url, role }, 'listening');
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

/** All members of a set have the file as their parent read it last, whatever stands in it when one of them is replaced. */
function readSource(role: Role, { env, member }: ServiceHost): ConfigSource {
  return member ? { ...member.configFile(), env, command: role } : readConfigSource(env, role);
}

/** What puts a demo vendor into configurations that have no vendor: the set's, or one of our own. */
function createCompletion(role: Role, { member }: ServiceHost, started: Started): (config: Config) => Promise<Config> {
  if (role !== 'start') return async (config) => config;
  if (member) return async (config) => withDemoVendor(config, member.demoUrl());
  const vendor = lendDemoVendor();
  // As if it had been started first, so that it is stopped last: running answers may come from it.
  started.unshift({ name: 'demo vendor', limitMs: 2_000, stop: vendor.stop });
  return async (config) => withDemoVendor(config, await vendor.urlFor(config));
}

/** For the commands that call a running service. */
async function writeAddress(dataDir: string, url: string, started: Started): Promise<void> {
  const stop = await orStartError(`${dataDir}/addresses cannot be written`, announceAddress(dataDir, url));
  started.push({ name: 'address file', limitMs: 1_000, stop });
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
    app.reload(await complete(loadConfig(readSource(role, host))));
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
