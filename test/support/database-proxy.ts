/** A way to a database server that a test can shut and open: while it is shut its connections are broken and new ones refused. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

export interface DatabaseDoor {
  /** The server's address, by way of the door. */
  readonly url: string;
  open(): Promise<void>;
  shut(): Promise<void>;
}

/** Lends a door to the server of `databaseUrl`, shut at first, and shuts it afterwards. */
export async function withDatabaseDoor<Result>(databaseUrl: string, work: (door: DatabaseDoor) => Promise<Result>): Promise<Result> {
  const { hostname, port: targetPort } = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let server: Server | null = null;

  const keep = (socket: Socket, partner: Socket): void => {
    sockets.add(socket);
    // The end of one side is the end of the other; that a broken connection broke is no news.
    socket.on('error', () => undefined);
    socket.once('close', () => {
      sockets.delete(socket);
      partner.destroy();
    });
  };

  const listen = async (port: number): Promise<number> => {
    server = createServer((outside) => {
      const inside = connect(Number(targetPort || 5432), hostname);
      keep(outside, inside);
      keep(inside, outside);
      outside.pipe(inside).pipe(outside);
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
    return address.port;
  };

  const shut = async (): Promise<void> => {
    if (!server) return;
    const closed = once(server, 'close');
    server.close();
    server = null;
    for (const socket of sockets) socket.destroy();
    await closed;
  };

  const port = await listen(0);
  await shut();
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  try {
    return await work({
      url: url.href,
      async open() {
        if (!server) await listen(port);
      },
      shut,
    });
  } finally {
    await shut();
  }
}
