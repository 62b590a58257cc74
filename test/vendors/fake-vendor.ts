/** Runs a test with a scripted HTTP server on loopback and an HTTP client. Both are closed afterwards. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { VendorHttpClient } from '../../src/vendors/http-client.ts';
import { createVendorHttpClient } from '../../src/vendors/http-client.ts';

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  /** The number of the connection, starting at 1. */
  readonly connection: number;
}

export interface FakeVendor {
  readonly url: string;
  readonly httpClient: VendorHttpClient;
  readonly received: Received[];
  /** Resolves once the connection of the latest request is closed. */
  connectionClosed(): Promise<void>;
}

/** Responds to a request. Its return value is ignored. */
export type Responder = (response: ServerResponse, request: Received) => unknown;

export async function withVendor<Result>(respond: Responder, use: (vendor: FakeVendor) => Promise<Result>): Promise<Result> {
  const received: Received[] = [];
  const connections: Socket[] = [];
  let latest: Socket | null = null;
  const server = createServer((request, response) => {
    latest = request.socket;
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url: path = '', headers } = request;
      const receivedRequest = {
        method,
        path,
        headers,
        body: Buffer.concat(chunks).toString(),
        connection: connections.indexOf(request.socket) + 1,
      };
      received.push(receivedRequest);
      respond(response, receivedRequest);
    });
  });
  server.on('connection', (socket) => connections.push(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const httpClient = createVendorHttpClient();
  try {
    return await use({
      url: `http://127.0.0.1:${portOf(server.address())}`,
      httpClient,
      received,
      connectionClosed: () =>
        new Promise((resolve) => (latest === null || latest.closed ? resolve() : latest.once('close', () => resolve()))),
    });
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await httpClient.close();
  }
}

/** Returns a port that nothing listens on. */
export async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const port = portOf(server.address());
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === 'string') throw new Error('the server is not listening on a port');
  return address.port;
}
