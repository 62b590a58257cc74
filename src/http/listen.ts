/** Starts and ends the HTTP server's listening. */
import { once } from 'node:events';
import type { Server } from 'node:http';

/** Listens; returns the address. Rejects with the system's error when it cannot. */
export async function listenOn(server: Server, host: string, port: number): Promise<string> {
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  const name = host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${address.port}`;
}

/** Accepts no more, lets running answers end, and cuts what is left after `limitMs`. */
export async function closeServer(server: Server, limitMs: number): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  server.close();
  server.closeIdleConnections();
  const cut = setTimeout(() => server.closeAllConnections(), limitMs);
  await closed;
  clearTimeout(cut);
}
