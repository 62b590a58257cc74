/**
 * Connects to PostgreSQL through a `pg.Pool` with every timeout set. Opening it doesn't wait for the server and never
 * fails, because `serve` must start and stay up during an outage. Each query then fails within two seconds with an
 * error that `isConnectionError` recognizes.
 */
import pg from 'pg';
import type { Logger } from '../observability/logger.ts';
import { createConnections } from './connections.ts';
import type { Database, PoolName, PoolUse, SeparateConnections } from './database.ts';
import { createListener } from './listener.ts';
import { createOutageMonitor } from './outage.ts';
import { createValueTypes } from './value-types.ts';

export interface ServerDatabaseOptions {
  readonly connectionString: string;
  readonly maxConnections?: number;
  readonly connectTimeoutMs?: number;
  /**
   * 0 disables the timeout, which `gateway migrate` needs. If the server doesn't respond, the client gives up five
   * seconds later.
   */
  readonly statementTimeoutMs?: number;
  /** The interval at which we check the LISTEN connection. */
  readonly heartbeatMs?: number;
  readonly logger?: Logger;
}

/** Transactions don't wait for anything but the database, so none should be idle for this long. */
const maxIdleMs = 10_000;

/** Opens the pool. `close` ends this pool, those that were separated from it, and the LISTEN connection. */
export function openServerDatabase(options: ServerDatabaseOptions): Database {
  const { connectionString, maxConnections = 10, connectTimeoutMs = 2_000, statementTimeoutMs = 30_000, heartbeatMs = 5_000 } = options;
  const { logger } = options;
  const connection: pg.ClientConfig = {
    connectionString,
    application_name: 'model-gateway',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: createValueTypes(),
  };
  const outage = createOutageMonitor(logger);
  const openPool = (max: number, timeoutMs: number): pg.Pool => {
    // Turn off `jit`, because PostgreSQL overestimates short statements on many partitions and compiles them. Charts of
    // 3,000 rows took 7 s instead of 0.1 s. If a host disappears, the server would keep its locks for two hours without
    // `idle_in_transaction_session_timeout`.
    const settings = `set jit = off; set idle_in_transaction_session_timeout = ${Math.min(timeoutMs, maxIdleMs)}`;
    const opened = new pg.Pool({
      ...connection,
      max,
      idleTimeoutMillis: 30_000,
      statement_timeout: timeoutMs,
      query_timeout: timeoutMs === 0 ? undefined : timeoutMs + 5_000,
      // Don't pass these as connection options, because poolers refuse them.
      onConnect: async (client) => {
        await client.query(settings);
      },
    });
    // An 'error' event without a listener ends the process. The pool emits it for idle clients, and a client emits it
    // while it's in use.
    opened.on('error', outage.connectionLost);
    opened.on('connect', (client) => client.on('error', outage.connectionLost));
    return opened;
  };
  const pool = openPool(maxConnections, statementTimeoutMs);
  const pools: { readonly name: PoolName; readonly pool: pg.Pool; readonly maxConnections: number }[] = [
    { name: 'main', pool, maxConnections },
  ];
  const notify = (channel: string, payload: string): Promise<unknown> =>
    pool.query('select pg_notify($1::text, $2::text)', [channel, payload]);
  const listener = createListener({ connection, heartbeatMs, connectTimeoutMs, logger, outage, notify });
  let closing: Promise<void> | null = null;
  const close = (): Promise<void> => {
    closing ??= Promise.all([listener.close(), ...pools.map(({ pool }) => pool.end())]).then(() => undefined);
    return closing;
  };
  const toDatabase = (connections: pg.Pool): Database => {
    const { query, transaction } = createConnections(connections, { outage });
    return { kind: 'server', query, transaction, runWithoutTimeout, listen: listener.listen, separate, outage, pools: listPools, close };
  };
  const listPools = (): PoolUse[] =>
    pools.map(({ name, pool: { totalCount, idleCount, waitingCount }, maxConnections }) => ({
      ...{ name, busy: totalCount - idleCount, idle: idleCount, waiting: waitingCount, maxConnections },
    }));
  const separate = ({ name, maxConnections: max, statementTimeoutMs: timeoutMs }: SeparateConnections): Database => {
    const separated = openPool(max, timeoutMs);
    pools.push({ name, pool: separated, maxConnections: max });
    return toDatabase(separated);
  };
  return toDatabase(pool);

  async function runWithoutTimeout(text: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const client = new pg.Client({ ...connection, statement_timeout: 0 });
    client.on('error', outage.connectionLost);
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    const cancel = (): void => {
      pool.query('select pg_cancel_backend($1::integer)', [rows[0]?.pid]).catch(outage.connectionLost);
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
