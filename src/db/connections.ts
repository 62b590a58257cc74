/**
 * Runs statements and transactions on a `pg.Pool`, for both databases.
 *
 * A connection goes back to the pool after an ordinary SQL error (a unique violation costs no reconnect, as it would with `pool.query`)
 * and is thrown away after a fault of the connection or a failed rollback, whose state nobody knows.
 */
import type pg from 'pg';
import { isConnectionError } from './connection-errors.ts';
import type { Queries } from './database.ts';

/** The part of a logger that this room needs. */
export interface DatabaseLogger {
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
}

export interface Connections extends Queries {
  transaction<Result>(work: (tx: Queries) => Promise<Result>): Promise<Result>;
  /** Lends one connection; nothing else runs on it until `work` ends. */
  withClient<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result>;
}

/** `afterStatement` is waited for behind each statement of `query` and of transactions. */
export function createConnections(pool: pg.Pool, onStatementDone?: () => Promise<void>): Connections {
  const run = async <Row>(client: pg.PoolClient, text: string, values: readonly unknown[] = []): Promise<Row[]> => {
    const result = await client.query(text, [...values]);
    await onStatementDone?.();
    // Several statements at once (a migration) give a list of results without rows of its own.
    const rows: unknown[] = result.rows ?? [];
    // Row is the caller's statement of what its query selects; `valueTypes` decides what values become.
    return rows as Row[];
  };
  const withClient = async <Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> => {
    const client = await pool.connect();
    let isBroken = false;
    try {
      return await work(client);
    } catch (error) {
      isBroken = isConnectionError(error);
      throw error;
    } finally {
      client.release(isBroken);
    }
  };
  return {
    withClient,
    query: (text, values) => withClient((client) => run(client, text, values)),
    transaction: (work) =>
      withClient(async (client) => {
        await client.query('begin');
        try {
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
    // Reads as a connection fault, so that `lend` throws the connection away; the reason stays the first thing to read.
    throw new Error('Connection terminated: the transaction could not be rolled back', {
      cause: isConnectionError(reason) ? reason : cause,
    });
  }
}
