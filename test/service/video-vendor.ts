/** A video vendor with scripted files. It records its requests and how many bytes it was able to send. */
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface AskedRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

export interface VideoVendor {
  /** URL of this vendor. */
  readonly url: string;
  readonly asked: AskedRequest[];
  /** Handlers of file requests, by path. */
  readonly files: Map<string, (response: ServerResponse) => unknown>;
  /** URLs of the videos in responses. */
  uris: readonly string[];
  /** The result of operations, instead of a video. */
  operation: ((name: string, response: ServerResponse) => unknown) | null;
  /** The number of bytes that the connections have accepted. */
  bytesSent(): number;
  openConnections(): number;
  close(): Promise<void>;
}

export async function createVideoVendor(): Promise<VideoVendor> {
  const asked: AskedRequest[] = [];
  const sockets = new Set<IncomingMessage['socket']>();
  const everySocket: IncomingMessage['socket'][] = [];
  const server = createServer((request, response) => {
    const { url: path = '', headers } = request;
    asked.push({ path, headers });
    request.resume();
    request.on('end', () => answer(path, response));
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    everySocket.push(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const vendor: VideoVendor = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    files: new Map(),
    uris: [],
    operation: null,
    bytesSent: () => everySocket.reduce((sum, socket) => sum + socket.bytesWritten, 0),
    openConnections: () => sockets.size,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return vendor;

  function answer(path: string, response: ServerResponse): unknown {
    const file = vendor.files.get(path);
    if (file) return file(response);
    const started = /^\/v1beta\/(models\/[^/]+):predictLongRunning$/.exec(path);
    if (started) return json(response, 200, { name: `${started[1]}/operations/op${asked.length}` });
    const operation = /^\/v1beta\/((?:models\/[^/]+\/)?operations\/[^/?]+)$/.exec(path)?.[1];
    if (operation === undefined) return json(response, 404, { error: { code: 404, message: 'nothing here', status: 'NOT_FOUND' } });
    if (vendor.operation) return vendor.operation(operation, response);
    const generatedSamples = vendor.uris.map((uri) => ({ video: { uri } }));
    return json(response, 200, { name: operation, done: true, response: { generateVideoResponse: { generatedSamples } } });
  }
}

export function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

export function redirect(response: ServerResponse, location: string): void {
  response.writeHead(302, { location }).end();
}

/** Sends a file of this size with backpressure. */
export function sendBytes(response: ServerResponse, size: number): void {
  const chunk = Buffer.alloc(64 * 1024, 7);
  let left = size;
  response.writeHead(200, { 'content-type': 'video/webm', 'content-length': size });
  const write = (): void => {
    while (left > 0) {
      const part = chunk.subarray(0, Math.min(left, chunk.length));
      left -= part.length;
      if (!response.write(part)) return void response.once('drain', write);
    }
    response.end();
  };
  write();
}
