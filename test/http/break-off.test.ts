import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { breakOff } from '../../src/http/break-off.ts';
import { allowHalfOpen } from '../../src/http/half-close.ts';

const size = 16 * 1024 * 1024;
const request = 'GET / HTTP/1.1\r\nhost: gateway.test\r\n\r\n';
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** Connects to a server with this listener and sends a request without reading the response. */
async function askWithoutReading(listener: RequestListener): Promise<Socket> {
  const server = createServer(listener);
  allowHalfOpen(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').pause();
  socket.write(request);
  ends.push(async () => {
    socket.destroy();
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  });
  return socket;
}

async function readToEnd(socket: Socket): Promise<number> {
  let read = 0;
  for await (const chunk of socket) read += (chunk as Buffer).length;
  return read;
}

test('delivers everything that was written before a response was aborted, even to a slow reader', async () => {
  const broken = Promise.withResolvers<void>();
  const socket = await askWithoutReading((_request, response) => {
    response.write(Buffer.alloc(size));
    breakOff(response);
    broken.resolve();
  });
  await broken.promise;
  expect(await readToEnd(socket)).toBeGreaterThan(size);
});

test('discards pipelined requests after an aborted response without resetting the connection', async () => {
  let requests = 0;
  const broken = Promise.withResolvers<void>();
  const socket = await askWithoutReading((_request, response) => {
    requests += 1;
    response.write(Buffer.alloc(size));
    breakOff(response);
    broken.resolve();
  });
  await broken.promise;
  socket.write(request.repeat(100_000));
  expect(await readToEnd(socket)).toBeGreaterThan(size);
  expect(requests).toBe(1);
});

test('aborts an incomplete response body without resetting the connection', async () => {
  const socket = await askWithoutReading((_request, response) => {
    response.writeHead(200, { 'content-length': 2 * size }).write(Buffer.alloc(size));
    breakOff(response);
  });
  expect(await readToEnd(socket)).toBeGreaterThan(size);
});
