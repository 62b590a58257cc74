/**
 * Connects to PostgreSQL through a `pg.Pool`, with a timeout for everything. Opening the pool doesn't wait for the
 * server and never fails, because `serve` has to start and keep running during an outage. While the server is
 * unreachable, each query fails within two seconds with an error that `isConnectionError` recognizes.
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
   * The server cancels statements after this time. If the server doesn't respond at all, the client gives up five
   * seconds later. Set this to 0 to disable the timeout, as `gateway migrate` does.
   */
  readonly statementTimeoutMs?: number;
  /** How often to check the LISTEN connection. */
  readonly heartbeatMs?: number;
  readonly logger?: Logger;
}

/**
 * How long a transaction can be idle before the server ends it. Our transactions don't wait for anything but the
 * database, so none should be idle for this long.
 */
const maxIdleMs = 10_000;

/** Opens the pool. Calling `close` ends this pool, all separated pools and the LISTEN connection. */
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
    // We turn off `jit`, because PostgreSQL overestimates the cost of short statements on many partitions and compiles
    // them. With `jit`, charts of 3,000 rows took 7 s instead of 0.1 s. `idle_in_transaction_session_timeout` is for
    // hosts that disappear, because otherwise the server would keep their locks for two hours. `lz4` takes a third of
    // the time of PostgreSQL's own compression (9 instead of 26 ms for a prompt of 1 MB). Not every server supports it,
    // so we don't make it a property of the columns, because a dump couldn't be restored on such a server.
    const settings = `set jit = off; set idle_in_transaction_session_timeout = ${Math.min(timeoutMs, maxIdleMs)};
      select set_config(name, 'lz4', false) from pg_settings where name = 'default_toast_compression' and 'lz4' = any (enumvals)`;
    const opened = new pg.Pool({
      ...connection,
      max,
      idleTimeoutMillis: 30_000,
      statement_timeout: timeoutMs,
      query_timeout: timeoutMs === 0 ? undefined : timeoutMs + 5_000,
      // Set these here, because poolers reject them as connection options.
      onConnect: async (client) => {
        await client.query(settings);
      },
    });
    // An 'error' event without a listener would end the process. The pool emits the event for idle clients, and clients
    // emit it themselves while they're in use.
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
