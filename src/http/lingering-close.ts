/**
 * Ends a response that may precede the end of its request (an invalid key, content type or size). A connection that is closed afterwards
 * stays open until the caller has sent everything: an earlier close resets it, and callers that send before they read lose the response.
 * Node handles kept-alive connections itself.
 */
import type { ServerResponse } from 'node:http';

/** How long a caller may continue sending data that is discarded. */
const lingerTimeoutMs = 30_000;

/** `bytes` is the complete body; the `content-length` header must have been sent. */
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
