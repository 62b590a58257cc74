/**
 * The database interface that all modules use: queries, transactions and notifications. `pool.ts` implements it for
 * PostgreSQL, and `embedded.ts` for PGlite.
 *
 * PGlite has only one session. Within `transaction`, only use the given `tx`, because any other query would wait
 * forever. Don't await anything but SQL there.
 */

import type { DatabaseOutage } from './outage.ts';

/** Runs a single statement. Pass values as parameters and cast them in the SQL. */
export interface Queries {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
}

export interface Database extends Queries {
  readonly kind: 'embedded' | 'server';
  /**
   * Runs `work` in a transaction. Commits if it succeeds, and otherwise rolls back and rethrows the error. `settings`
   * can contain `set local …` statements, which we send together with `begin` to save a round trip.
   */
  transaction<Result>(work: (tx: Queries) => Promise<Result>, settings?: string): Promise<Result>;
  /**
   * Runs a statement on a separate connection. Use this for statements that can take hours and can't run in a
   * transaction, such as `create index concurrently`. Aborting the signal cancels the statement. The embedded database
   * runs it like any other statement.
   */
  runWithoutTimeout(text: string, signal: AbortSignal): Promise<void>;
  /**
   * Calls `onPayload` for each NOTIFY on `channel` until `stop` is called. After a lost connection we subscribe again
   * and call `onReconnect`, because notifications may have been missed and caches have to reload. If notifications
   * don't arrive at all, we call `onReconnect` every few seconds.
   */
  listen(channel: string, onPayload: (payload: string) => void, onReconnect?: () => void): Promise<{ stop(): Promise<void> }>;
  /**
   * Opens the same database with a separate pool, so that other statements can't use up its connections. Closing this
   * database also closes the separate one. The embedded database has only one session, so it doesn't offer this.
   */
  separate?(options: SeparateConnections): Database;
  /** Tells whether the server responds. Missing on the embedded database, which has no server. */
  readonly outage?: DatabaseOutage;
  /**
   * Returns all connection pools of this database, including those that `separate` has created. Missing on the embedded
   * database.
   */
  pools?(): readonly PoolUse[];
  close(): Promise<void>;
}

export interface PoolUse {
  readonly name: PoolName;
  readonly busy: number;
  readonly idle: number;
  readonly waiting: number;
  readonly maxConnections: number;
}

export type PoolName = 'main' | 'admission' | 'status' | 'metrics';

export interface SeparateConnections {
  readonly name: Exclude<PoolName, 'main'>;
  readonly maxConnections: number;
  readonly statementTimeoutMs: number;
}
