/** Reads a request's body up to a limit. */
import type { IncomingMessage } from 'node:http';

export class BodyTooLargeError extends Error {}

/**
 * The body as text. Throws BodyTooLargeError for a larger one, after it has been received: an earlier response would not reach every client.
 * Closes the connection when even that is too much.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= maxBytes) chunks.push(chunk);
    else chunks.length = 0;
    if (bytes > 2 * maxBytes) request.destroy();
  }
  if (bytes > maxBytes) throw new BodyTooLargeError(`the body is larger than ${maxBytes} bytes`);
  return Buffer.concat(chunks).toString();
}
