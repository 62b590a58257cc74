import type { RequestListener } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { expect, test } from '@jest/globals';
import { openDownload } from '../../src/core/open-download.ts';
import { startLocalServer } from '../support/local-server.ts';

/** Downloads `/` of a server and returns its text. */
async function download(respond: RequestListener, responseTimeoutMs?: number): Promise<string> {
  const server = await startLocalServer(respond);
  try {
    const signal = AbortSignal.timeout(60_000);
    return (
      await buffer(await openDownload(new URL(server.url), { signal, ...(responseTimeoutMs !== undefined && { responseTimeoutMs }) }))
    ).toString();
  } finally {
    await server.close();
  }
}

test('a download follows up to five redirects on the same origin', async () => {
  const redirectTimes =
    (times: number): RequestListener =>
    ({ url }, response) => {
      const count = Number(url?.slice(1));
      if (count === times) response.end('the file');
      else response.writeHead(302, { location: `/${count + 1}` }).end();
    };
  expect(await download(redirectTimes(5))).toBe('the file');
  await expect(download(redirectTimes(6))).rejects.toThrow('redirected too often');
});

test("a download doesn't follow redirects to another origin without TLS", async () => {
  const requests: string[] = [];
  const other = await startLocalServer((request, response) => {
    requests.push(request.url ?? '');
    response.end('forged');
  });
  await expect(download((_request, response) => response.writeHead(302, { location: other.url }).end())).rejects.toThrow(
    'insecure address',
  );
  await other.close();
  expect(requests).toEqual([]);
});

test("limits the time until a download's headers arrive, but not the time for the body", async () => {
  await expect(download(() => undefined, 50)).rejects.toThrow('no response within 0.05 seconds');
  const redirectToSilence: RequestListener = ({ url }, response) => {
    if (url === '/') response.writeHead(302, { location: '/slow' }).end();
  };
  await expect(download(redirectToSilence, 200)).rejects.toThrow('no response within 0.2 seconds');
  const slowBody: RequestListener = (_request, response) => {
    response.write('slow ');
    setTimeout(() => response.end('body'), 1_500);
  };
  expect(await download(slowBody, 1_000)).toBe('slow body');
});

test('reports why a download failed', async () => {
  await expect(download((_request, response) => response.writeHead(404).end())).rejects.toThrow(/^the server responded with status 404$/);
  await expect(openDownload(new URL('http://127.0.0.1:1/'), { signal: AbortSignal.timeout(60_000) })).rejects.toThrow(
    /ECONNREFUSED|bad port/,
  );
});
