import type { IncomingMessage } from 'node:http';

const maxRequestBytes = 64 * 1024 * 1024;

/**
 * Reads the body of a request. Returns null and discards the body if it's larger than `maxRequestBytes`. Rejects if the
 * client disconnects.
 */
export function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // Use events here. Iterating over a request takes 2 to 5 µs more CPU time per call (measured), and benchmarks use
  // this vendor.
  return new Promise((resolve, reject) => {
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxRequestBytes) chunks.push(chunk);
    });
    request.once('end', () => resolve(bytes > maxRequestBytes ? null : Buffer.concat(chunks)));
    request.once('error', reject);
  });
}
