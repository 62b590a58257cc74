/**
 * The database as every module sees it: queries, transactions and notifications. Implemented by `pool.ts` (PostgreSQL) and `embedded.ts`
 * (PGlite).
 *
 * PGlite is a single session: inside `transaction` use only the given `tx` (any other query would wait forever), and await nothing but SQL.
 */

import type { DatabaseOutage } from './outage.ts';

/** Runs one statement. Pass values as parameters, with their casts in the text. */
export interface Queries {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
}

export interface Database extends Queries {
  readonly kind: 'embedded' | 'server';
  /**
   * Commits after `work`, or rolls back and throws what it threw. `settings` are statements (`set local ...`) that are sent with `begin`, in
   * one round trip.
   */
  transaction<Result>(work: (tx: Queries) => Promise<Result>, settings?: string): Promise<Result>;
  /**
   * Runs a statement that may take hours and cannot run in a transaction, such as `create index concurrently`, on a separate connection.
   * An abort cancels it. On the embedded database it runs as an ordinary statement.
   */
  runWithoutTimeout(text: string, signal: AbortSignal): Promise<void>;
  /**
   * Calls `onPayload` for each NOTIFY on `channel`, until `stop`. After a lost connection it subscribes again and calls `onReconnect`,
   * since notifications sent meanwhile are lost: caches must reload. Calls it every few seconds while notifications do not arrive.
   */
  listen(channel: string, onPayload: (payload: string) => void, onReconnect?: () => void): Promise<{ stop(): Promise<void> }>;
  /**
   * The same database over separate connections, at most so many, which no other statements occupy; closed with this one. Absent on the
   * embedded database, which has a single session.
   */
  separate?(options: SeparateConnections): Database;
  /** Whether the server responds. Absent on the embedded database, which runs in this process. */
  readonly outage?: DatabaseOutage;
  /** The connections of this database and of those separated from it. Absent on the embedded database. */
  pools?(): readonly PoolUse[];
  close(): Promise<void>;
}

export interface PoolUse {
  readonly name: PoolName;
  readonly busy: number;
  readonly idle: number;
  /** Queries that wait for a connection. */
  readonly waiting: number;
  readonly maxConnections: number;
}

export type PoolName = 'main' | 'admission' | 'status' | 'metrics';

export interface SeparateConnections {
  readonly name: Exclude<PoolName, 'main'>;
  readonly maxConnections: number;
  readonly statementTimeoutMs: number;
}
