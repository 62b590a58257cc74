/** Holds the embedder's port while its process does not run, and refuses every request at once: no caller waits, and no other program gets texts. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';

export interface StandIn {
  /** Listens on the port, at the first time on a free one. Rejects when another program has taken it. */
  open(): Promise<void>;
  close(): Promise<void>;
  port(): number;
}

const refusal = JSON.stringify({ error: { message: 'the local model is not loaded yet', type: 'server_error', param: null, code: null } });

export function createStandIn(): StandIn {
  let server: Server | null = null;
  let port = 0;
  return {
    async open() {
      if (server) return;
      const opening = createServer((request, response) => {
        request.resume();
        response.writeHead(503, { 'content-type': 'application/json', connection: 'close' }).end(refusal);
      });
      opening.listen({ host: '127.0.0.1', port });
      await once(opening, 'listening');
      const address = opening.address();
      port = typeof address === 'object' && address !== null ? address.port : port;
      server = opening;
    },
    async close() {
      if (!server) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      server = null;
      await closed;
    },
    port: () => port,
  };
}
