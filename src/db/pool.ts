/**
 * PostgreSQL through one `pg.Pool` with every limit set (lessons 17). Opening never waits for the server and never fails: `serve` stays up
 * while the database is away (decisions 11); each query then fails within two seconds with an error `isConnectionFault` recognises.
 */
import pg from 'pg';
import { createConnections, type DatabaseLogger } from './connections.ts';
import type { Database } from './database.ts';
import { createListener } from './listener.ts';
import { createValueTypes } from './value-types.ts';

export interface ServerDatabaseOptions {
  readonly connectionString: string;
  readonly maxConnections?: number;
  readonly connectTimeoutMs?: number;
  /** Longest statement; 0 for none, which `gateway migrate` wants. The client gives up five seconds later, should the server be silent. */
  readonly statementTimeoutMs?: number;
  /** How often the LISTEN connection is asked for a sign of life. */
  readonly heartbeatMs?: number;
  readonly logger?: DatabaseLogger;
}

/** Opens the pool. `close` ends it and the LISTEN connection. */
export function openServerDatabase(options: ServerDatabaseOptions): Database {
  const {
    connectionString,
    maxConnections = 10,
    connectTimeoutMs = 2_000,
    statementTimeoutMs = 30_000,
    heartbeatMs = 5_000,
    logger,
  } = options;
  const connection: pg.ClientConfig = {
    connectionString,
    application_name: 'model-gateway',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: createValueTypes(),
  };
  const pool = new pg.Pool({
    ...connection,
    max: maxConnections,
    idleTimeoutMillis: 30_000,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs === 0 ? undefined : statementTimeoutMs + 5_000,
  });
  const warn = (error: Error): void => logger?.warn({ error: error.message }, 'database connection lost');
  // Without listeners a lost connection would end the process: the pool's for idle clients, the client's own while it is lent.
  pool.on('error', warn);
  pool.on('connect', (client) => client.on('error', warn));
  const connections = createConnections(pool);
  const listener = createListener({ connection, heartbeatMs, connectTimeoutMs, logger });
  let closing: Promise<void> | null = null;
  return {
    kind: 'server',
    query: connections.query,
    transaction: connections.transaction,
    runWithoutTimeout,
    listen: listener.listen,
    close() {
      closing ??= Promise.all([listener.close(), pool.end()]).then(() => undefined);
      return closing;
    },
  };

  async function runWithoutTimeout(text: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const client = new pg.Client({ ...connection, statement_timeout: 0 });
    client.on('error', warn);
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    const cancel = (): void => {
      pool.query('select pg_cancel_backend($1::integer)', [rows[0]?.pid]).catch(warn);
    };
    signal.addEventListener('abort', cancel, { once: true });
    try {
      await client.query(text);
    } finally {
      signal.removeEventListener('abort', cancel);
      await client.end();
    }
  }
}
