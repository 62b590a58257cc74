/** Gives separate database connections to parts of the gateway that shouldn't have to wait for others. */
import type { Database } from '../db/database.ts';

/**
 * The connection pools besides the main one. With them, admission and the routes that clients poll don't have to queue
 * behind other statements, and the polling doesn't hold up admission.
 */
const connectionsOf = {
  admission: { name: 'admission', maxConnections: 4, statementTimeoutMs: 5_000 },
  status: { name: 'status', maxConnections: 2, statementTimeoutMs: 30_000 },
  metrics: { name: 'metrics', maxConnections: 1, statementTimeoutMs: 2_000 },
} as const;

/**
 * Opens a separate connection pool for this use. An embedded database only has a single session, so in that case we
 * return the database itself.
 */
export function separateConnections(database: Database, use: keyof typeof connectionsOf): Database {
  return database.separate?.(connectionsOf[use]) ?? database;
}
