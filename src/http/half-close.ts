/**
 * Detects callers that disconnect after closing their sending side. A caller may half-close the connection
 * (`shutdown(SHUT_WR)`, `nc -N`) and still wait for the response. We can't tell it from a disconnected caller until we
 * send data and get a reset. For a plain JSON response this doesn't matter, since the call is made and charged anyway.
 * While a stream is silent, we send probes to half-closed connections: an interim response before the head (102, RFC
 * 9110 15.2, which clients skip), and comment lines between events after it. See
 * docs/decisions/2026-11-21-half-closed-connections.md.
 */
import type { Server, ServerResponse } from 'node:http';

/**
 * Keeps half-closed connections open until their response ends. Node supports this option, but it's neither documented
 * nor typed.
 */
export function allowHalfOpen(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true });
}

/**
 * Delays a request with `Expect: 100-continue` until all earlier responses on its connection are complete. Otherwise
 * Node would write the interim response after the head of the final response, and clients would read it as part of the
 * body.
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

/** Only the second write to a closed connection fails, so we send the first probes early and then back off. */
const initialBackoffMs = 100;
const maxBackoffMs = 10_000;

/** A comment line of server-sent events. Clients ignore it. */
export const keepAliveComment = ':\n\n';

/**
 * Closes a streamed `response` soon after its caller has disconnected from a half-closed connection. We send `filler`
 * between writes. If it's null because the format has no comments, then after the head we only notice a disconnect when
 * the stream itself writes.
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
  // We use `on` because `once` costs another 180 bytes per listener (measured) and these events only fire once anyway.
  response.on('close', () => {
    clearTimeout(timer);
    socket.off('end', begin);
  });
  if (socket.readableEnded) begin();
  else socket.on('end', begin);
}

/** Calls `disconnected` if the caller disconnects before the response is complete. */
export function onClientDisconnect(response: ServerResponse, disconnected: () => void): void {
  response.on('close', () => {
    // A complete response emits `close` too. Cancelling at that point would close a vendor connection that can be
    // reused.
    if (!response.writableFinished) disconnected();
  });
}

/** Returns a signal that is aborted if the client of a non-streamed response disconnects. */
export function whenDisconnected(response: ServerResponse): AbortSignal {
  const disconnected = new AbortController();
  onClientDisconnect(response, () => disconnected.abort());
  detectAbandonedStream(response, null);
  return disconnected.signal;
}

function sendProbe(response: ServerResponse, filler: string | null): void {
  // Unsent data already serves as a probe. A response without a socket is queued behind another one on its connection,
  // and Node would write the interim response after the head of that one.
  if (response.writableNeedDrain || response.socket === null) return;
  if (response.headersSent) {
    if (filler !== null) response.write(filler);
  } else if (response.req.httpVersion === '1.1') {
    response.writeProcessing();
  }
}
