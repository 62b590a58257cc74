import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** How many requests may wait for earlier ones of their connection. No SDK pipelines requests, and few clients do. */
const maxPipelined = 32;

/**
 * Closes connections that pipeline more than 32 requests (RFC 9112 9.3.2 allows this, and clients then repeat the
 * unanswered ones). Node reads all requests that have arrived on a connection before other events get their turn, so a
 * single connection with thousands of requests could delay everyone else by seconds.
 */
export function limitPipelining(server: Server): void {
  const waiting = new WeakMap<Socket, number>();
  const count = (request: IncomingMessage, response: ServerResponse): void => {
    // A response gets its socket when all earlier ones of the connection are complete.
    if (response.socket !== null) return;
    const { socket } = request;
    const waitingNow = (waiting.get(socket) ?? 0) + 1;
    waiting.set(socket, waitingNow);
    response.once('socket', () => waiting.set(socket, (waiting.get(socket) ?? 1) - 1));
    if (waitingNow > maxPipelined) socket.destroy();
  };
  server.prependListener('request', count);
  server.prependListener('checkContinue', count);
}
