/**
 * The database as all modules see it: queries, transactions and notifications. `pool.ts` implements it for PostgreSQL,
 * and `embedded.ts` for PGlite.
 *
 * PGlite has only one session. Within `transaction`, only use the given `tx`, because any other query would wait
 * forever, and don't await anything but SQL.
 */

import type { DatabaseOutage } from './outage.ts';

/** Runs a single statement. Pass values as parameters, and cast them in the text. */
export interface Queries {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
}

export interface Database extends Queries {
  readonly kind: 'embedded' | 'server';
  /**
   * Commits after `work`, or rolls back and rethrows its error. `settings` are statements (`set local ...`) that we
   * send together with `begin`, to save a round trip.
   */
  transaction<Result>(work: (tx: Queries) => Promise<Result>, settings?: string): Promise<Result>;
  /**
   * Runs a statement on a separate connection. Use this if it may take hours and can't run in a transaction, such as
   * `create index concurrently`. An abort cancels it. On the embedded database it runs like any other statement.
   */
  runWithoutTimeout(text: string, signal: AbortSignal): Promise<void>;
  /**
   * Calls `onPayload` for each NOTIFY on `channel` until `stop` is called. If the connection is lost, it subscribes
   * again and calls `onReconnect`, because notifications may have been missed and caches have to reload. While
   * notifications don't arrive at all, it calls `onReconnect` every few seconds.
   */
  listen(channel: string, onPayload: (payload: string) => void, onReconnect?: () => void): Promise<{ stop(): Promise<void> }>;
  /**
   * Returns the same database with its own connections, which no other statements can use up. They're closed together
   * with this database. Missing on the embedded database, which has a single session.
   */
  separate?(options: SeparateConnections): Database;
  /** Whether the server responds. Missing on the embedded database, which runs in this process. */
  readonly outage?: DatabaseOutage;
  /**
   * Returns the connection pools of this database and of all databases that were separated from it. Missing on the
   * embedded database.
   */
  pools?(): readonly PoolUse[];
  close(): Promise<void>;
}

export interface PoolUse {
  readonly name: PoolName;
  readonly busy: number;
  readonly idle: number;
  /** The number of queries that are waiting for a connection. */
  readonly waiting: number;
  readonly maxConnections: number;
}

export type PoolName = 'main' | 'admission' | 'status' | 'metrics';

export interface SeparateConnections {
  readonly name: Exclude<PoolName, 'main'>;
  readonly maxConnections: number;
  readonly statementTimeoutMs: number;
}
