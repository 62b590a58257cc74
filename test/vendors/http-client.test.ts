import { describe, expect, test } from '@jest/globals';
import type { HttpRequest, HttpResponse } from '../../src/vendors/http-client.ts';
import { createVendorHttpClient, readBody } from '../../src/vendors/http-client.ts';
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

/** undici counts a connection as free one turn of the event loop after its answer ended. */
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Reads until some bytes are there. */
async function firstChunk({ body }: HttpResponse): Promise<string> {
  for await (const chunk of body.iterator({ destroyOnReturn: false })) return String(chunk);
  return '';
}

describe('send', () => {
  test('carries method, path, query, headers and body as they are, and brings back status, headers and body', async () => {
    await withVendor(
      (response) => response.writeHead(418, { 'x-answer': 'yes' }).end('tea'),
      async ({ url, door, received }) => {
        const response = await door.send(requestOf(`${url}/v1/a%2Fb?c=%20d`));
        expect(response).toMatchObject({ status: 418, headers: { 'x-answer': 'yes' } });
        expect((await readBody(response.body, 100)).toString()).toBe('tea');
        expect(received).toMatchObject([
          { method: 'POST', path: '/v1/a%2Fb?c=%20d', body: 'ask', headers: { 'x-test': '1', 'content-length': '3' } },
        ]);
      },
    );
  });

  test('does not follow a redirect', async () => {
    await withVendor(
      (response) => response.writeHead(307, { location: '/elsewhere' }).end(),
      async ({ url, door, received }) => {
        const { status, body } = await door.send(requestOf(url));
        await readBody(body, 100);
        expect(status).toBe(307);
        expect(received).toHaveLength(1);
      },
    );
  });

  test('fault connect when nobody listens, with the short code and no address', async () => {
    const door = createVendorHttpClient();
    const failed = door.send(requestOf(`http://127.0.0.1:${await closedPort()}/`));
    await expect(failed).rejects.toMatchObject({
      name: 'VendorError',
      kind: 'connect',
      status: null,
      message: 'no connection (ECONNREFUSED)',
    });
    await door.close();
  });

  test('fault connect when the name cannot be found', async () => {
    const door = createVendorHttpClient();
    await expect(door.send(requestOf('http://vendor.invalid/'))).rejects.toMatchObject({ kind: 'connect' });
    await door.close();
  });

  test('fault connect when the vendor closes the connection without a word', async () => {
    await withVendor(
      (response) => response.destroy(),
      async ({ url, door }) => {
        await expect(door.send(requestOf(url))).rejects.toMatchObject({ kind: 'connect', status: null });
      },
    );
  });

  test('fault timeout when no answer comes in time', async () => {
    await withVendor(
      () => {},
      async ({ url, door, connectionClosed }) => {
        await expect(door.send(requestOf(url, { firstByteTimeoutMs: 30 }))).rejects.toMatchObject({
          kind: 'timeout',
          message: 'no answer in time',
        });
        await connectionClosed();
      },
    );
  });

  test('fault aborted when our signal ends it, before the request and while it waits', async () => {
    await withVendor(
      () => {},
      async ({ url, door, received, connectionClosed }) => {
        await expect(door.send(requestOf(url, { signal: AbortSignal.abort() }))).rejects.toMatchObject({ kind: 'aborted' });
        expect(received).toHaveLength(0);

        const controller = new AbortController();
        const failed = door.send(requestOf(url, { signal: controller.signal }));
        while (received.length === 0) await nextTurn();
        controller.abort();
        await expect(failed).rejects.toMatchObject({ kind: 'aborted' });
        await connectionClosed();
      },
    );
  });
});

