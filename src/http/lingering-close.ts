/**
 * Ends a response that may be sent before the request is complete, e.g. because of an invalid key, content type or
 * size. If the connection is to be closed, we keep it open until the caller has sent everything. Closing it earlier
 * would reset it, and callers that send their whole body before they read would lose the response. Node takes care of
 * keep-alive connections itself.
 */
import type { ServerResponse } from 'node:http';

/** How long a caller may continue to send data that we discard. */
const lingerTimeoutMs = 30_000;

/** Ends the response with `bytes`, which is the complete body. The head has to include `content-length`. */
export function endWithLinger(response: ServerResponse, bytes: Buffer): void {
  const { req: request } = response;
  if (request.complete || response.shouldKeepAlive) {
    response.end(bytes);
    return;
  }
  response.write(bytes);
  const end = (): void => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(end, lingerTimeoutMs);
  request.once('end', end).once('close', end).resume();
}
