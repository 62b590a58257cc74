/**
 * A TCP proxy between the service and PostgreSQL, Temporal or a vendor. It can fail in the same ways as a network.
 * Faults apply to open connections as well as new ones.
 */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { unusedPort } from './unused-port.ts';

export interface Faults {
  /** Delays data in both directions. */
  readonly delayMs?: number;
  /**
   * Simulates a half-open connection. Neither side gets any more data or learns that the connection is broken. When you
   * remove this fault, we reset the connections that have lost data.
   */
  readonly silent?: boolean;
  /** Resets each connection after the server has sent this many bytes over it. */
  readonly resetAfterBytes?: number;
}

export interface FaultProxy {
  /** The server's URL, but with the address of the proxy. */
  readonly url: string;
  /** Replaces all faults. Without faults, the network works. */
  set(faults: Faults): void;
  /** Accepts connections from now on. */
  connect(): Promise<void>;
  /** Breaks all connections and rejects new ones. */
  sever(): Promise<void>;
}

/** Runs `work` with a proxy to this server. Nobody can connect before or after that. */
export async function withFaultProxy<Result>(serverUrl: string, work: (proxy: FaultProxy) => Promise<Result>): Promise<Result> {
  const proxy = await createFaultProxy(serverUrl);
  try {
    return await work(proxy);
  } finally {
    await proxy.sever();
  }
}

/**
 * Creates a proxy to the server at `serverUrl`. It doesn't accept connections until you call `connect`. The caller has
 * to call `sever` at the end.
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
      // If one side hangs up, so do we on the other side. With `silent`, the other side isn't supposed to notice.
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
      // If we reset a socket whose end we've already sent, libuv would keep its handle.
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
