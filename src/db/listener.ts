/**
 * LISTEN on a connection of its own, for all channels of a process. A heartbeat notices a connection that died in silence (a firewall that
 * forgot it sends no reset); then, or on any error, it connects again with growing pauses, listens on every channel anew and tells
 * each listener, since what was notified meanwhile is lost. Made after pg-boss, `src/db.ts`.
 */
import pg from 'pg';
import { messageOf } from '../core/error-messages.ts';
import type { DatabaseLogger } from './connections.ts';
import type { Database } from './database.ts';

interface Registration {
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

const firstPauseMs = 100;
const longestPauseMs = 5_000;

export function createListener(options: ListenerOptions): { listen: Database['listen']; close(): Promise<void> } {
  const registrations = new Set<Registration>();
  let client: pg.Client | null = null;
  let connecting: Promise<void> | null = null;
  let timer: NodeJS.Timeout | undefined;
  let failures = 0;
  let closed = false;
  /** Registrations made while there was no connection must be told when there is one; so must all after a loss. */
  const uninformed = new Set<Registration>();
  /** The end of what was asked last. */
  let asked: Promise<unknown> = Promise.resolve();

  /** One statement at a time: pg warns of a client that is asked while it answers, and from its version 9 on will refuse. */
  const ask = (on: pg.Client, text: string): Promise<unknown> => {
    const answer = asked.then(() => on.query(text));
    asked = answer.catch(() => undefined); // Whoever asked is told.
    return answer;
  };

  const lose = (lost: pg.Client, error: unknown): void => {
    if (client !== lost) return;
    client = null;
    options.logger?.warn({ error: messageOf(error) }, 'LISTEN connection lost');
    for (const registration of registrations) uninformed.add(registration);
    endQuietly(lost);
    later(0);
  };

  const later = (delayMs: number): void => {
    clearTimeout(timer);
    if (closed) return;
    timer = setTimeout(() => void (client ? beat(client) : connect()), delayMs);
    timer.unref();
  };

  const beat = async (current: pg.Client): Promise<void> => {
    try {
      await ask(current, 'select 1');
      later(options.heartbeatMs);
    } catch (error) {
      lose(current, error);
    }
  };

  const attempt = async (): Promise<void> => {
    const fresh = new pg.Client({ ...options.connection, query_timeout: options.connectTimeoutMs });
    fresh.on('error', (error) => lose(fresh, error));
    fresh.on('end', () => lose(fresh, new Error('the server closed the connection')));
    fresh.on('notification', ({ channel, payload }) => {
      for (const registration of [...registrations]) {
        if (registration.channel === channel) callSafely(() => registration.onPayload(payload ?? ''), options.logger);
      }
    });
    try {
      await fresh.connect();
      for (const channel of new Set([...registrations].map((registration) => registration.channel))) {
        await fresh.query(`listen ${pg.escapeIdentifier(channel)}`);
      }
    } catch (error) {
      endQuietly(fresh);
      failures += 1;
      if (failures === 1) options.logger?.warn({ error: messageOf(error) }, 'cannot LISTEN; trying again');
      later(pauseMs(failures));
      return;
    }
    if (closed) {
      endQuietly(fresh);
      return;
    }
    client = fresh;
    failures = 0;
    const informed = [...uninformed];
    uninformed.clear();
    for (const registration of informed) if (registration.onReconnect) callSafely(registration.onReconnect, options.logger);
    later(options.heartbeatMs);
  };

  const connect = (): Promise<void> => {
    connecting ??= attempt().finally(() => {
      connecting = null;
    });
    return connecting;
  };

  return {
    async listen(channel, onPayload, onReconnect) {
      if (closed) throw new Error('Cannot use a pool after it was closed');
      const registration: Registration = { channel, onPayload, onReconnect };
      registrations.add(registration);
      // An attempt under way may have listed the channels already, so its end is awaited and the channel added to what it made.
      if (connecting) await connecting;
      const current = client;
      if (current) {
        await ask(current, `listen ${pg.escapeIdentifier(channel)}`).catch((error: unknown) => lose(current, error));
      } else if (failures === 0) {
        await connect();
      }
      if (!client) uninformed.add(registration);
      return {
        async stop() {
          registrations.delete(registration);
          uninformed.delete(registration);
          const stillUsed = [...registrations].some((other) => other.channel === channel);
          const open = client;
          if (open && !stillUsed && !closed) {
            await ask(open, `unlisten ${pg.escapeIdentifier(channel)}`).catch((error: unknown) => lose(open, error));
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
  const pause = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(failures - 1, 10));
  return pause * (0.9 + Math.random() * 0.2);
}

/** Ends a connection that is of no use any more; that this fails too is no news. */
function endQuietly(client: pg.Client): void {
  client.end().catch(() => undefined);
}

/** Calls a listener; its fault must not end the connection or the process. */
export function callSafely(call: () => void, logger: DatabaseLogger | undefined): void {
  try {
    call();
  } catch (error) {
    logger?.warn({ error: messageOf(error) }, 'a listener failed');
  }
}
