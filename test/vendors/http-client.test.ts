import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, jest, test } from '@jest/globals';
import { Pool } from 'undici';
import type { HttpRequest } from '../../src/vendors/http-client.ts';
import { createVendorHttpClient } from '../../src/vendors/http-client.ts';
import type { HttpResponse } from '../../src/vendors/response-body.ts';
import { closedPort, withVendor } from './fake-vendor.ts';

function requestOf(url: string, more: Partial<HttpRequest> = {}): HttpRequest {
  return {
    url: new URL(url),
    method: 'POST',
    headers: { 'x-test': '1' },
    body: Buffer.from('ask'),
    connectTimeoutMs: 5000,
    firstByteTimeoutMs: 5000,
    idleTimeoutMs: 5000,
    ...more,
  };
}

/** undici marks a connection as free one event loop iteration after its response ended. */
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Waits for the next bytes. Returns null at the end. */
async function nextBytes({ body }: HttpResponse): Promise<Buffer | null> {
  await body.arrival();
  return body.take();
}

describe('sending a request to a vendor', () => {
  test('sends the request and returns the response unchanged', async () => {
    await withVendor(
      (response) => response.writeHead(418, { 'x-answer': 'yes' }).end('tea'),
      async ({ url, httpClient, received }) => {
        const response = await httpClient.send(requestOf(`${url}/v1/a%2Fb?c=%20d`));
        expect(response).toMatchObject({ status: 418, headers: { 'x-answer': 'yes' } });
        expect((await response.body.readAll(100)).toString()).toBe('tea');
        expect(received).toMatchObject([
          { method: 'POST', path: '/v1/a%2Fb?c=%20d', body: 'ask', headers: { 'x-test': '1', 'content-length': '3' } },
        ]);
      },
    );
  });

  test('does not follow a redirect', async () => {
    await withVendor(
      (response) => response.writeHead(307, { location: '/elsewhere' }).end(),
      async ({ url, httpClient, received }) => {
        const { status, body } = await httpClient.send(requestOf(url));
        await body.readAll(100);
        expect(status).toBe(307);
        expect(received).toHaveLength(1);
      },
    );
  });

  test('throws a connect error with its code if the port is closed', async () => {
    const httpClient = createVendorHttpClient();
    const failed = httpClient.send(requestOf(`http://127.0.0.1:${await closedPort()}/`));
    await expect(failed).rejects.toMatchObject({
      name: 'VendorError',
      kind: 'connect',
      status: null,
      message: 'the connection was refused (ECONNREFUSED)',
    });
    await httpClient.close();
  });

  test("throws a connect error if the host name can't be resolved", async () => {
    const httpClient = createVendorHttpClient();
    await expect(httpClient.send(requestOf('http://vendor.invalid/'))).rejects.toMatchObject({ kind: 'connect' });
    await httpClient.close();
  });

  test('throws a connect error if the vendor closes the connection before responding', async () => {
    await withVendor(
      (response) => response.destroy(),
      async ({ url, httpClient }) => {
        await expect(httpClient.send(requestOf(url))).rejects.toMatchObject({
          kind: 'connect',
          status: null,
          message: 'the connection was closed before the response began (UND_ERR_SOCKET)',
        });
      },
    );
  });

  test('recognizes that a reused connection was reset before the whole body was sent', async () => {
    const failed = Promise.withResolvers<void>();
    const server = createServer((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
        socket.once('data', () => socket.resetAndDestroy());
      });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const httpClient = createVendorHttpClient();
    const sendParts = async function* (): AsyncGenerator<Buffer> {
      yield Buffer.from('a');
      await failed.promise;
      yield Buffer.from('b');
    };
    await (await httpClient.send(requestOf(url))).body.readAll(100);
    await nextTurn();
    const sending = httpClient.send(requestOf(url, { body: sendParts(), headers: { 'content-length': '2' } }));
    await expect(sending).rejects.toMatchObject({ kind: 'connect', closedWhileSending: true });
    failed.resolve();
    await httpClient.close();
    await new Promise((resolve) => server.close(resolve));
  });

  test('throws a timeout error if no response arrives in time', async () => {
    await withVendor(
      () => {},
      async ({ url, httpClient, connectionClosed }) => {
        await expect(httpClient.send(requestOf(url, { firstByteTimeoutMs: 30 }))).rejects.toMatchObject({
          kind: 'timeout',
          message: 'timed out waiting for the response',
        });
        await connectionClosed();
      },
    );
  });

  test.each<[string, (response: ServerResponse) => void]>([
    ['endless interim responses', (response) => response.writeProcessing()],
    ['endless headers', ({ socket }) => socket?.write(socket.bytesWritten === 0 ? 'HTTP/1.1 200 OK\r\n' : 'x-filler: any\r\n')],
  ])('throws a timeout error if only %s arrive', async (_name, sendMore) => {
    let sending: NodeJS.Timeout | undefined;
    await withVendor(
      (response) => {
        sending = setInterval(() => sendMore(response), 10);
      },
      async ({ url, httpClient, connectionClosed }) => {
        await expect(httpClient.send(requestOf(url, { firstByteTimeoutMs: 100 }))).rejects.toMatchObject({
          kind: 'timeout',
          message: 'timed out waiting for the response',
        });
        await connectionClosed();
      },
    ).finally(() => clearInterval(sending));
  });

  test('skips interim responses', async () => {
    await withVendor(
      (response) => {
        response.writeProcessing();
        response.writeEarlyHints({ link: '</style.css>; rel=preload' }, () => response.end('tea'));
      },
      async ({ url, httpClient }) => {
        const { status, body } = await httpClient.send(requestOf(url));
        expect([status, (await body.readAll(100)).toString()]).toEqual([200, 'tea']);
      },
    );
  });

  test('throws an aborted error if the signal is aborted before or during the request', async () => {
    await withVendor(
      () => {},
      async ({ url, httpClient, received, connectionClosed }) => {
        await expect(httpClient.send(requestOf(url, { signal: AbortSignal.abort() }))).rejects.toMatchObject({
          kind: 'aborted',
          isUnsent: true,
        });
        expect(received).toHaveLength(0);

        const controller = new AbortController();
        const failed = httpClient.send(requestOf(url, { signal: controller.signal }));
        while (received.length === 0) await nextTurn();
        controller.abort();
        await expect(failed).rejects.toMatchObject({ kind: 'aborted', isUnsent: false });
        await connectionClosed();
      },
    );
  });
});

