/**
 * Writes a response to the socket. Finishes when everything is written, or when the client disconnects. Even if the
 * client is slow, we never buffer more than one event.
 */
import type { ServerResponse } from 'node:http';
import type { DemoResponse } from './response.ts';
import { waitFor, waitMs } from './wait.ts';

export interface Delivery {
  readonly headers: Readonly<Record<string, string>>;
  /** How long to wait between two deltas of a stream. */
  readonly paceMs: number;
  /** The number of deltas after which we close the connection. */
  readonly breakAfter: number;
}

export async function writeResponse(response: ServerResponse, outgoing: DemoResponse, delivery: Delivery): Promise<void> {
  const { headers, paceMs, breakAfter } = delivery;
  if (outgoing.kind === 'body') {
    response.writeHead(outgoing.status, { ...headers, ...outgoing.headers, 'content-length': String(Buffer.byteLength(outgoing.body)) });
    response.end(outgoing.body);
    return;
  }
  const { opening, deltas, closing } = outgoing.stream;
  response.writeHead(200, { ...headers, ...streamHeaders });
  response.flushHeaders();
  for (const event of opening) await writePart(response, event);
  let written = 0;
  for (const event of deltas) {
    if (response.destroyed) return;
    if (written === breakAfter) break;
    if (paceMs > 0 && written > 0) await waitMs(response, paceMs);
    await writePart(response, event);
    written += 1;
  }
  if (breakAfter !== Infinity) return endSocket(response);
  for (const event of closing) await writePart(response, event);
  response.end();
}

export const streamHeaders = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' };

/** Resolves when the client can take the next part, or when it has disconnected. */
export async function writePart(response: ServerResponse, part: string | Buffer): Promise<void> {
  if (response.destroyed || response.write(part)) return;
  await waitFor(response, (done) => {
    response.once('drain', done);
    return () => response.off('drain', done);
  });
}

/**
 * Closes the connection as if the vendor had crashed. The client gets everything that we've written, but not the end of
 * the response.
 */
export function endSocket(response: ServerResponse): void {
  // Node keeps the head and the last chunk in a buffer until the next iteration of the event loop. If we close the
  // socket before that, the client never gets them.
  setImmediate(() => response.socket?.destroySoon());
}
