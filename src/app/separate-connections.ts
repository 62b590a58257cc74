/** Gives separate database connections to parts of the gateway that shouldn't have to wait for others. */
import type { Database } from '../db/database.ts';

/**
 * Gives these parts of the gateway connections of their own. That way, other statements delay neither admission nor the
 * routes that clients poll, and the polled routes don't delay admission.
 */
const connectionsOf = {
  admission: { name: 'admission', maxConnections: 4, statementTimeoutMs: 5_000 },
  status: { name: 'status', maxConnections: 2, statementTimeoutMs: 30_000 },
  metrics: { name: 'metrics', maxConnections: 1, statementTimeoutMs: 2_000 },
} as const;

/** Reserves connections for one use. An embedded database only has one session, so it's returned as it is. */
export function separateConnections(database: Database, use: keyof typeof connectionsOf): Database {
  return database.separate?.(connectionsOf[use]) ?? database;
}
