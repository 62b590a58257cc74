/**
 * Tests that we only send the vendor's key to the vendor. We use manipulated URLs and redirects while a foreign host is
 * listening.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { callsOf, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { createVideoVendor, json, redirect, sendBytes, type VideoVendor } from './video-vendor.ts';

const key = 'video-key-0123456789';
/** The vendor, its asset host, and a foreign host. */
const [vendor, assets, listener] = await Promise.all([createVideoVendor(), createVideoVendor(), createVideoVendor()]);
const portOf = ({ url }: VideoVendor): string => new URL(url).port;
const [own, foreign] = [portOf(vendor), portOf(listener)];

const lent = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  film: { base_url: ${vendor.url}/v1beta, api_key: ${key}, dialect: gemini, asset_hosts: ['127.0.0.1:${portOf(assets)}'] }
models: { film/clip: { per_second: 0.05 } }
defaults: { video_provider: film, video_model: clip }
`,
});
let gateway: TestGateway;
beforeAll(async () => {
  gateway = await lent().withProject('hosts');
});
afterAll(async () => {
  await Promise.all([vendor, assets, listener].map((machine) => machine.close()));
});
beforeEach(() => {
  for (const machine of [vendor, assets, listener]) {
    machine.asked.length = 0;
    machine.files.clear();
  }
  vendor.operation = null;
  vendor.uris = [];
});

interface Refusal {
  readonly error: { readonly code: string; readonly message: string };
}

async function refusalOf(path: string, body: object): Promise<[number, string]> {
  const answer = await gateway.call(path, body);
  return [answer.status, (await jsonOf<Refusal>(answer)).error.code];
}
const downloads = (uri: string): Promise<[number, string]> => refusalOf('/v1/video/download', { uri });

const forbidden = [400, 'forbidden_target'];

/** Creates a video of this project with files at these URLs. */
async function finishedVideo(...uris: string[]): Promise<void> {
  vendor.uris = uris;
  const { operation } = await jsonOf<{ operation: string }>(gateway.call('/v1/video/generations', { prompt: 'a cat' }));
  expect((await gateway.call('/v1/video/operations', { operation })).status).toBe(200);
}

describe('a download URL on a foreign host', () => {
  test.each([
    ['user-info', `http://key@127.0.0.1:${own}/v1beta/`],
    ['the host as user-info', `http://127.0.0.1:${own}@127.0.0.1:${foreign}/v1beta/`],
    ['another port', `http://127.0.0.1:${foreign}/v1beta/`],
    ['no port', 'http://127.0.0.1/v1beta/'],
    ['another scheme', `https://127.0.0.1:${own}/v1beta/`],
    ['a file: URL', 'file:///v1beta/'],
    ['an upper-case scheme', `HTTP://127.0.0.1:${own}/v1beta/`],
    ['a trailing dot', `http://127.0.0.1.:${own}/v1beta/`],
    ['the host before another', `http://127.0.0.1.localhost:${foreign}/v1beta/`],
    ['the host after another', `http://x127.0.0.1:${own}/v1beta/`],
    ['a backslash before another host', `http://127.0.0.1:${own}\\@127.0.0.1:${foreign}/v1beta/`],
    ['backslashes', `http:\\\\127.0.0.1:${foreign}\\v1beta\\`],
    ['an encoded slash before another host', `http://127.0.0.1:${own}%2f@127.0.0.1:${foreign}/v1beta/`],
    ['an encoded digit', `http://%3127.0.0.1:${own}/v1beta/`],
    ['a wide digit', `http://\uff1127.0.0.1:${own}/v1beta/`],
    ['IPv6', `http://[::1]:${own}/v1beta/`],
    ['IPv4 in IPv6', `http://[::ffff:127.0.0.1]:${foreign}/v1beta/`],
    ['a decimal number', `http://2130706433:${own}/v1beta/`],
    ['a decimal number and another port', `http://2130706433:${foreign}/v1beta/`],
    ['an octal number', `http://0177.0.0.1:${own}/v1beta/`],
    ['a short number', `http://127.1:${own}/v1beta/`],
    ["a name that resolves to the vendor's host", `http://localhost:${own}/v1beta/`],
    ["a name that resolves to the vendor's host, on another port", `http://localhost:${foreign}/v1beta/`],
    ["a subdomain of a name that resolves to the vendor's host", `http://video.localhost:${own}/v1beta/`],
    ['no scheme', `//127.0.0.1:${own}/v1beta/`],
    ['a leading space', ` http://127.0.0.1:${own}/v1beta/`],
    ['a tab in the host', `http://127.0\t.0.1:${own}/v1beta/`],
    ['a line break in the path', `http://127.0.0.1:${own}/v1beta/\r\nx-injected: 1/`],
    ['a cloud metadata address', 'http://169.254.169.254/v1beta/'],
  ])('returns 400 forbidden_target for %s', async (_trick, start) => {
    const operation = `${start}models/clip/operations/abc`;
    expect(await refusalOf('/v1/video/operations', { operation })).toEqual(forbidden);
    expect(await downloads(`${start}files/abc:download?alt=media`)).toEqual(forbidden);
    expect([...vendor.asked, ...assets.asked, ...listener.asked]).toEqual([]);
  });

  test.each([
    'models/../operations/abc',
    'operations/..',
    'operations/abc?x=1',
    'operations/abc#x',
    'operations/a%2fb',
    'operations\\abc',
    'models/clip',
    '/v1beta/operations/abc',
    '..',
  ])('rejects a malformed video operation name: %s', async (operation) => {
    expect(await refusalOf('/v1/video/operations', { operation })).toEqual(forbidden);
    expect(vendor.asked).toEqual([]);
  });

  test.each([5, {}, ['operations/a'], true])('rejects a video operation that is not a string: %j', async (value) => {
    expect(await refusalOf('/v1/video/operations', { operation: value })).toEqual(forbidden);
    expect(await refusalOf('/v1/video/download', { uri: value })).toEqual(forbidden);
  });

  test.each(['files/a%2F..%2Fmodels', 'files/a%5c..', 'files/../models', 'files/%2e%2e/models'])(
    'rejects a video URL whose path has dot segments: %s',
    async (path) => {
      expect(await downloads(`${vendor.url}/v1beta/${path}`)).toEqual(forbidden);
      expect(vendor.asked).toEqual([]);
    },
  );
});

