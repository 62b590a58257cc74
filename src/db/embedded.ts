/**
 * PGlite: PostgreSQL in this process, for `npm start` without a server. One session behind a pool of one (decisions 1), so a statement
 * waits for the one before it; `listen` goes through PGlite itself, since a NOTIFY reaches only its own listeners.
 *
 * Opening fails with one sentence that says what to do: another process has the directory, it cannot be written, or it was made by
 * another major version of PostgreSQL.
 */
import { constants, existsSync } from 'node:fs';
import { access, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { createPgConfig } from '@electric-sql/pglite/node-postgres';
import { vector } from '@electric-sql/pglite-pgvector';
import pg from 'pg';
import { errorMessage } from '../core/error-messages.ts';
import { acquireFileLock } from '../core/file-lock.ts';
import { isObject } from '../core/json/narrow.ts';
import { createConnections, type DatabaseLogger } from './connections.ts';
import type { Database } from './database.ts';
import { notifySafely } from './listener.ts';
import { createValueTypes } from './value-types.ts';

/** Major version of the PostgreSQL inside PGlite; a test compares it with what the server says. */
const embeddedMajorVersion = '18';

/** ENOSPC of WASI. */
const wasiNoSpace = 51;

/** Another process works on the data directory, or this one opened it twice. */
export class DataDirLockedError extends Error {
  constructor(dataDir: string) {
    super(
      `the data directory ${dataDir} is in use by another gateway process; stop that one, or set GATEWAY_DATA_DIR to another directory`,
    );
    this.name = 'DataDirInUse';
  }
}

/** The embedded database cannot be opened; the message says why and what helps, in one line. */
export class DataDirError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'DataDirUnusable';
  }
}

export interface EmbeddedDatabaseOptions {
  readonly dataDir: string;
  readonly logger?: DatabaseLogger;
}

/** Takes the directory's lock and opens `<dataDir>/db`, making it at the first start (five seconds on a small machine). */
export async function openEmbeddedDatabase({ dataDir, logger }: EmbeddedDatabaseOptions): Promise<Database> {
  const folder = join(dataDir, 'db');
  await ensureFolder(folder);
  const lock = await acquireFileLock(join(dataDir, 'db.lock'));
  if (!lock) throw new DataDirLockedError(dataDir);
  try {
    const pglite = await openOrCreate(folder, join(dataDir, 'db.unfinished'));
    return wrapInPool(pglite, lock.release, logger);
  } catch (error) {
    lock.release();
    if (error instanceof DataDirError) throw error;
    throw new DataDirError(`the embedded database in ${folder} cannot be opened: ${describeError(error)}`, error);
  }
}

function wrapInPool(pglite: PGlite, releaseLock: () => void, logger: DatabaseLogger | undefined): Database {
  const pool = new pg.Pool({
    ...createPgConfig(pglite),
    max: 1,
    // The one client is PGlite itself: it never goes idle and its queue may be long, so a wait is not a fault as early as at a server.
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: 30_000,
    types: createValueTypes(),
  });
  const warn = (error: Error): void => logger?.warn({ error: error.message }, 'embedded database connection lost');
  pool.on('error', warn);
  pool.on('connect', (client) => client.on('error', warn));
  const connections = createConnections(pool, yieldToEventLoop);
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
      // PGlite's own statements would cut into a prepared statement of the pool; lending the one client keeps them apart.
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

/**
 * A statement of PGlite ends in the same turn of the event loop in which it began, and the next would begin in it too: a transaction of
 * twelve statements held up every call for 90 ms (measured at 1,700 calls a second), with a turn between them for 18.
 */
function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function ensureFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new DataDirError(`the data directory ${folder} cannot be written: ${describeError(error)}`, error);
  }
}

/**
 * PGlite makes a new database by writing a thousand files, and cannot open what a kill in the middle of that leaves. The mark stands while
 * this goes on: the folder beside it never held anybody's data, and is made anew.
 */
async function openOrCreate(folder: string, marker: string): Promise<PGlite> {
  if (existsSync(marker)) await rm(folder, { recursive: true, force: true });
  await checkMajorVersion(folder);
  const isNew = !existsSync(join(folder, 'PG_VERSION'));
  if (isNew) await writeFile(marker, '', { mode: 0o600 });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const pglite = await PGlite.create({ dataDir: folder, extensions: { vector } });
  if (isNew) await rm(marker, { force: true });
  return pglite;
}

async function checkMajorVersion(folder: string): Promise<void> {
  const version = await readFile(join(folder, 'PG_VERSION'), 'utf8').catch(() => null); // Not there: a new directory.
  const major = version?.trim() ?? embeddedMajorVersion;
  if (major === embeddedMajorVersion) return;
  throw new DataDirError(
    `${folder} was made by PostgreSQL ${major}, this version needs ${embeddedMajorVersion}; move it away, or export it with the version that made it`,
  );
}

function describeError(error: unknown): string {
  // The file system inside of PGlite throws objects that are no errors: a number in WASI's order, without a message.
  if (isObject(error) && typeof error.message !== 'string') {
    return error.errno === wasiNoSpace ? 'there is no space left on the disk' : `error ${String(error.errno ?? 'unknown')} of its files`;
  }
  return errorMessage(error).split('\n', 1)[0] ?? '';
}
