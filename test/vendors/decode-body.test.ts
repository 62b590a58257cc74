/** Tests responses of vendors that compress although the gateway asks for `identity`. */
import type { ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { brotliCompress, createGzip, deflate, gzip, zstdCompress } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import type { HttpRequest } from '../../src/vendors/http-client.ts';
import { relayBody } from '../../src/vendors/response-body.ts';
import { withVendor } from './fake-vendor.ts';

const text = JSON.stringify({ text: 'The quick brown fox. '.repeat(1_000) });
const compressions = {
  gzip: promisify(gzip),
  'x-gzip': promisify(gzip),
  deflate: promisify(deflate),
  br: promisify(brotliCompress),
  zstd: promisify(zstdCompress),
} as const;
const limits = { connectTimeoutMs: 5000, firstByteTimeoutMs: 5000, idleTimeoutMs: 5000 };
const requestOf = (url: string): HttpRequest => ({ url: new URL(url), method: 'POST', headers: {}, body: Buffer.from('ask'), ...limits });

describe.each(Object.entries(compressions))('a response with %s encoding', (encoding, compress) => {
  const respondWith = (bytes: Buffer, end: (response: ServerResponse) => void) => (response: ServerResponse) => {
    response.writeHead(200, { 'content-encoding': encoding.toUpperCase(), 'content-length': bytes.length });
    response.write(bytes.subarray(0, bytes.length >> 1));
    setImmediate(() => end(response));
  };

  test('decompresses the body and drops the encoding and length headers', async () => {
    const bytes = await compress(Buffer.from(text));
    const finish = (response: ServerResponse): void => void response.end(bytes.subarray(bytes.length >> 1));
    await withVendor(respondWith(bytes, finish), async ({ url, httpClient }) => {
      const { headers, body } = await httpClient.send(requestOf(url));
      expect([headers['content-encoding'], headers['content-length']]).toEqual([undefined, undefined]);
      expect((await body.readAll(100_000)).toString()).toBe(text);
    });
  });

  test('rejects a body that is too large after decompression', async () => {
    const bytes = await compress(Buffer.alloc(8 * 1024 * 1024));
    const finish = (response: ServerResponse): void => void response.end(bytes.subarray(bytes.length >> 1));
    await withVendor(respondWith(bytes, finish), async ({ url, httpClient }) => {
      const { body } = await httpClient.send(requestOf(url));
      await expect(body.readAll(100_000)).rejects.toMatchObject({
        kind: 'unreadable',
        message: 'the response is larger than 100000 bytes',
      });
    });
  });

  test('fails if a compressed body is truncated or not compressed at all', async () => {
    const bytes = await compress(Buffer.from(text));
    await withVendor(
      respondWith(bytes, (response) => void response.destroy()),
      async ({ url, httpClient }) => {
        const { body } = await httpClient.send(requestOf(url));
        await expect(body.readAll(100_000)).rejects.toMatchObject({ kind: 'broken', message: 'the response ended early' });
      },
    );
    await withVendor(
      (response) => response.writeHead(200, { 'content-encoding': encoding }).end(text),
      async ({ url, httpClient }) => {
        const { body } = await httpClient.send(requestOf(url));
        await expect(body.readAll(100_000)).rejects.toMatchObject({ kind: 'broken', message: expect.stringContaining('is not valid') });
      },
    );
  });
});

test('forwards each compressed event of a stream as soon as it arrives', async () => {
  let breakOff: () => void = () => undefined;
  const respond = (response: ServerResponse): void => {
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'text/event-stream' });
    const encoder = createGzip();
    encoder.pipe(response);
    encoder.write('data: one\n\n');
    encoder.flush();
    breakOff = () => {
      encoder.write('data: two\n\n');
      encoder.flush(() => setImmediate(() => response.destroy()));
    };
  };
  await withVendor(respond, async ({ url, httpClient }) => {
    const { body } = await httpClient.send(requestOf(url));
    const chunks = relayBody(body);
    expect((await chunks.next()).value?.toString()).toBe('data: one\n\n');
    breakOff();
    expect((await chunks.next()).value?.toString()).toBe('data: two\n\n');
    await expect(chunks.next()).rejects.toMatchObject({ kind: 'broken' });
  });
});

test('accepts an empty body with a content encoding', () =>
  withVendor(
    (response) => response.writeHead(500, { 'content-encoding': 'gzip' }).end(),
    async ({ url, httpClient }) => {
      const { body } = await httpClient.send(requestOf(url));
      expect(await body.readAll(100)).toEqual(Buffer.alloc(0));
    },
  ));
