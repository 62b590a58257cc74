/** The database of a process: opened, and its schema brought up to date or found to fit. What is wrong is a StartError. */
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database } from '../db/database.ts';
import { DataDirError, DataDirLockedError, openEmbeddedDatabase } from '../db/embedded.ts';
import { checkSchema, migrate, SchemaError } from '../db/migrate.ts';
import { openServerDatabase } from '../db/pool.ts';
import type { Logger } from '../observability/logger.ts';
import { errorMessage, StartError } from './start-error.ts';

const schemaRetryMs = 1_000;

export async function openDatabase({ server }: Config, logger: Logger): Promise<Database> {
  if (server.databaseUrl !== null) return openServerDatabase({ connectionString: server.databaseUrl, logger });
  try {
    return await openEmbeddedDatabase({ dataDir: resolve(server.dataDir), logger });
  } catch (cause) {
    if (cause instanceof DataDirLockedError || cause instanceof DataDirError) throw new StartError(cause.message, { cause });
    throw new StartError(`the embedded database cannot be opened: ${errorMessage(cause)}`, { cause });
  }
}

export async function migrateSchema(database: Database): Promise<{ applied: number }> {
  try {
    return await migrate(database);
  } catch (cause) {
    if (cause instanceof SchemaError) throw new StartError(cause.message, { cause });
    if (isConnectionError(cause)) throw new StartError(`the database cannot be reached: ${errorMessage(cause)}`, { cause });
    throw new StartError(`a migration failed, nothing was started: ${errorMessage(cause)}`, { cause });
  }
}

/**
 * `serve` and `worker` do not migrate: a schema that does not fit ends the process. A database that cannot be reached does not
 * (decisions 11): it is tried again until it answers, and what it says then counts.
 */
export async function waitForSchema(database: Database, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    await sleep(schemaRetryMs, undefined, { signal: stopping }).catch(() => undefined); // Rejects when stopping.
    if (stopping.aborted || (await verifySchema(database))) return;
  }
}

/** False: the database cannot be reached. */
export async function verifySchema(database: Database): Promise<boolean> {
  try {
    await checkSchema(database);
    return true;
  } catch (cause) {
    if (cause instanceof SchemaError) throw new StartError(cause.message, { cause });
    if (isConnectionError(cause)) return false;
    throw new StartError(`the schema of the database cannot be read: ${errorMessage(cause)}`, { cause });
  }
}
