/** Starts and ends the HTTP server's listening. */
import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';

/** Listens; returns the address. Rejects with the system's error when it cannot. */
export async function listenOn(server: Server, host: string, port: number): Promise<string> {
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  const name = host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${address.port}`;
}

const idleSweepMs = 100;

/** Accepts no more, lets running answers end, and cuts what is left after `limitMs`. */
export async function closeServer(server: Server, limitMs: number): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  // A caller that keeps its connection asks elsewhere next time.
  server.prependListener('request', (_request, response: ServerResponse) => response.setHeader('connection', 'close'));
  server.close();
  // Connections whose answer was under way become idle later; without this they would be waited for until their callers gave them up.
  const sweep = setInterval(() => server.closeIdleConnections(), idleSweepMs);
  const cut = setTimeout(() => server.closeAllConnections(), limitMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(cut);
}
