/**
 * Ends a response that we may send before the request is complete, e.g. because the key, content type or size is wrong.
 *
 * If the connection is going to be closed, we wait until the caller has sent everything. If we closed it earlier, that
 * would reset the connection, and callers that send their whole body before they read would lose the response. For
 * keep-alive connections, Node does this itself.
 */
import type { ServerResponse } from 'node:http';

/** How long we wait for the caller to finish its request before we close the connection. */
const lingerTimeoutMs = 30_000;

/** Ends the response with `bytes`, which is the whole body. The head has to include `content-length`. */
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
