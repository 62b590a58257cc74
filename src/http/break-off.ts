/**
 * Ends a response that has already started in a way that tells the caller it's incomplete: we send everything that was
 * written, then close the connection without the end of the body.
 */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * We disconnect a caller that reads nothing for this long. Otherwise it could hold on to the vendor's connection
 * forever.
 */
export const readerTimeoutMs = 60_000;

/**
 * Gives the caller time to read the last bytes. Node's `fetch`, for example, discards what it hasn't passed on when the
 * connection ends.
 */
const endDelayMs = 300;

/** A reset also discards data that is still in transit, so we wait longer. */
const resetDelayMs = 1_000;

export function breakOff(response: ServerResponse): void {
  const { socket } = response;
  if (response.destroyed) return;
  if (socket === null) {
    // The response is still queued behind an earlier one on its connection. Right after this event, Node writes what it
    // has buffered, so we wait for the next tick.
    response.once('socket', () => process.nextTick(breakOff, response));
    return;
  }
  // From now on we discard what the caller sends. We couldn't answer further requests, and closing a socket with unread
  // data would reset the connection and lose bytes that the caller hasn't read yet.
  socket.removeAllListeners('data').on('data', () => undefined);
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), readerTimeoutMs);
  socket.once('close', () => clearTimeout(timer));
  // HTTP/1.0 has no chunked encoding. A normal close would look like the end of a complete body, so we reset the
  // connection.
  const isReset = response.req.httpVersion === '1.0';
  socket.write('', () => {
    void sleep(isReset ? resetDelayMs : endDelayMs).then(() => (isReset ? socket.resetAndDestroy() : socket.end()));
  });
}
