/** The uses of the database with connections of their own. */
import type { Database } from '../db/database.ts';

/** Other statements must delay neither admission nor the routes that clients poll, nor these admission. */
const connectionsOf = {
  admission: { name: 'admission', maxConnections: 4, statementTimeoutMs: 5_000 },
  status: { name: 'status', maxConnections: 2, statementTimeoutMs: 30_000 },
  metrics: { name: 'metrics', maxConnections: 1, statementTimeoutMs: 2_000 },
} as const;

/** Returns the database over connections that nothing else occupies; the embedded database itself, which has a single session. */
export function separateConnections(database: Database, use: keyof typeof connectionsOf): Database {
  return database.separate?.(connectionsOf[use]) ?? database;
}