describe('readAll', () => {
  test('gives the whole body, up to its bound', async () => {
    await withVendor(
      (response) => response.end('x'.repeat(100_000)),
      async ({ url, door }) => {
        expect(await readBody((await door.send(requestOf(url))).body, 100_000)).toHaveLength(100_000);
      },
    );
  });

  test('fault unreadable for a larger one, and the connection is closed', async () => {
    await withVendor(
      (response) => response.end('x'.repeat(1_000_000)),
      async ({ url, door, connectionClosed }) => {
        const { body } = await door.send(requestOf(url));
        await expect(readBody(body, 99_999)).rejects.toMatchObject({
          kind: 'unreadable',
          message: 'the answer is larger than 99999 bytes',
        });
        await connectionClosed();
      },
    );
  });

  test('fault broken when the answer breaks off', async () => {
    await withVendor(
      (response) => {
        response.writeHead(200, { 'content-length': '10' });
        response.write('half', () => response.destroy());
      },
      async ({ url, door }) => {
        const { body } = await door.send(requestOf(url));
        await expect(readBody(body, 100)).rejects.toMatchObject({ kind: 'broken' });
      },
    );
  });

  test('fault broken when the answer stops coming', async () => {
    await withVendor(
      (response) => response.write('half'),
      async ({ url, door }) => {
        const { body } = await door.send(requestOf(url, { idleTimeoutMs: 30 }));
        await expect(readBody(body, 100)).rejects.toMatchObject({ kind: 'broken', message: 'the answer stopped coming' });
      },
    );
  });

  test('fault aborted when our signal ends it in the middle', async () => {
    await withVendor(
      (response) => response.write('half'),
      async ({ url, door, connectionClosed }) => {
        const controller = new AbortController();
        const { body } = await door.send(requestOf(url, { signal: controller.signal }));
        const failed = readBody(body, 100);
        controller.abort();
        await expect(failed).rejects.toMatchObject({ kind: 'aborted' });
        await connectionClosed();
      },
    );
  });
});

describe('connections', () => {
  test('a connection is used again when its answer has been read', async () => {
    await withVendor(
      (response) => response.end('x'),
      async ({ url, door, received }) => {
        for (let n = 0; n < 3; n += 1) {
          await readBody((await door.send(requestOf(url))).body, 10);
          await nextTurn();
        }
        expect(received.map(({ connection }) => connection)).toEqual([1, 1, 1]);
      },
    );
  });

  test.each([
    ['after a short answer', 10],
    ['after a long one', 3_000_000],
  ])('release reads a short rest, so that the connection is used again: %s', async (_name, size) => {
    const open: (() => void)[] = [];
    await withVendor(
      (response) => {
        response.write('x'.repeat(size));
        open.push(() => response.end('.'));
      },
      async ({ url, door, received }) => {
        for (let n = 0; n < 2; n += 1) {
          const response = await door.send(requestOf(url));
          let seen = 0;
          for await (const chunk of response.body.iterator({ destroyOnReturn: false })) {
            seen += Buffer.from(chunk).length;
            if (seen === size) break;
          }
          response.release();
          open[n]?.();
          await new Promise((resolve) => response.body.once('close', resolve));
          await nextTurn();
        }
        expect(received.map(({ connection }) => connection)).toEqual([1, 1]);
      },
    );
  });

  test('release ends the connection when the rest is long', async () => {
    await withVendor(
      (response) => response.end('x'.repeat(3_000_000)),
      async ({ url, door, connectionClosed }) => {
        const response = await door.send(requestOf(url));
        await firstChunk(response);
        response.release();
        await connectionClosed();
        expect(response.body.destroyed).toBe(true);
      },
    );
  });

  test('release does nothing to an answer that has been read, or has failed', async () => {
    await withVendor(
      (response) => response.end('x'),
      async ({ url, door }) => {
        const read = await door.send(requestOf(url));
        await readBody(read.body, 10);
        read.release();
        const failed = await door.send(requestOf(url));
        failed.body.on('error', () => {}).destroy(new Error('x'));
        failed.release();
        failed.release();
      },
    );
  });

  test('a released answer that breaks afterwards harms nobody', async () => {
    const open: (() => void)[] = [];
    await withVendor(
      (response) => {
        response.write('x');
        open.push(() => response.destroy());
      },
      async ({ url, door }) => {
        const response = await door.send(requestOf(url));
        await firstChunk(response);
        response.release();
        const closed = new Promise((resolve) => response.body.once('close', resolve));
        open[0]?.();
        await closed;
      },
    );
  });

  test('close waits for what is running', async () => {
    await withVendor(
      (response) => response.end('x'),
      async ({ url }) => {
        const door = createVendorHttpClient();
        const { body } = await door.send(requestOf(url));
        const closed = door.close();
        expect((await readBody(body, 10)).toString()).toBe('x');
        await closed;
      },
    );
  });
});
