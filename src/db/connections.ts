/**
 * Runs statements and transactions on a `pg.Pool`, both for PostgreSQL and for the embedded database.
 *
 * After an SQL error we return the connection to the pool, while `pool.query` would close it, so that every unique
 * violation would cost a reconnect. After a connection error or a failed rollback, we can't know what state the
 * connection is in, so we discard it.
 */

import type pg from 'pg';
import type { Logger } from '../observability/logger.ts';
import { isConnectionError } from './connection-errors.ts';
import type { Queries } from './database.ts';
import type { OutageMonitor } from './outage.ts';

export type DatabaseLogger = Pick<Logger, 'warn'>;

export interface ConnectionHooks {
  /**
   * Called after each statement, both in `query` and inside transactions. We wait for this to resolve before we return
   * the statement's result.
   */
  readonly onStatementDone?: () => Promise<void>;
  readonly outage?: Pick<OutageMonitor, 'failed' | 'responded'>;
}

export function createConnections(pool: pg.Pool, { onStatementDone, outage }: ConnectionHooks = {}) {
  const run = async <Row>(client: pg.PoolClient, text: string, values: readonly unknown[] = []): Promise<Row[]> => {
    const result = await client.query(text, [...values]);
    await onStatementDone?.();
    // For a text with several statements, as in migrations, `pg` returns an array of results, which has no `rows`.
    const rows: unknown[] = result.rows ?? [];
    // We rely on the caller to choose the right row type. `value-types.ts` defines how each value is parsed.
    return rows as Row[];
  };
  const withClient = async <Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> => {
    const client = await pool.connect().catch((error: unknown) => {
      if (isConnectionError(error)) outage?.failed(error);
      throw error;
    });
    let isBroken = false;
    try {
      const result = await work(client);
      outage?.responded();
      return result;
    } catch (error) {
      isBroken = isConnectionError(error);
      if (isBroken) outage?.failed(error);
      throw error;
    } finally {
      client.release(isBroken);
    }
  };
  return {
    withClient,
    query: <Row>(text: string, values?: readonly unknown[]) => withClient((client) => run<Row>(client, text, values)),
    transaction: <Result>(work: (tx: Queries) => Promise<Result>, settings?: string) =>
      withClient(async (client) => {
        if (settings === undefined) await client.query('begin');
        try {
          if (settings !== undefined) await client.query(`begin; ${settings}`);
          const result = await work({ query: (text, values) => run(client, text, values) });
          await client.query('commit');
          return result;
        } catch (error) {
          await rollBack(client, error);
          throw error;
        }
      }),
  };
}

async function rollBack(client: pg.PoolClient, reason: unknown): Promise<void> {
  try {
    await client.query('rollback');
  } catch (cause) {
    // Start the message with "Connection terminated", so that `isConnectionError` recognizes it and `withClient`
    // discards the connection.
    throw new Error('Connection terminated: the transaction could not be rolled back', {
      cause: isConnectionError(reason) ? reason : cause,
    });
  }
}
