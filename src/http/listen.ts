/** Opens and closes the listening socket of the HTTP server. */
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * How many connections can wait to be accepted, unless the operating system sets a lower limit. With Node's default of
 * 511, a busy process reset some of a thousand simultaneous connections.
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
 * Returns a function that closes connections on which nothing has ever been received, such as the spare connections of
 * browsers and load balancers. Node doesn't count them as idle. Call this before the server listens.
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
 * From now on, every response closes its connection. Callers then connect to another process for their next request.
 */
export function endKeptAliveConnections(server: Server): void {
  server.prependListener('request', (_request, response: ServerResponse) => response.setHeader('connection', 'close'));
}

const idleSweepMs = 100;

export interface CloseOptions {
  /** The function that `trackUnusedConnections` has returned. */
  readonly closeUnusedConnections: () => void;
  /** How long running responses can take to complete. */
  readonly drainTimeoutMs: number;
  /** Called after `drainTimeoutMs`. It should cancel whatever the remaining responses are waiting for. */
  readonly onDrainTimeout: () => void;
  /** How long we wait after `onDrainTimeout` before we close the remaining connections. */
  readonly abortTimeoutMs: number;
}

/** Stops accepting connections. Resolves when all responses are complete, or both timeouts have passed. */
export async function closeServer(server: Server, options: CloseOptions): Promise<void> {
  const { closeUnusedConnections, drainTimeoutMs, onDrainTimeout, abortTimeoutMs } = options;
  if (!server.listening) return;
  const closed = once(server, 'close');
  endKeptAliveConnections(server);
  server.close();
  // When a response ends, its connection becomes idle. We close idle connections regularly, because otherwise they'd
  // stay open until the caller closes them.
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
