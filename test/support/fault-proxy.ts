/**
 * A TCP proxy that fails like a network, between the service and PostgreSQL, Temporal or a vendor. Faults apply to open
 * and new connections.
 */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { unusedPort } from './unused-port.ts';

export interface Faults {
  /** Delays each piece of data in both directions. */
  readonly delayMs?: number;
  /**
   * Simulates a half-open connection: nothing arrives, and neither side learns why. When the fault ends, we reset
   * connections that have lost bytes.
   */
  readonly silent?: boolean;
  /** Resets each connection once the server has sent this many bytes over it. */
  readonly resetAfterBytes?: number;
}

export interface FaultProxy {
  /** The address of the server through the proxy. */
  readonly url: string;
  /** Replaces the faults. Without any, the network works. */
  set(faults: Faults): void;
  /** Accepts connections. */
  connect(): Promise<void>;
  /** Breaks all connections and rejects new ones. */
  sever(): Promise<void>;
}

/** Runs `work` with a proxy to the server at `serverUrl`. The proxy is severed before and after. */
export async function withFaultProxy<Result>(serverUrl: string, work: (proxy: FaultProxy) => Promise<Result>): Promise<Result> {
  const proxy = await createFaultProxy(serverUrl);
  try {
    return await work(proxy);
  } finally {
    await proxy.sever();
  }
}

/**
 * Creates a proxy to the server at `serverUrl`. It stays severed until `connect`, and the caller has to sever it at the
 * end.
 */
export async function createFaultProxy(serverUrl: string): Promise<FaultProxy> {
  const { hostname, port: targetPort } = new URL(serverUrl);
  const sockets = new Set<Socket>();
  let server: Server | null = null;
  let faults: Faults = {};
  const broken = new Set<Socket>();

  const forward = (from: Socket, to: Socket, isFromServer: boolean): void => {
    let sentBytes = 0;
    const network = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        if (faults.silent) {
          broken.add(from).add(to);
          return done();
        }
        const { delayMs = 0, resetAfterBytes = Number.POSITIVE_INFINITY } = faults;
        const allowed = isFromServer ? Math.max(0, resetAfterBytes - sentBytes) : chunk.length;
        sentBytes += chunk.length;
        const pass = (): void => {
          if (chunk.length <= allowed) done(null, chunk);
          else to.write(chunk.subarray(0, allowed), () => to.resetAndDestroy());
        };
        if (delayMs > 0) setTimeout(pass, delayMs);
        else pass();
      },
      flush(done) {
        if (faults.silent) broken.add(from).add(to);
        else done();
      },
    });
    from.pipe(network).pipe(to);
    sockets.add(from);
    from.on('error', () => undefined);
    from.once('close', () => {
      sockets.delete(from);
      // When one side ends the connection, we end the other one, unless it cannot learn about it.
      if (faults.silent) broken.add(to);
      else to.destroy();
    });
  };

  const port = await unusedPort();
  const listen = async (): Promise<void> => {
    server = createServer((client) => {
      const upstream = connect(Number(targetPort || 5432), hostname);
      forward(client, upstream, false);
      forward(upstream, client, true);
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };

  const sever = async (): Promise<void> => {
    if (!server) return;
    const closed = once(server, 'close');
    server.close();
    server = null;
    for (const socket of sockets) socket.destroy();
    await closed;
  };

  const url = new URL(serverUrl);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  return {
    url: url.href,
    set(next) {
      faults = next;
      if (next.silent) return;
      // We cannot reset a socket that has already sent its end, because libuv would keep its handle.
      for (const socket of broken)
        if (socket.writableEnded) socket.destroy();
        else socket.resetAndDestroy();
      broken.clear();
    },
    async connect() {
      if (!server) await listen();
    },
    sever,
  };
}
