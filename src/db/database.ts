/**
 * What every room knows of the database: a query, a transaction, and notifications. Made by `pool.ts` (PostgreSQL) or `embedded.ts`
 * (PGlite); rooms cannot tell which.
 *
 * The embedded database is one session behind a pool of one (decisions 1): inside `transaction` use only the `tx` that is handed in
 * (another query would wait for ever), and await nothing but SQL.
 */

/** Runs one statement. Values only as parameters, with casts in the text. */
export interface Queries {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
}

export interface Database extends Queries {
  readonly kind: 'embedded' | 'server';
  /** Commits what `work` did, or rolls all of it back and throws what it threw. */
  transaction<Result>(work: (tx: Queries) => Promise<Result>): Promise<Result>;
  /**
   * Runs a statement that may take hours and stands outside of transactions, such as `create index concurrently`, on a connection of its own.
   * An abort cancels it. On the embedded database, which has one session, it is a statement like any other.
   */
  runWithoutTimeout(text: string, signal: AbortSignal): Promise<void>;
  /**
   * Calls `onPayload` for each NOTIFY on `channel`, until `stop`. After a lost connection it listens again by itself and then calls
   * `onReconnect`, since notifications sent meanwhile are lost: whoever caches must read anew.
   */
  listen(channel: string, onPayload: (payload: string) => void, onReconnect?: () => void): Promise<{ stop(): Promise<void> }>;
  close(): Promise<void>;
}
