/**
 * PostgreSQL through one `pg.Pool` with every timeout set. Opening neither waits for the server nor fails, since `serve` must start and stay
 * up during an outage; each query then fails within two seconds with an error that `isConnectionError` recognises.
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
  /** 0 disables the timeout, for `gateway migrate`. The client gives up five seconds later if the server does not respond. */
  readonly statementTimeoutMs?: number;
  /** How often the LISTEN connection is checked. */
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
  const warn = (err: Error): void => logger?.warn({ err: err.message }, 'database connection lost');
  // An 'error' event without a listener ends the process: the pool emits it for idle clients, the client while it is in use.
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
