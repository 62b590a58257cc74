/**
 * A TCP proxy that fails as networks do, between the service and PostgreSQL, Temporal or a vendor. Faults apply to connections that are open
 * and to new ones.
 */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { unusedPort } from './unused-port.ts';

export interface Faults {
  /** Each piece arrives this much later, in both directions. */
  readonly delayMs?: number;
  /** Half-open: nothing arrives, and neither side learns why. A connection that lost bytes is reset at the end of this fault. */
  readonly silent?: boolean;
  /** Each connection is reset when the server has sent this many bytes over it. */
  readonly resetAfterBytes?: number;
}

export interface FaultProxy {
  /** The server's address by way of the proxy. */
  readonly url: string;
  /** Replaces the faults; without any the network works. */
  set(faults: Faults): void;
  /** Accepts connections. */
  connect(): Promise<void>;
  /** Breaks all connections and refuses new ones. */
  sever(): Promise<void>;
}

/** Runs `work` with a proxy to the server of `serverUrl`; it is severed before and after. */
export async function withFaultProxy<Result>(serverUrl: string, work: (proxy: FaultProxy) => Promise<Result>): Promise<Result> {
  const proxy = await createFaultProxy(serverUrl);
  try {
    return await work(proxy);
  } finally {
    await proxy.sever();
  }
}

/** A proxy to the server of `serverUrl`: severed until `connect`, and to be severed in the end. */
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
      // The end of one side ends the other, unless it cannot learn of it.
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
      // A socket that has sent its end cannot be reset: libuv would keep its handle.
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
