/**
 * Detects callers that disconnect after closing their sending side. A caller can half-close the connection
 * (`shutdown(SHUT_WR)`, `nc -N`) and still wait for the response. We only find out that it has disconnected when we
 * send data and get a reset. For plain JSON responses this doesn't matter, because the vendor charges for the call
 * anyway. On streams that are silent, we send probes to half-closed connections. Before the head this is an interim
 * response (102, RFC 9110 15.2), which clients ignore, and after the head a comment line between events. See
 * docs/decisions/2026-11-21-half-closed-connections.md.
 */
import type { Server, ServerResponse } from 'node:http';

/**
 * Keeps half-closed connections open until the response ends. Node's option for this is neither documented nor typed.
 */
export function allowHalfOpen(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true });
}

/**
 * Delays requests with `Expect: 100-continue` until all earlier responses on the same connection are complete.
 * Otherwise Node would write the interim response into the body of an earlier response.
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

/**
 * The first write to a closed connection still succeeds, and only the second one fails. So we send the first probes
 * soon after each other, and then back off.
 */
const initialBackoffMs = 100;
const maxBackoffMs = 10_000;

/** A comment in the format of server-sent events. Clients ignore it, so it only keeps the connection alive. */
export const keepAliveComment = ':\n\n';

/**
 * If the caller of a stream has half-closed its connection, closes the response soon after the caller disconnects. To
 * find out, we send `filler` between writes. Pass null if the format has no comments. In that case, once we've sent the
 * head, we only notice a disconnect when the stream writes something.
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
  // Use `on`, because `once` needs another 180 bytes per listener (measured), and these events only fire once anyway.
  response.on('close', () => {
    clearTimeout(timer);
    socket.off('end', begin);
  });
  if (socket.readableEnded) begin();
  else socket.on('end', begin);
}

export function onClientDisconnect(response: ServerResponse, disconnected: () => void): void {
  response.on('close', () => {
    // `close` also fires after a complete response. Cancelling the call then would close a vendor connection that could
    // be reused.
    if (!response.writableFinished) disconnected();
  });
}

/**
 * Use this for plain responses. The signal is aborted if the client disconnects before it has received the whole
 * response.
 */
export function whenDisconnected(response: ServerResponse): AbortSignal {
  const disconnected = new AbortController();
  onClientDisconnect(response, () => disconnected.abort());
  detectAbandonedStream(response, null);
  return disconnected.signal;
}

function sendProbe(response: ServerResponse, filler: string | null): void {
  // If the response has unsent data, that data works as a probe, so we don't need another one. If it has no socket,
  // it's still queued behind an earlier response, and an interim response would be written into the middle of that one.
  if (response.writableNeedDrain || response.socket === null) return;
  if (response.headersSent) {
    if (filler !== null) response.write(filler);
  } else if (response.req.httpVersion === '1.1') {
    response.writeProcessing();
  }
}
