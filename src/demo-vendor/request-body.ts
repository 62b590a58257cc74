import type { IncomingMessage } from 'node:http';

const maxRequestBytes = 64 * 1024 * 1024;

/**
 * Reads a body. Returns null if it exceeds `maxRequestBytes`, after discarding the rest. Rejects if the client
 * disconnects.
 */
export function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // We use events, because iterating over a request costs 2 to 5 µs more CPU per call (measured), and benchmarks use
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
