/** Opens separate connection pools for some parts of the gateway, so that they don't wait for each other's queries. */
import type { Database } from '../db/database.ts';

/**
 * The connection pools besides the main one. Admission has its own pool, so that it doesn't queue behind other
 * statements. Routes that are polled frequently have another one, so they neither queue behind other statements nor
 * hold up admission.
 */
const connectionsOf = {
  admission: { name: 'admission', maxConnections: 4, statementTimeoutMs: 5_000 },
  status: { name: 'status', maxConnections: 2, statementTimeoutMs: 30_000 },
  metrics: { name: 'metrics', maxConnections: 1, statementTimeoutMs: 2_000 },
} as const;

/**
 * Opens a connection pool for this use. Returns the database itself if it's embedded, because that only has one
 * session.
 */
export function separateConnections(database: Database, use: keyof typeof connectionsOf): Database {
  return database.separate?.(connectionsOf[use]) ?? database;
}
