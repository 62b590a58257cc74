/**
 * Holds the embedder's port as long as the service runs, so that no other program can bind it and receive texts.
 * Connections are passed on to the embedder process. If it isn't running, we refuse requests right away, so that
 * callers don't have to wait.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { embedderMessage, type ServiceMessage } from './messages.ts';

const refusal = JSON.stringify({ error: { message: 'the local model is not loaded yet', type: 'server_error', param: null, code: null } });
const connection: ServiceMessage = { kind: 'connection' };

/** Listens on any free port of the loopback address. */
export async function openListener() {
  let receiver: ChildProcess | null = null;
  /**
   * Sockets that this process has to close itself, either because it refuses the connection, or because the embedder
   * process hasn't accepted it yet.
   */
  const held = new Set<Socket>();
  /** Sockets that were sent to the embedder process but haven't been accepted yet, oldest first. */
  let sent: Socket[] = [];
  const closeHeld = (): void => {
    for (const socket of held) socket.destroy();
  };
  const closeAccepted = (data: unknown): void => {
    if (embedderMessage.parse(data).kind === 'accepted') sent.shift()?.destroy();
  };
  const refusing = createHttpServer((request, response) => {
    request.resume();
    response.writeHead(503, { 'content-type': 'application/json', connection: 'close' }).end(refusal);
  });
  const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
    held.add(socket);
    socket.once('close', () => held.delete(socket)).on('error', () => socket.destroy());
    if (!receiver) {
      refusing.emit('connection', socket);
      socket.resume();
      return;
    }
    sent.push(socket);
    // Keep our own handle of the socket open. If the embedder process dies before it receives the socket, Node doesn't
    // close the connection, so we have to.
    receiver.send(connection, socket, { keepOpen: true }, (error) => {
      if (error) socket.destroy();
    });
  });
  server.listen({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server is not listening on a port');
  return {
    port: address.port,
    /** Passes all further connections to the embedder process. If it's null, connections are refused. */
    passTo(next: ChildProcess | null): void {
      receiver?.off('message', closeAccepted);
      receiver = next?.on('message', closeAccepted) ?? null;
      sent = [];
      if (next === null) closeHeld();
    },
    close(): void {
      server.close();
      closeHeld();
    },
  };
}
