/** A TCP proxy to a database server that a test can sever: then its connections are broken and new ones are refused. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { unusedPort } from './unused-port.ts';

export interface DatabaseProxy {
  /** The server's address by way of the proxy. */
  readonly url: string;
  connect(): Promise<void>;
  sever(): Promise<void>;
}

/** Runs `work` with a proxy to the server of `databaseUrl`; it is severed before and after. */
export async function withDatabaseProxy<Result>(databaseUrl: string, work: (proxy: DatabaseProxy) => Promise<Result>): Promise<Result> {
  const { hostname, port: targetPort } = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let server: Server | null = null;

  const track = (socket: Socket, partner: Socket): void => {
    sockets.add(socket);
    // The end of one side ends the other, whether it was closed or broken.
    socket.on('error', () => undefined);
    socket.once('close', () => {
      sockets.delete(socket);
      partner.destroy();
    });
  };

  const port = await unusedPort();
  const listen = async (): Promise<void> => {
    server = createServer((client) => {
      const upstream = connect(Number(targetPort || 5432), hostname);
      track(client, upstream);
      track(upstream, client);
      client.pipe(upstream).pipe(client);
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

  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  try {
    return await work({
      url: url.href,
      async connect() {
        if (!server) await listen();
      },
      sever,
    });
  } finally {
    await sever();
  }
}