describe("reading a vendor's response completely", () => {
  test("returns the whole body if it isn't larger than the limit", async () => {
    await withVendor(
      (response) => response.end('x'.repeat(100_000)),
      async ({ url, httpClient }) => {
        expect(await (await httpClient.send(requestOf(url))).body.readAll(100_000)).toHaveLength(100_000);
      },
    );
  });

  test('throws an `unreadable` error for a larger body and closes the connection', async () => {
    await withVendor(
      (response) => response.end('x'.repeat(1_000_000)),
      async ({ url, httpClient, connectionClosed }) => {
        const { body } = await httpClient.send(requestOf(url));
        await expect(body.readAll(99_999)).rejects.toMatchObject({
          kind: 'unreadable',
          message: 'the response is larger than 99999 bytes',
        });
        await connectionClosed();
      },
    );
  });

  test('throws a `broken` error if the response is cut off', async () => {
    await withVendor(
      (response) => {
        response.writeHead(200, { 'content-length': '10' });
        response.write('half', () => response.destroy());
      },
      async ({ url, httpClient }) => {
        const { body } = await httpClient.send(requestOf(url));
        await expect(body.readAll(100)).rejects.toMatchObject({ kind: 'broken' });
      },
    );
  });

  test('throws a `broken` error if the response stalls', async () => {
    await withVendor(
      (response) => response.write('half'),
      async ({ url, httpClient }) => {
        const { body } = await httpClient.send(requestOf(url, { idleTimeoutMs: 30 }));
        await expect(body.readAll(100)).rejects.toMatchObject({ kind: 'broken', message: 'the response stalled' });
      },
    );
  });

  test('throws an aborted error if the signal is aborted while reading', async () => {
    await withVendor(
      (response) => response.write('half'),
      async ({ url, httpClient, connectionClosed }) => {
        const controller = new AbortController();
        const { body } = await httpClient.send(requestOf(url, { signal: controller.signal }));
        const failed = body.readAll(100);
        controller.abort();
        await expect(failed).rejects.toMatchObject({ kind: 'aborted' });
        await connectionClosed();
      },
    );
  });
});