describe('a file that the vendor redirects', () => {
  const uri = `${vendor.url}/v1beta/files/abc:download?alt=media`;
  const path = '/v1beta/files/abc:download?alt=media';

  test.each([
    ['to another host', `${listener.url}/v1beta/files/abc`],
    ['to another host by name', `http://localhost:${foreign}/v1beta/files/abc`],
    ['to another host without a scheme', `//127.0.0.1:${foreign}/v1beta/files/abc`],
    ['with a backslash', `\\\\127.0.0.1:${foreign}\\files`],
    ['with user-info', `http://user@127.0.0.1:${foreign}/`],
    ['to a local file', 'file:///etc/passwd'],
    ['to a cloud metadata address', 'http://169.254.169.254/'],
  ])("doesn't follow a video file's redirect to a foreign host: %s", async (_how, location) => {
    vendor.files.set(path, (response) => redirect(response, location));
    expect(await downloads(uri)).toEqual(forbidden);
    expect(vendor.asked).toHaveLength(1);
    expect(listener.asked).toEqual([]);
  });

  test('stops following an endless chain of redirects for a video file', async () => {
    vendor.files.set(path, (response) => redirect(response, path));
    expect(await downloads(uri)).toEqual(forbidden);
    expect(vendor.asked.length).toBeLessThan(10);
  });

  test("sends the provider's key only to the vendor's origin when a video file is redirected", async () => {
    vendor.files.set(path, (response) => redirect(response, '/v1beta/stored/abc'));
    vendor.files.set('/v1beta/stored/abc', (response) => redirect(response, `${assets.url}/abc.webm?signature=1`));
    assets.files.set('/abc.webm?signature=1', (response) => sendBytes(response, 100_000));
    const answer = await gateway.call('/v1/video/download', { uri });
    expect(answer.headers.get('content-type')).toBe('video/webm');
    expect((await answer.arrayBuffer()).byteLength).toBe(100_000);
    expect(vendor.asked.map(({ headers }) => headers['x-goog-api-key'])).toEqual([key, key]);
    expect(assets.asked.map(({ headers }) => JSON.stringify(headers))).toEqual([expect.not.stringContaining(key)]);
  });
});

describe('the URL of a video file', () => {
  test("downloads a video from the asset host without sending the provider's key", async () => {
    const uri = `${assets.url}/made/one.webm`;
    await finishedVideo(uri);
    assets.files.set('/made/one.webm', (response) => sendBytes(response, 5));
    expect((await gateway.call('/v1/video/download', { uri })).status).toBe(200);
    expect(assets.asked.map(({ headers }) => headers['x-goog-api-key'])).toEqual([undefined]);
  });

  test('returns 400 forbidden_target if the file URL points to a foreign host', async () => {
    const uri = `${listener.url}/v1beta/files/abc`;
    await finishedVideo(uri);
    expect(await downloads(uri)).toEqual(forbidden);
    expect(listener.asked).toEqual([]);
  });

  test('returns 502 upstream_error for an asset host URL that belongs to no known video', async () => {
    expect(await downloads(`${assets.url}/made/other.webm`)).toEqual([502, 'upstream_error']);
    expect(assets.asked).toEqual([]);
  });
});

test("keeps the provider's key out of responses and logs", async () => {
  vendor.operation = (_name, response) => json(response, 403, { error: { message: `the key ${key} may not do this` } });
  const answer = await gateway.call('/v1/video/operations', { operation: 'operations/abc' });
  expect(answer.status).toBe(502);
  expect(await answer.text()).not.toContain(key);
  vendor.operation = (name, response) =>
    json(response, 200, { name, done: true, error: { code: 3, message: `${key} a very private prompt`, status: 'INVALID_ARGUMENT' } });
  const { operation } = await jsonOf<{ operation: string }>(gateway.call('/v1/video/generations', { prompt: 'a very private prompt' }));
  expect(await (await gateway.call('/v1/video/operations', { operation })).text()).not.toContain(key);
  expect((await callsOf(gateway))[0]).toMatchObject({ outcome: 'failed', cost: 0 });
  const rows = JSON.stringify(await gateway.database.query('select * from videos'));
  for (const text of [rows, ...lent().logs]) {
    expect(text).not.toContain(key);
    expect(text).not.toContain('private prompt');
  }
});
