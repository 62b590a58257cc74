/**
 * A caller may close its sending side behind its request and still wait for the answer (`shutdown(SHUT_WR)`, `nc -N`). On the wire that is what
 * a caller looks like who has left: only what is sent to it tells them apart, since whoever is gone answers with a reset.
 *
 * A plain call needs no such word, it is made and paid for either way. While a stream is silent its caller is asked: before the head by an
 * interim answer (102, RFC 9110 15.2: clients skip those), behind it, between events, by a comment line. Callers who keep their side open get
 * neither.
 */
import type { Server, ServerResponse } from 'node:http';

/** Answers what comes over half-closed connections; the connection ends with its answer. Node leaves this member out of its documentation and types. */
export function allowHalfOpen(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true });
}

/** The second word to a caller who is gone fails, so it must not be late; one who waits is not to be told every moment. */
const initialBackoffMs = 100;
const maxBackoffMs = 10_000;

/** What a stream of events holds that says nothing; other streams have no such thing. */
export const keepAliveComment = ':\n\n';

/**
 * For a call that is streamed: closes `response` soon after its caller has left behind a half-closed connection. `filler` may stand between
 * any two writes; null: there is none, and behind the head only the stream itself tells.
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
  response.once('close', () => {
    clearTimeout(timer);
    socket.off('end', begin);
  });
  if (socket.readableEnded) begin();
  else socket.once('end', begin);
}

function sendProbe(response: ServerResponse, filler: string | null): void {
  // What has not been taken yet is word enough.
  if (response.writableNeedDrain) return;
  if (response.headersSent) {
    if (filler !== null) response.write(filler);
  } else if (response.req.httpVersion === '1.1') {
    response.writeProcessing();
  }
}
