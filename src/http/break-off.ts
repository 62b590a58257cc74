/**
 * Breaks off a response that has begun, so that its caller notices that it is incomplete: the connection ends without the end of the body,
 * after everything that was written has been sent.
 */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** A caller that still hasn't read everything after this long is disconnected. */
const readerTimeoutMs = 60_000;

/** Gives the caller time to read the last bytes. Node's `fetch`, for one, discards what it hasn't handed over when the connection ends. */
const endDelayMs = 300;

/** A reset also discards what is still on its way through the network. */
const resetDelayMs = 1_000;

export function breakOff(response: ServerResponse): void {
  const { socket } = response;
  if (response.destroyed) return;
  if (socket === null) {
    // The response waits for an earlier one of its connection. Node writes what it holds back right after this event.
    response.once('socket', () => process.nextTick(breakOff, response));
    return;
  }
  // We discard what the caller sends from now on. Later requests couldn't be answered, and closing a socket with unread
  // data would reset the connection and lose bytes that the caller hasn't read yet.
  socket.removeAllListeners('data').on('data', () => undefined);
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), readerTimeoutMs);
  socket.once('close', () => clearTimeout(timer));
  // HTTP/1.0 has no chunks: there the end of the connection is the end of a complete body, and only a reset shows that it isn't.
  const isReset = response.req.httpVersion === '1.0';
  socket.write('', () => {
    void sleep(isReset ? resetDelayMs : endDelayMs).then(() => (isReset ? socket.resetAndDestroy() : socket.end()));
  });
}
