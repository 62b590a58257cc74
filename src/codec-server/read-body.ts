/** Reads the body of a request up to a limit. */
import type { IncomingMessage } from 'node:http';

export class BodyTooLargeError extends Error {}

/**
 * Reads the body as text. If it's too large, we receive all of it before we throw BodyTooLargeError, because some
 * clients miss a response that comes earlier. If it's more than twice the limit, we give up and close the connection.
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
