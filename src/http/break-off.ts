/**
 * Breaks off a response that has already started, in such a way that the caller notices. We still send everything that
 * was written, but then we close the connection without marking the end of the body.
 */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * If a caller doesn't read anything for this long, we disconnect it. Otherwise it could block the vendor's connection
 * forever.
 */
export const readerTimeoutMs = 60_000;

/**
 * How long we give the caller to read the last bytes. Some clients, such as Node's `fetch`, discard unread data when
 * the connection ends.
 */
const endDelayMs = 300;

/** This is longer than `endDelayMs` because a reset discards data that's still on its way to the caller. */
const resetDelayMs = 1_000;

export function breakOff(response: ServerResponse): void {
  const { socket } = response;
  if (response.destroyed) return;
  if (socket === null) {
    // The response is queued behind another one on the same connection. When it gets the socket, Node first writes the
    // data that it has buffered for the response, so wait until the next tick before we break it off.
    response.once('socket', () => process.nextTick(breakOff, response));
    return;
  }
  // Discard everything that the caller sends from now on. We couldn't answer another request, and closing a socket that
  // has unread data would reset the connection and lose bytes that the caller hasn't read yet.
  socket.removeAllListeners('data').on('data', () => undefined);
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), readerTimeoutMs);
  socket.once('close', () => clearTimeout(timer));
  // With HTTP/1.0 there are no chunks, so a caller would mistake a normal close for the end of the body. That's why we
  // reset the connection.
  const isReset = response.req.httpVersion === '1.0';
  socket.write('', () => {
    void sleep(isReset ? resetDelayMs : endDelayMs).then(() => (isReset ? socket.resetAndDestroy() : socket.end()));
  });
}
