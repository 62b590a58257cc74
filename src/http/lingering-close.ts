/**
 * Ends an answer that may come before its request is whole (a refusal of the key, the content type or the size). A connection that is to be
 * closed behind it stays open until the caller has sent all: a close before that is a reset, which throws the answer away at callers who
 * send first and read then. Node does this by itself for connections that are kept.
 */
import type { ServerResponse } from 'node:http';

/** For so long a caller may go on sending what nobody reads. */
const lingerTimeoutMs = 30_000;

/** `bytes` are all of the body, and its length has been told. */
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