describe('connections to vendors', () => {
  test('reuses a connection after the response has been read', async () => {
    await withVendor(
      (response) => response.end('x'),
      async ({ url, httpClient, received }) => {
        for (let n = 0; n < 3; n += 1) {
          await (await httpClient.send(requestOf(url))).body.readAll(10);
          await nextTurn();
        }
        expect(received.map(({ connection }) => connection)).toEqual([1, 1, 1]);
      },
    );
  });

  test.each([
    ['after a short response', 10],
    ['after a long response', 3_000_000],
  ])("keeps the connection if only a little of the response is left when it's released: %s", async (_name, size) => {
    const open: (() => void)[] = [];
    await withVendor(
      (response) => {
        response.write('x'.repeat(size));
        open.push(() => response.end('.'));
      },
      async ({ url, httpClient, received }) => {
        for (let n = 0; n < 2; n += 1) {
          const response = await httpClient.send(requestOf(url));
          let seen = 0;
          while (seen < size) seen += (await nextBytes(response))?.length ?? 0;
          response.body.release();
          open[n]?.();
          expect(await nextBytes(response)).toBe(null);
          await nextTurn();
        }
        expect(received.map(({ connection }) => connection)).toEqual([1, 1]);
      },
    );
  });

  test("closes the connection if too much of the response is left when it's released", async () => {
    await withVendor(
      (response) => response.end('x'.repeat(3_000_000)),
      async ({ url, httpClient, connectionClosed }) => {
        const response = await httpClient.send(requestOf(url));
        await nextBytes(response);
        response.body.release();
        await connectionClosed();
        await expect(nextBytes(response)).rejects.toMatchObject({ kind: 'aborted' });
      },
    );
  });

  test('does nothing if a response is released after it was read or has failed', async () => {
    await withVendor(
      (response) => response.end('x'),
      async ({ url, httpClient }) => {
        const read = await httpClient.send(requestOf(url));
        await read.body.readAll(10);
        read.body.release();
        const failed = await httpClient.send(requestOf(url));
        failed.body.destroy();
        failed.body.release();
        failed.body.release();
      },
    );
  });

  test('ignores errors of a response that was released', async () => {
    const open: (() => void)[] = [];
    await withVendor(
      (response) => {
        response.write('x');
        open.push(() => response.destroy());
      },
      async ({ url, httpClient }) => {
        const response = await httpClient.send(requestOf(url));
        await nextBytes(response);
        response.body.release();
        open[0]?.();
        await expect(nextBytes(response)).rejects.toMatchObject({ kind: 'broken' });
      },
    );
  });

  test('never gives an undici pool more than 100 requests, even after failures', async () => {
    const dispatch = jest.spyOn(Pool.prototype, 'dispatch');
    const open: ServerResponse[] = [];
    await withVendor(
      (response) => (open.length < 150 ? open.push(response) : response.end('x')),
      async ({ url, httpClient }) => {
        const sent = Array.from({ length: 150 }, () => httpClient.send(requestOf(url)));
        expect(dispatch.mock.contexts.filter((pool) => pool === dispatch.mock.contexts[0])).toHaveLength(100);
        expect(new Set(dispatch.mock.contexts).size).toBe(2);
        const closed = Promise.allSettled(sent);
        while (open.length < 150) await nextTurn();
        for (const [index, response] of open.entries()) {
          if (index % 2 === 0) response.destroy();
          else response.end('x');
        }
        for (const settled of await closed) if (settled.status === 'fulfilled') await settled.value.body.readAll(10);
        await (await httpClient.send(requestOf(url))).body.readAll(10);
        expect(dispatch.mock.contexts.at(-1)).toBe(dispatch.mock.contexts[0]);
      },
    );
    dispatch.mockRestore();
  });

  test('waits for running requests when the client is closed', async () => {
    await withVendor(
      (response) => response.end('x'),
      async ({ url }) => {
        const httpClient = createVendorHttpClient();
        const { body } = await httpClient.send(requestOf(url));
        const closed = httpClient.close();
        expect((await body.readAll(10)).toString()).toBe('x');
        await closed;
      },
    );
  });
});
