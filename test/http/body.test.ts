import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { mock } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { ClientDisconnectedError, maxBodyBytes, readBody } from '../../src/http/body.ts';
import { createBodyMemory } from '../../src/http/body-memory.ts';

/** Sends `head` and `body` on a separate connection, closes it, and returns the request once it has been closed. */
async function abandoned(head: string, use: (request: IncomingMessage) => Promise<void>): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server is not listening on a port');
  const caller = connect(address.port, '127.0.0.1');
  const request = await new Promise<IncomingMessage>((resolve) => {
    server.once('request', resolve);
    caller.write(head);
  });
  const closed = new Promise((resolve) => request.once('close', resolve));
  caller.destroy();
  await closed;
  try {
    await use(request);
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}

test('readBody rejects if the caller has already disconnected', async () => {
  await abandoned('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nabc', async (request) => {
    await expect(readBody(request, maxBodyBytes, null, null)).rejects.toBeInstanceOf(ClientDisconnectedError);
  });
});

test.each([16_384, maxBodyBytes])('joins the chunks of a request body of up to %d bytes in order', async (limit) => {
  for (const count of [63, 64, 65, 1_023, 1_024, 1_025, 5_000]) {
    const chunks = Array.from({ length: count }, (_, index) => Buffer.from([index % 251]));
    const request = Object.assign(Readable.from(chunks), { headers: {} });
    expect((await readBody(request as unknown as IncomingMessage, limit, null, null)).equals(Buffer.concat(chunks))).toBe(true);
  }
});

test('reads a request body that arrived together with its headers', async () => {
  const mebibyte = 1_048_576;
  const memory = createBodyMemory(32 * mebibyte);
  const bodies = memory.of('one');
  const read = (body: string): [IncomingMessage, Promise<Buffer>] => {
    const headers = { 'content-length': String(body.length) };
    const request = Object.assign(new Readable({ read: () => undefined }), { headers }) as unknown as IncomingMessage;
    for (const part of body) request.push(part);
    setImmediate(() => request.push(null));
    return [request, readBody(request, 3, bodies, null)];
  };
  const [request, bytes] = read('tea');
  expect((await bytes).toString()).toBe('tea');
  expect(memory.heldBytes).toBe(3);
  await once(request, 'close');
  expect(request.readableEnded).toBe(true);
  bodies.hold(32 * mebibyte - 4);
  await expect(read('tea')[1]).rejects.toMatchObject({ code: 'budget_unavailable' });
  expect(memory.heldBytes).toBe(32 * mebibyte - 1);
  await expect(read('more')[1]).rejects.toMatchObject({ status: 413 });
});

test('waits for the rest of a request body if only a part of it arrived with the headers', async () => {
  const request = Object.assign(new Readable({ read: () => undefined }), { headers: { 'content-length': '6' } });
  request.push('tea');
  const body = readBody(request as unknown as IncomingMessage, maxBodyBytes, null, null);
  request.push('pot');
  request.push(null);
  expect((await body).toString()).toBe('teapot');
});

test('disconnects a caller that takes longer than five minutes to send the body', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const request = Object.assign(new Readable({ read: () => undefined }), { headers: {}, complete: false });
    const body = readBody(request as unknown as IncomingMessage, maxBodyBytes, null, null);
    await nextTurn();
    request.push('a');
    mock.timers.tick(300_000);
    await expect(body).rejects.toBeInstanceOf(ClientDisconnectedError);
    expect(request.destroyed).toBe(true);
  } finally {
    mock.timers.reset();
  }
});

test('reads up to one mebibyte of large request bodies per turn of the event loop', async () => {
  const [mebibyte, chunkBytes] = [1_048_576, 65_536];
  const bytesByTurn: number[] = [0];
  function* chunks(): Generator<Buffer> {
    for (let sent = 0; sent < 4 * mebibyte; sent += chunkBytes) {
      bytesByTurn.push((bytesByTurn.pop() ?? 0) + chunkBytes);
      yield Buffer.alloc(chunkBytes, 'x');
    }
  }
  let isRead = false;
  const reading = Promise.all(
    Array.from({ length: 4 }, () =>
      readBody(Object.assign(Readable.from(chunks()), { headers: {} }) as unknown as IncomingMessage, maxBodyBytes, null, null),
    ),
  ).finally(() => {
    isRead = true;
  });
  for (; !isRead; await nextTurn()) bytesByTurn.push(0);
  expect((await reading).map(({ length }) => length)).toEqual(Array(4).fill(4 * mebibyte));
  // The first piece of each body is read right away.
  const [, ...later] = bytesByTurn.filter((bytes) => bytes > 0);
  expect(Math.max(...later)).toBeLessThanOrEqual(mebibyte + 4 * chunkBytes);
  expect(later.length).toBeGreaterThanOrEqual(10);
});
