/** Opens and closes the listening socket of the HTTP server. */
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

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

/**
 * Returns a function that closes connections over which nothing was received, such as the spare ones of browsers and load balancers. Node
 * does not count them as idle. Call it before the server listens.
 */
export function trackUnusedConnections(server: Server): () => void {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return () => {
    for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  };
}

/** From now on each response ends its connection: callers reconnect, to another process, for their next request. */
export function endKeptAliveConnections(server: Server): void {
  server.prependListener('request', (_request, response: ServerResponse) => response.setHeader('connection', 'close'));
}

const idleSweepMs = 100;

export interface CloseOptions {
  /** From `trackUnusedConnections`. */
  readonly closeUnusedConnections: () => void;
  /** Time that responses in progress have to complete. */
  readonly drainTimeoutMs: number;
  /** Called after that time, to cancel what the remaining responses wait for. */
  readonly onDrainTimeout: () => void;
  /** Further time before their connections are closed. */
  readonly abortTimeoutMs: number;
}

/** Accepts no more connections and resolves when all responses are complete or both timeouts have passed. */
export async function closeServer(server: Server, options: CloseOptions): Promise<void> {
  const { closeUnusedConnections, drainTimeoutMs, onDrainTimeout, abortTimeoutMs } = options;
  if (!server.listening) return;
  const closed = once(server, 'close');
  endKeptAliveConnections(server);
  server.close();
  // Connections become idle when their response ends; without the sweep they stay open until their callers close them.
  const sweep = setInterval(() => {
    server.closeIdleConnections();
    closeUnusedConnections();
  }, idleSweepMs);
  const limit = setTimeout(onDrainTimeout, drainTimeoutMs);
  const cut = setTimeout(() => server.closeAllConnections(), drainTimeoutMs + abortTimeoutMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(limit);
  clearTimeout(cut);
}
