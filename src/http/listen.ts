/** Opens and closes the listening socket of the HTTP server. */
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import { createServer, type ListenOptions, type Server as NetServer, type Socket } from 'node:net';
import { platform } from 'node:os';
import { errorCode } from '../core/error-messages.ts';

/**
 * How many connections can wait for a server to accept them, unless the operating system sets a lower limit. With
 * Node's default of 511, a busy process reset some of a thousand simultaneous connections.
 */
const backlog = 4_096;

/**
 * In each turn of the event loop, Node accepts only one connection per listening socket. If a thousand callers connect
 * at once, the last one has to wait for a thousand turns. So we listen on this many sockets.
 */
const acceptsPerTurn = 16;

/** The additional sockets that listen on the port of a server, by server. */
const otherSockets = new WeakMap<Server, NetServer[]>();

/** Starts listening and returns the URL. Rejects with the operating system's error. */
export async function listenOn(server: Server, host: string, port: number): Promise<string> {
  await listen(server, { port, host, backlog });
  return urlOf(server, host);
}

/**
 * Like `listenOn`, but accepts many connections per turn of the event loop. This only works on Linux, because other
 * systems don't distribute connections among the sockets. Don't use it in a worker of a Node cluster. The parent would
 * listen on behalf of our probe there, and might still occupy the port when we need it.
 */
export async function listenForMany(server: Server, host: string, port: number): Promise<string> {
  if (platform() !== 'linux') return listenOn(server, host, port);
  // Sockets that share a port don't fail if another program shares the port too. So we first open an ordinary socket to
  // find out if the port is free. That isn't necessary if the kernel chooses the port.
  if (port !== 0) {
    const probe = createServer();
    await listen(probe, { port, host });
    await close(probe);
  }
  // Split the backlog, because each socket has its own queue of connections that haven't been accepted yet.
  const shared = { host, backlog: backlog / acceptsPerTurn, reusePort: true };
  try {
    await listen(server, { ...shared, port });
  } catch (error) {
    if (errorCode(error) === 'ENOTSUP') return listenOn(server, host, port);
    throw error;
  }
  const others = Array.from({ length: acceptsPerTurn - 1 }, () =>
    // Use the same options as a socket of an HTTP server.
    createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket)),
  );
  otherSockets.set(server, others);
  const sharedPort = portOf(server);
  await Promise.all(others.map((other) => listen(other, { ...shared, port: sharedPort })));
  return urlOf(server, host);
}

async function listen(server: NetServer, options: ListenOptions): Promise<void> {
  server.listen(options);
  await once(server, 'listening');
}

async function close(server: NetServer): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  await closed;
}

function portOf(server: NetServer): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server is not listening on a port');
  return address.port;
}

function urlOf(server: NetServer, host: string): string {
  const name = host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${portOf(server)}`;
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
  endKeptAliveConnections(server);
  const closed = Promise.all([server, ...(otherSockets.get(server) ?? [])].map(close));
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
