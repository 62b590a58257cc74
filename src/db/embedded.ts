/**
 * Runs PGlite, i.e. PostgreSQL within this process, so that `npm start` works without a database server. PGlite has
 * only one session, so we wrap it in a pool with a single connection to queue the statements. `listen` uses PGlite's
 * own API, because PGlite only delivers notifications to listeners that were registered there.
 *
 * Opening fails with a one-line instruction if the directory is in use by another process, can't be written, or was
 * created by another major version of PostgreSQL.
 */
import { constants, existsSync } from 'node:fs';
import { access, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { PGlite } from '@electric-sql/pglite';
import { createPgConfig } from '@electric-sql/pglite/node-postgres';
import { vector } from '@electric-sql/pglite-pgvector';
import pg from 'pg';
import { errorSummary } from '../core/error-messages.ts';
import { acquireFileLock } from '../core/file-lock.ts';
import { isObject } from '../core/json/narrow.ts';
import { createConnections, type DatabaseLogger } from './connections.ts';
import type { Database } from './database.ts';
import { unpackEmptyDatabase } from './empty-database.ts';
import { notifySafely } from './listener.ts';
import { createValueTypes } from './value-types.ts';

/** The major version of PostgreSQL that PGlite contains. A test compares this with `server_version`. */
const embeddedMajorVersion = '18';

/**
 * PGlite allocates and clears its shared buffers when it's opened. The default of 128 MB would be a waste, because the
 * kernel caches the files too.
 */
const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=16MB'];

/**
 * Prevents V8 from optimizing PostgreSQL's expression interpreter. V8 compiles a WebAssembly function on its first call
 * and optimizes it later. For this function, the optimization briefly takes 600 MB and a second of CPU time, but it
 * only speeds up long aggregates by 15 % and nothing else (measured). V8 never optimizes functions that were compiled
 * while optimization is turned off. So we turn it off during the first query, which this method runs.
 */
class LeanPGlite extends PGlite {
  override async _initArrayTypes(options?: Parameters<PGlite['_initArrayTypes']>[0]): Promise<void> {
    setFlagsFromString('--wasm-tier-up-filter=0');
    try {
      await super._initArrayTypes(options);
    } finally {
      setFlagsFromString('--wasm-tier-up-filter=-1');
    }
  }
}

/** The code of ENOSPC in WASI. */
const wasiNoSpace = 51;

/** Thrown if the embedded database can't be opened. The message is one line with the reason and what to do about it. */
export class DataDirError extends Error {
  override readonly name = 'DataDirError';
}

export interface EmbeddedDatabaseOptions {
  readonly dataDir: string;
  readonly logger?: DatabaseLogger;
  /** Unpacks the shipped empty database on the first start. Tests replace this. */
  readonly unpackEmpty?: typeof unpackEmptyDatabase;
}

/** Locks the directory and opens `<dataDir>/db`. The first start creates the database. */
export async function openEmbeddedDatabase({
  dataDir,
  logger,
  unpackEmpty = unpackEmptyDatabase,
}: EmbeddedDatabaseOptions): Promise<Database> {
  const folder = join(dataDir, 'db');
  await ensureFolder(folder);
  const lock = await acquireFileLock(join(dataDir, 'db.lock'));
  if (!lock)
    throw new DataDirError(
      `the data directory ${dataDir} is in use by another gateway process; stop that one, or set GATEWAY_DATA_DIR to another directory`,
    );
  try {
    const pglite = await openOrCreate(folder, {
      marker: join(dataDir, 'db.unfinished'),
      unpackEmpty,
      onUnusable: (error) =>
        logger?.warn({ err: describeError(error) }, 'cannot use the empty database that ships with the gateway; creating a new one'),
    });
    return wrapInPool(pglite, lock.release, logger);
  } catch (error) {
    lock.release();
    if (error instanceof DataDirError) throw error;
    throw new DataDirError(`cannot open the embedded database in ${folder}: ${describeError(error)}`, { cause: error });
  }
}

function wrapInPool(pglite: PGlite, releaseLock: () => void, logger: DatabaseLogger | undefined): Database {
  const pool = new pg.Pool({
    ...createPgConfig(pglite),
    max: 1,
    // Don't close the connection when it's idle, because it's the only one to PGlite. Statements may also have to wait
    // for it longer than on a server, so the connection timeout is longer.
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: 30_000,
    types: createValueTypes(),
  });
  const warn = (err: Error): void => logger?.warn({ err: err.message }, 'embedded database connection lost');
  pool.on('error', warn);
  pool.on('connect', (client) => client.on('error', warn));
  // PGlite runs consecutive statements in one turn of the event loop, so we yield between them. At 1,700 calls per
  // second, a transaction of twelve statements delayed every call by 90 ms without yielding, and by 18 ms with it.
  const connections = createConnections(pool, { onStatementDone: nextTurn });
  let closing: Promise<void> | null = null;

  const close = async (): Promise<void> => {
    await pool.end();
    await pglite.close();
    releaseLock();
  };

  return {
    kind: 'embedded',
    query: connections.query,
    transaction: connections.transaction,
    async runWithoutTimeout(text) {
      await connections.query(text);
    },
    async listen(channel, onPayload) {
      // Hold the only client while PGlite sends LISTEN. Otherwise LISTEN could end up between the protocol messages of
      // another statement.
      const unlisten = await connections.withClient(() =>
        pglite.listen(channel, (payload) => notifySafely(() => onPayload(payload), logger)),
      );
      let stopped = false;
      return {
        async stop() {
          if (stopped || closing) return;
          stopped = true;
          await connections.withClient(() => unlisten());
        },
      };
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

async function ensureFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new DataDirError(`cannot write to the data directory ${folder}: ${describeError(error)}`, { cause: error });
  }
}

/**
 * Opens the database, or creates it if it doesn't exist. The creation writes a thousand files, and if it's interrupted,
 * PGlite can't open the result. So we keep a marker file in the folder during the creation. If the marker is still
 * there at the next start, the database has never held any data, so we delete the folder and start again.
 */
async function openOrCreate(folder: string, { marker, ...options }: CreateOptions & { readonly marker: string }): Promise<PGlite> {
  if (existsSync(marker)) await rm(folder, { recursive: true, force: true });
  await checkMajorVersion(folder);
  if (existsSync(join(folder, 'PG_VERSION'))) return open(folder);
  await writeFile(marker, '', { mode: 0o600 });
  const pglite = await create(folder, options);
  await rm(marker, { force: true });
  return pglite;
}

interface CreateOptions {
  readonly unpackEmpty: typeof unpackEmptyDatabase;
  readonly onUnusable: (error: unknown) => void;
}

/** Unpacks the shipped empty database. If that fails, we let PGlite create one with `initdb`. */
async function create(folder: string, { unpackEmpty, onUnusable }: CreateOptions): Promise<PGlite> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    if (await unpackEmpty(folder)) return await open(folder);
  } catch (error) {
    onUnusable(error);
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { mode: 0o700 });
  }
  return open(folder);
}

async function open(folder: string): Promise<PGlite> {
  const pglite = new LeanPGlite({ dataDir: folder, extensions: { vector }, startParams });
  await pglite.waitReady;
  return pglite;
}

async function checkMajorVersion(folder: string): Promise<void> {
  // A new directory doesn't have this file yet.
  const version = await readFile(join(folder, 'PG_VERSION'), 'utf8').catch(() => null);
  const major = version?.trim() ?? embeddedMajorVersion;
  if (major === embeddedMajorVersion) return;
  throw new DataDirError(
    `${folder} was created by PostgreSQL ${major}, but this version needs ${embeddedMajorVersion}; move the folder away, or export its data with the version that created it`,
  );
}

function describeError(error: unknown): string {
  // PGlite's file system throws plain objects that have a WASI error number but no message.
  if (isObject(error) && typeof error.message !== 'string') {
    return error.errno === wasiNoSpace ? 'there is no space left on the disk' : `file system error ${String(error.errno ?? 'unknown')}`;
  }
  return errorSummary(error);
}
