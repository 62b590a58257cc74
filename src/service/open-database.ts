/** Opens the database, and migrates or checks its schema. Throws StartErrors. */
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
    throw new StartError(`cannot open the embedded database: ${errorSummary(cause)}`, { cause });
  }
}

export async function migrateSchema(database: Database): Promise<{ applied: number }> {
  try {
    return await migrate(database);
  } catch (cause) {
    if (cause instanceof SchemaError) throw new StartError(cause.message, { cause });
    if (isConnectionError(cause)) throw new StartError(`cannot reach the database: ${errorSummary(cause)}`, { cause });
    throw new StartError(`the database could not be migrated: ${errorSummary(cause)}`, { cause });
  }
}

export interface SchemaCheck {
  isVerified(): boolean;
  /** Resolves when the schema is verified or the signal is aborted. Throws StartError. */
  wait(stopping: AbortSignal): Promise<void>;
}

/**
 * Checks whether this version supports the database's schema, for `serve` and `worker`, which don't migrate. Throws
 * StartError if it doesn't. If the database is down, call `wait`, which tries again every second.
 */
export async function startSchemaCheck(database: Database, logger: Logger): Promise<SchemaCheck> {
  let obstacle = '';
  const verify = async (): Promise<void> => {
    const reason = await findObstacle(database);
    if (reason !== null && reason !== obstacle) logger.error({ reason }, 'database unavailable; retrying');
    if (reason === null && obstacle !== '') logger.info({}, 'database recovered');
    obstacle = reason ?? '';
  };
  await verify();
  return {
    isVerified: () => obstacle === '',
    async wait(stopping) {
      while (obstacle !== '' && !stopping.aborted) {
        await pause(schemaRetryMs, stopping);
        if (!stopping.aborted) await verify();
      }
    },
  };
}

/**
 * Verifies the schema. If the database can't be reached, returns the reason. Returns null if the schema is fine, and
 * throws StartError if it isn't supported or can't be read.
 */
async function findObstacle(database: Database): Promise<string | null> {
  try {
    await checkSchema(database);
    return null;
  } catch (cause) {
    if (cause instanceof SchemaError) throw new StartError(cause.message, { cause });
    if (isConnectionError(cause)) return errorSummary(cause) || 'it does not respond';
    throw new StartError(`cannot read the schema of the database: ${errorSummary(cause)}`, { cause });
  }
}
