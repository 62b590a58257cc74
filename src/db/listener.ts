/**
 * LISTEN on a connection of its own, for all channels of a process. A heartbeat notices a connection that died in silence (a firewall that
 * forgot it sends no reset); then, or on any error, it connects again with growing pauses, listens on every channel anew and tells
 * each listener, since what was notified meanwhile is lost. Made after pg-boss, `src/db.ts`.
 */
import pg from 'pg';
import { errorMessage } from '../core/error-messages.ts';
import type { DatabaseLogger } from './connections.ts';
import type { Database } from './database.ts';

interface Subscription {
  readonly channel: string;
  readonly onPayload: (payload: string) => void;
  readonly onReconnect: (() => void) | undefined;
}

export interface ListenerOptions {
  readonly connection: pg.ClientConfig;
  readonly heartbeatMs: number;
  readonly connectTimeoutMs: number;
  readonly logger: DatabaseLogger | undefined;
}

const initialBackoffMs = 100;
const maxBackoffMs = 5_000;

export function createListener(options: ListenerOptions): { listen: Database['listen']; close(): Promise<void> } {
  const subscriptions = new Set<Subscription>();
  let client: pg.Client | null = null;
  let connecting: Promise<void> | null = null;
  let timer: NodeJS.Timeout | undefined;
  let failures = 0;
  let closed = false;
  /** Registrations made while there was no connection must be told when there is one; so must all after a loss. */
  const awaitingReconnect = new Set<Subscription>();
  /** The end of what was asked last. */
  let lastStatement: Promise<unknown> = Promise.resolve();

  /** One statement at a time: pg warns of a client that is asked while it answers, and from its version 9 on will refuse. */
  const execute = (on: pg.Client, text: string): Promise<unknown> => {
    const result = lastStatement.then(() => on.query(text));
    lastStatement = result.catch(() => undefined); // Whoever asked is told.
    return result;
  };

  const onConnectionLost = (lostClient: pg.Client, error: unknown): void => {
    if (client !== lostClient) return;
    client = null;
    options.logger?.warn({ error: errorMessage(error) }, 'LISTEN connection lost');
    for (const subscription of subscriptions) awaitingReconnect.add(subscription);
    closeQuietly(lostClient);
    schedule(0);
  };

  const schedule = (delayMs: number): void => {
    clearTimeout(timer);
    if (closed) return;
    timer = setTimeout(() => void (client ? checkConnection(client) : connect()), delayMs);
    timer.unref();
  };

  const checkConnection = async (current: pg.Client): Promise<void> => {
    try {
      await execute(current, 'select 1');
      schedule(options.heartbeatMs);
    } catch (error) {
      onConnectionLost(current, error);
    }
  };

  const connectOnce = async (): Promise<void> => {
    const candidate = new pg.Client({ ...options.connection, query_timeout: options.connectTimeoutMs });
    candidate.on('error', (error) => onConnectionLost(candidate, error));
    candidate.on('end', () => onConnectionLost(candidate, new Error('the server closed the connection')));
    candidate.on('notification', ({ channel, payload }) => {
      for (const subscription of [...subscriptions]) {
        if (subscription.channel === channel) notifySafely(() => subscription.onPayload(payload ?? ''), options.logger);
      }
    });
    try {
      await candidate.connect();
      for (const channel of new Set([...subscriptions].map((subscription) => subscription.channel))) {
        await candidate.query(`listen ${pg.escapeIdentifier(channel)}`);
      }
    } catch (error) {
      closeQuietly(candidate);
      failures += 1;
      if (failures === 1) options.logger?.warn({ error: errorMessage(error) }, 'cannot LISTEN; trying again');
      schedule(pauseMs(failures));
      return;
    }
    if (closed) {
      closeQuietly(candidate);
      return;
    }
    client = candidate;
    failures = 0;
    const reconnected = [...awaitingReconnect];
    awaitingReconnect.clear();
    for (const subscription of reconnected) if (subscription.onReconnect) notifySafely(subscription.onReconnect, options.logger);
    schedule(options.heartbeatMs);
  };

  const connect = (): Promise<void> => {
    connecting ??= connectOnce().finally(() => {
      connecting = null;
    });
    return connecting;
  };

  return {
    async listen(channel, onPayload, onReconnect) {
      if (closed) throw new Error('Cannot use a pool after it was closed');
      const subscription: Subscription = { channel, onPayload, onReconnect };
      subscriptions.add(subscription);
      // An attempt under way may have listed the channels already, so its end is awaited and the channel added to what it made.
      if (connecting) await connecting;
      const current = client;
      if (current) {
        await execute(current, `listen ${pg.escapeIdentifier(channel)}`).catch((error: unknown) => onConnectionLost(current, error));
      } else if (failures === 0) {
        await connect();
      }
      if (!client) awaitingReconnect.add(subscription);
      return {
        async stop() {
          subscriptions.delete(subscription);
          awaitingReconnect.delete(subscription);
          const stillUsed = [...subscriptions].some((other) => other.channel === channel);
          const open = client;
          if (open && !stillUsed && !closed) {
            await execute(open, `unlisten ${pg.escapeIdentifier(channel)}`).catch((error: unknown) => onConnectionLost(open, error));
          }
        },
      };
    },
    async close() {
      closed = true;
      clearTimeout(timer);
      if (connecting) await connecting;
      const last = client;
      client = null;
      if (last) await last.end();
    },
  };
}

/** Doubles from 100 ms to 5 s, with a fifth of chance so that many processes do not come back in step. */
function pauseMs(failures: number): number {
  const pause = Math.min(maxBackoffMs, initialBackoffMs * 2 ** Math.min(failures - 1, 10));
  return pause * (0.9 + Math.random() * 0.2);
}

/** Ends a connection that is of no use any more; that this fails too is no news. */
function closeQuietly(client: pg.Client): void {
  client.end().catch(() => undefined);
}

/** Calls a listener; its fault must not end the connection or the process. */
export function notifySafely(call: () => void, logger: DatabaseLogger | undefined): void {
  try {
    call();
  } catch (error) {
    logger?.warn({ error: errorMessage(error) }, 'a listener failed');
  }
}
