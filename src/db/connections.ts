/**
 * Runs statements and transactions on a `pg.Pool`, for both databases.
 *
 * A connection returns to the pool after an SQL error (with `pool.query`, a unique violation would cost a reconnect) and is discarded
 * after a connection error or a failed rollback, when its state is unknown.
 */

import type pg from 'pg';
import type { Logger } from '../observability/logger.ts';
import { isConnectionError } from './connection-errors.ts';
import type { Queries } from './database.ts';
import type { OutageMonitor } from './outage.ts';

/** The part of a logger that this module needs. */
export type DatabaseLogger = Pick<Logger, 'warn'>;

export interface Connections extends Queries {
  transaction<Result>(work: (tx: Queries) => Promise<Result>, settings?: string): Promise<Result>;
  /** Runs `work` with one connection, on which nothing else runs until `work` ends. */
  withClient<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result>;
}

export interface ConnectionHooks {
  /** Awaited after each statement of `query` and of transactions. */
  readonly onStatementDone?: () => Promise<void>;
  /** Learns whether the server responds. */
  readonly outage?: Pick<OutageMonitor, 'failed' | 'responded'>;
}

export function createConnections(pool: pg.Pool, { onStatementDone, outage }: ConnectionHooks = {}): Connections {
  const run = async <Row>(client: pg.PoolClient, text: string, values: readonly unknown[] = []): Promise<Row[]> => {
    const result = await client.query(text, [...values]);
    await onStatementDone?.();
    // Several statements in one text (a migration) return a list of results, which has no `rows`.
    const rows: unknown[] = result.rows ?? [];
    // Row is what the caller declares its query selects; `value-types.ts` decides how values are parsed.
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
    query: (text, values) => withClient((client) => run(client, text, values)),
    transaction: (work, settings) =>
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
    // Matched by `isConnectionError`, so that `withClient` discards the connection; the original reason is the first cause.
    throw new Error('Connection terminated: the transaction could not be rolled back', {
      cause: isConnectionError(reason) ? reason : cause,
    });
  }
}
