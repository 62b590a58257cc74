/** Opens and closes the listening socket of the HTTP server. */
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * The maximum number of connections that wait to be accepted, unless the operating system's limit is lower. With Node's
 * default of 511, some of a thousand simultaneous connections to a busy process were reset.
 */
const backlog = 4_096;

/** Starts listening and returns the URL. Rejects with the operating system's error. */
export async function listenOn(server: Server, host: string, port: number): Promise<string> {
  server.listen({ port, host, backlog });
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  const name = host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${address.port}`;
}

/**
 * Returns a function that closes connections on which nothing was ever received, e.g. the spare connections of browsers
 * and load balancers. Node doesn't count them as idle. Call this before the server listens.
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

/**
 * Makes each response close its connection from now on, so that callers reconnect to another process for their next
 * request.
 */
export function endKeptAliveConnections(server: Server): void {
  server.prependListener('request', (_request, response: ServerResponse) => response.setHeader('connection', 'close'));
}

const idleSweepMs = 100;

export interface CloseOptions {
  /** The function that `trackUnusedConnections` returned. */
  readonly closeUnusedConnections: () => void;
  /** How long responses in progress may take to complete. */
  readonly drainTimeoutMs: number;
  /** Called after that time to cancel whatever the remaining responses are waiting for. */
  readonly onDrainTimeout: () => void;
  /** How much longer we wait before we close their connections. */
  readonly abortTimeoutMs: number;
}

/** Stops accepting connections. Resolves when all responses are complete or both timeouts have passed. */
export async function closeServer(server: Server, options: CloseOptions): Promise<void> {
  const { closeUnusedConnections, drainTimeoutMs, onDrainTimeout, abortTimeoutMs } = options;
  if (!server.listening) return;
  const closed = once(server, 'close');
  endKeptAliveConnections(server);
  server.close();
  // A connection becomes idle when its response ends. Without the sweep it would stay open until the caller closes it.
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
