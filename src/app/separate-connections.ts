/** Gives some uses of the database connections of their own. */
import type { Database } from '../db/database.ts';

/**
 * Other statements must not delay admission or the routes that clients poll, and these routes must not delay admission.
 */
const connectionsOf = {
  admission: { name: 'admission', maxConnections: 4, statementTimeoutMs: 5_000 },
  status: { name: 'status', maxConnections: 2, statementTimeoutMs: 30_000 },
  metrics: { name: 'metrics', maxConnections: 1, statementTimeoutMs: 2_000 },
} as const;

/**
 * Returns the database over connections that nothing else uses. The embedded database has a single session, so it's
 * returned as is.
 */
export function separateConnections(database: Database, use: keyof typeof connectionsOf): Database {
  return database.separate?.(connectionsOf[use]) ?? database;
}
