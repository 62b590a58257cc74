/** Starts and ends the HTTP server's listening. */
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';

/**
 * Connections that may wait to be accepted; the system's own bound holds too. With Node's 511 a crowd of a thousand callers that came in one
 * moment, while the process was busy, had some of its connections reset.
 */
const backlog = 4_096;

/** Listens; returns the address. Rejects with the system's error when it cannot. */
export async function listenOn(server: Server, host: string, port: number): Promise<string> {
  server.listen({ port, host, backlog });
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  const name = host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${address.port}`;
}

const idleSweepMs = 100;

export interface CloseTimeouts {
  /** How long running answers may take to end by themselves. */
  readonly drainTimeoutMs: number;
  /** Told then: ends what the rest of them wait for. */
  readonly onDrainTimeout: () => void;
  /** How long they may take to end after that, before their connections are cut. */
  readonly abortTimeoutMs: number;
}

/** Accepts no more and lets running answers end, within both limits. */
export async function closeServer(server: Server, { drainTimeoutMs, onDrainTimeout, abortTimeoutMs }: CloseTimeouts): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  // A caller that keeps its connection asks elsewhere next time.
  server.prependListener('request', (_request, response: ServerResponse) => response.setHeader('connection', 'close'));
  server.close();
  // Connections whose answer was under way become idle later; without this they would be waited for until their callers gave them up.
  const sweep = setInterval(() => server.closeIdleConnections(), idleSweepMs);
  const limit = setTimeout(onDrainTimeout, drainTimeoutMs);
  const cut = setTimeout(() => server.closeAllConnections(), drainTimeoutMs + abortTimeoutMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(limit);
  clearTimeout(cut);
}
