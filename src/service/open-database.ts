/** Opens a process's database and migrates or verifies its schema. Errors become StartErrors. */
import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { errorSummary } from '../core/error-messages.ts';
import { pause } from '../core/time-limit.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database } from '../db/database.ts';
import { checkSchema, migrate, SchemaError } from '../db/migrate.ts';
import { openServerDatabase } from '../db/pool.ts';
import type { Logger } from '../observability/logger.ts';
import { StartError } from './start-error.ts';

const schemaRetryMs = 1_000;

export async function openDatabase({ server }: Config, logger: Logger): Promise<Database> {
  if (server.databaseUrl !== null) return openServerDatabase({ connectionString: server.databaseUrl, logger });
  const { DataDirError, openEmbeddedDatabase } = await import('../db/embedded.ts');
  try {
    return await openEmbeddedDatabase({ dataDir: resolve(server.dataDir), logger });
  } catch (cause) {
    if (cause instanceof DataDirError) throw new StartError(cause.message, { cause });
    throw new StartError(`the embedded database cannot be opened: ${errorSummary(cause)}`, { cause });
  }
}

export async function migrateSchema(database: Database): Promise<{ applied: number }> {
  try {
    return await migrate(database);
  } catch (cause) {
    if (cause instanceof SchemaError) throw new StartError(cause.message, { cause });
    if (isConnectionError(cause)) throw new StartError(`the database cannot be reached: ${errorSummary(cause)}`, { cause });
    throw new StartError(`a migration failed, nothing was started: ${errorSummary(cause)}`, { cause });
  }
}

/**
 * Waits until the database can be reached, then verifies its schema. `serve` and `worker` do not migrate: an unsupported schema ends the
 * process, an unreachable database does not.
 */
export async function waitForSchema(database: Database, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    await pause(schemaRetryMs, stopping);
    if (stopping.aborted || (await verifySchema(database))) return;
  }
}

/** Verifies the schema. False when the database cannot be reached; throws StartError when the schema is not supported. */
export async function verifySchema(database: Database): Promise<boolean> {
  try {
    await checkSchema(database);
    return true;
  } catch (cause) {
    if (cause instanceof SchemaError) throw new StartError(cause.message, { cause });
    if (isConnectionError(cause)) return false;
    throw new StartError(`the schema of the database cannot be read: ${errorSummary(cause)}`, { cause });
  }
}
