/**
 * Uses one dedicated connection to LISTEN on all channels of a process. A periodic query detects connections that were
 * silently dropped, e.g. by a firewall. After any error we reconnect with backoff, subscribe to all channels again, and
 * call `onReconnect`, because notifications may have been missed. Modelled on https://github.com/timgit/pg-boss
 * (src/db.ts).
 *
 * Each check also sends a notification to ourselves over another connection. With some poolers it never arrives,
 * because they share connections between transactions. In that case we call `onReconnect` on each check, so that
 * subscribers fall back to polling.
 */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { createBackgroundLoop } from '../core/background-loop.ts';
import { errorMessage } from '../core/error-messages.ts';
import type { DatabaseLogger } from './connections.ts';
import type { Database } from './database.ts';
import type { OutageMonitor } from './outage.ts';

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
  readonly outage: Pick<OutageMonitor, 'failed' | 'responded' | 'connectionLost'>;
  /** Sends a notification. This must not use the connection that listens. */
  readonly notify: (channel: string, payload: string) => Promise<unknown>;
}

const checkChannel = 'gateway_listening';
/**
 * We start polling once this many notifications to ourselves in a row haven't arrived. A single one doesn't mean
 * anything, because a busy process may just receive it late.
 */
const missedChecks = 2;

export function createListener(options: ListenerOptions): { listen: Database['listen']; close(): Promise<void> } {
  const { outage } = options;
  const subscriptions = new Set<Subscription>();
  let client: pg.Client | null = null;
  let closed = false;
  /** Subscriptions that may have missed notifications and whose `onReconnect` hasn't been called yet. */
  const awaitingReconnect = new Set<Subscription>();
  let lastStatement: Promise<unknown> = Promise.resolve();
  const ownId = randomUUID();
  /** How many of our self-notifications in a row haven't come back. */
  let missed = 0;

  /**
   * Runs one statement at a time, because `pg` deprecates queries on a busy client and will reject them from version 9
   * on. Never rejects.
   */
  const execute = (connection: pg.Client, text: string): Promise<unknown> => {
    lastStatement = lastStatement
      .then(() => connection.query(text))
      .then(outage.responded, (error: unknown) => {
        if (client === connection) outage.failed(error);
        discard(connection);
      });
    return lastStatement;
  };

  const discard = (lostClient: pg.Client): void => {
    if (client !== lostClient) return;
    client = null;
    for (const subscription of subscriptions) awaitingReconnect.add(subscription);
    closeQuietly(lostClient);
    loop.wake();
  };

  const connect = async (signal: AbortSignal): Promise<void> => {
    const candidate = new pg.Client({ ...options.connection, query_timeout: options.connectTimeoutMs });
    const onConnectionLost = (error: Error): void => {
      if (client === candidate) outage.connectionLost(error);
      discard(candidate);
    };
    candidate.on('error', onConnectionLost);
    candidate.on('end', () => onConnectionLost(new Error('the server closed the connection')));
    candidate.on('notification', ({ channel, payload }) => {
      if (channel === checkChannel && payload === ownId) missed = 0;
      for (const subscription of [...subscriptions]) {
        if (subscription.channel === channel) notifySafely(() => subscription.onPayload(payload ?? ''), options.logger);
      }
    });
    try {
      await candidate.connect();
      for (const channel of new Set([checkChannel, ...[...subscriptions].map((subscription) => subscription.channel)])) {
        await candidate.query(`listen ${pg.escapeIdentifier(channel)}`);
      }
    } catch (error) {
      closeQuietly(candidate);
      throw error;
    }
    if (signal.aborted) return closeQuietly(candidate);
    client = candidate;
    outage.responded();
    missed = 0;
    const reconnected = [...awaitingReconnect];
    awaitingReconnect.clear();
    for (const subscription of reconnected) if (subscription.onReconnect) notifySafely(subscription.onReconnect, options.logger);
  };

  const checkDelivery = (): void => {
    if (missed >= missedChecks) {
      if (missed === missedChecks) options.logger?.warn({}, 'database notifications not arriving; polling instead');
      for (const { onReconnect } of [...subscriptions]) if (onReconnect) notifySafely(onReconnect, options.logger);
    }
    // When the notification arrives, it resets this count. That may happen before `notify` returns, so increment the
    // count first.
    missed += 1;
    // Don't await `notify`. It uses another connection, which may hang for a long time, and meanwhile we wouldn't
    // notice if the listening connection is lost.
    options.notify(checkChannel, ownId).catch(() => {
      // If we can't send the notification, the database is unavailable. That's reported elsewhere, and it doesn't mean
      // that notifications get lost.
      missed = 0;
    });
  };

  const loop = createBackgroundLoop({
    async run(signal) {
      await (client ? execute(client, 'select 1') : connect(signal));
      if (client && !signal.aborted) checkDelivery();
      return 'idle';
    },
    intervalMs: options.heartbeatMs,
    // Add jitter, so that processes don't all reconnect at the same time.
    backoff: { initialMs: 100, maxMs: 5_000, jitter: 0.1 },
    onFailure: outage.failed,
  });

  return {
    async listen(channel, onPayload, onReconnect) {
      if (closed) throw new Error('Cannot use a pool after it was closed');
      const subscription: Subscription = { channel, onPayload, onReconnect };
      subscriptions.add(subscription);
      // A connection attempt that's in progress may already have read the list of channels, so wait until it's done.
      await loop.idle();
      if (client) {
        await execute(client, `listen ${pg.escapeIdentifier(channel)}`);
      } else if (!loop.isFailing) {
        loop.start();
        // If this fails, the loop logs the error and keeps trying in the background.
        await loop.runNow().catch(() => undefined);
      }
      if (!client) awaitingReconnect.add(subscription);
      return {
        async stop() {
          subscriptions.delete(subscription);
          awaitingReconnect.delete(subscription);
          const stillUsed = [...subscriptions].some((other) => other.channel === channel);
          if (client && !stillUsed && !closed) await execute(client, `unlisten ${pg.escapeIdentifier(channel)}`);
        },
      };
    },
    async close() {
      closed = true;
      await loop.stop();
      const last = client;
      client = null;
      if (last) await last.end();
    },
  };
}

/** Closes a connection that has already failed. Errors don't matter. */
function closeQuietly(client: pg.Client): void {
  client.end().catch(() => undefined);
}

/** Calls a listener, and logs its errors so that they can't close the connection or crash the process. */
export function notifySafely(call: () => void, logger: DatabaseLogger | undefined): void {
  try {
    call();
  } catch (error) {
    logger?.warn({ err: errorMessage(error) }, 'failed to handle a database notification');
  }
}
