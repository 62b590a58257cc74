/** A server that a test starts, so that the code under test can talk to it. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { listenOn } from '../../src/http/listen.ts';

export interface LocalServer {
  readonly url: string;
  /** Closes the server and all open connections. */
  close(): Promise<void>;
}

/** Listens on a free port of the loopback interface. */
export async function startLocalServer(respond: RequestListener): Promise<LocalServer> {
  const server = createServer(respond);
  const url = await listenOn(server, '127.0.0.1', 0);
  return {
    url,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
