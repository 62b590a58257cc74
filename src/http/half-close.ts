/**
 * Detects callers that disconnected after closing their sending side. A caller may close it (`shutdown(SHUT_WR)`, `nc -N`) and still wait
 * for the response; a disconnected caller is indistinguishable until data sent to it returns a reset.
 *
 * A JSON response needs no probe: the call is made and charged either way. While a stream is silent, probes are sent: before the head an
 * interim response (102, RFC 9110 15.2, which clients skip), after it, between events, a comment line. Callers with an open sending side get
 * neither. See docs/decisions/2026-11-21-half-closed-connections.md.
 */
import type { Server, ServerResponse } from 'node:http';

/** Keeps half-closed connections open until their response ends. Node neither documents nor types this option. */
export function allowHalfOpen(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true });
}

/**
 * Holds back a request with `Expect: 100-continue` until all earlier responses on its connection are complete.
 * Otherwise Node would write the interim response after the head of the final response, where clients would read it
 * as the body.
 */
export function continueInOrder(server: Server): void {
  server.on('checkContinue', (request, response) => {
    const handle = (): void => {
      response.writeContinue();
      server.emit('request', request, response);
    };
    if (response.socket !== null) handle();
    else response.once('socket', handle);
  });
}

/** After the peer has closed, only the second write fails, so the first probes are sent early; later ones back off. */
const initialBackoffMs = 100;
const maxBackoffMs = 10_000;

/** A comment line of server-sent events, which clients ignore. */
export const keepAliveComment = ':\n\n';

/**
 * Closes a streamed `response` soon after its caller has disconnected from a half-closed connection. `filler` is sent between writes; null
 * when the format has none, so that after the head only the stream itself detects a disconnect.
 */
export function detectAbandonedStream(response: ServerResponse, filler: string | null): void {
  const { socket } = response.req;
  let timer: NodeJS.Timeout | undefined;
  const probe = (pauseMs: number): void => {
    if (response.writableEnded || response.destroyed) return;
    sendProbe(response, filler);
    timer = setTimeout(probe, pauseMs, Math.min(2 * pauseMs, maxBackoffMs));
  };
  const begin = (): void => probe(initialBackoffMs);
  // Not `once`, which adds 180 bytes per listener (measured): these events are emitted once anyway.
  response.on('close', () => {
    clearTimeout(timer);
    socket.off('end', begin);
  });
  if (socket.readableEnded) begin();
  else socket.on('end', begin);
}

/** Calls `disconnected` when the caller disconnects before the response is complete. */
export function onClientDisconnect(response: ServerResponse, disconnected: () => void): void {
  response.on('close', () => {
    // A complete response emits `close` too; cancelling then would close a reusable vendor connection.
    if (!response.writableFinished) disconnected();
  });
}

/** Returns a signal that is aborted when the client of a non-streamed response disconnects. */
export function whenDisconnected(response: ServerResponse): AbortSignal {
  const disconnected = new AbortController();
  onClientDisconnect(response, () => disconnected.abort());
  detectAbandonedStream(response, null);
  return disconnected.signal;
}

function sendProbe(response: ServerResponse, filler: string | null): void {
  // Unsent data already serves as a probe. A response without a socket waits for another one of its connection: Node would write the interim
  // response after its head.
  if (response.writableNeedDrain || response.socket === null) return;
  if (response.headersSent) {
    if (filler !== null) response.write(filler);
  } else if (response.req.httpVersion === '1.1') {
    response.writeProcessing();
  }
}
