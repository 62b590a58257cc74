/** Opens and closes the listening socket of the HTTP server. */
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';

/**
 * Maximum number of connections waiting to be accepted; the operating system's limit applies too. With Node's default of 511 some of a
 * thousand simultaneous connections to a busy process were reset.
 */
const backlog = 4_096;

/** Listens and returns the URL. Rejects with the operating system's error. */
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
  /** Time that responses in progress have to complete. */
  readonly drainTimeoutMs: number;
  /** Called after that time, to cancel what the remaining responses wait for. */
  readonly onDrainTimeout: () => void;
  /** Further time before their connections are closed. */
  readonly abortTimeoutMs: number;
}

/** Accepts no more connections and resolves when all responses are complete or both timeouts have passed. */
export async function closeServer(server: Server, { drainTimeoutMs, onDrainTimeout, abortTimeoutMs }: CloseTimeouts): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  // Callers with a kept-alive connection reconnect, to another process, for their next request.
  server.prependListener('request', (_request, response: ServerResponse) => response.setHeader('connection', 'close'));
  server.close();
  // Connections become idle when their response ends; without the sweep they stay open until their callers close them.
  const sweep = setInterval(() => server.closeIdleConnections(), idleSweepMs);
  const limit = setTimeout(onDrainTimeout, drainTimeoutMs);
  const cut = setTimeout(() => server.closeAllConnections(), drainTimeoutMs + abortTimeoutMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(limit);
  clearTimeout(cut);
}
