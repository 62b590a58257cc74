/**
 * Tests invalid responses of video vendors, callers that disconnect while a vendor is silent, and projects that don't
 * have access to the vendor.
 */
import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { afterAll, beforeEach, describe, expect, test } from '@jest/globals';
import { callsOf, eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { createVideoVendor, json } from './video-vendor.ts';

const vendor = await createVideoVendor();
const lent = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  chat: { base_url: ${vendor.url}/v1, api_key: key-chat, dialect: chat }
  film: { base_url: ${vendor.url}/v1beta, api_key: video-key-0123456789, dialect: gemini }
models: { film/clip: { per_second: 0.05 } }
defaults: { video_provider: film, video_model: clip }
`,
});
afterAll(() => vendor.close());

let projects = 0;
let gateway: TestGateway;
beforeEach(async () => {
  projects += 1;
  gateway = await lent().withProject(`garbage-${projects}`);
  vendor.asked.length = 0;
  vendor.files.clear();
  vendor.operation = null;
  vendor.uris = [`${vendor.url}/v1beta/files/a:download`];
});

const generate = (): Promise<Response> => gateway.call('/v1/video/generations', { prompt: 'a cat', duration_seconds: 4 });
const ask = (operation: string): Promise<Response> => gateway.call('/v1/video/operations', { operation });
const fetchFile = (uri: string): Promise<Response> => gateway.call('/v1/video/download', { uri });

async function refusalOf(answer: Promise<Response>): Promise<[number, string, string]> {
  const response = await answer;
  const { error } = await jsonOf<{ error: { code: string; message: string } }>(response);
  return [response.status, error.code, error.message];
}

async function started(): Promise<string> {
  return (await jsonOf<{ operation: string }>(generate())).operation;
}

describe('a malformed operation name', () => {
  test.each([
    ['with an unknown format', 'projects/p/operations/a'],
    ['with a path traversal', 'models/../../secrets/operations/a'],
    ['on another host', 'http://127.0.0.2/v1beta/operations/a'],
    ['with a zero byte', 'operations/a\u0000'],
    ['of 900 kB', `operations/${'a'.repeat(900_000)}`],
    ['that is not a string', 5],
    ['that is empty', ''],
  ])('returns 502 bad_upstream_response for an operation %s', async (_what, name) => {
    vendor.files.set('/v1beta/models/clip:predictLongRunning', (response) => json(response, 200, { name }));
    expect(await refusalOf(generate())).toEqual([502, 'bad_upstream_response', expect.stringMatching(/operation/)]);
    await eventually(async () =>
      expect(await callsOf(gateway)).toMatchObject([{ outcome: 'failed', code: 'bad_upstream_response', cost: 0 }]),
    );
  });
});

describe('a malformed vendor response', () => {
  const done = (name: string, ...videos: unknown[]) => ({
    name,
    done: true,
    response: { generateVideoResponse: { generatedSamples: videos.map((video) => ({ video })) } },
  });

  test.each<[string, (name: string) => unknown]>([
    ['invalid JSON', () => undefined],
    ['an array', () => []],
    ['a result without a URL', (name) => done(name, {})],
    ['a URL that is not a string', (name) => done(name, { uri: 5 })],
    ['an empty URL', (name) => done(name, { uri: '' })],
    ['a URL without a scheme', (name) => done(name, { uri: 'files/a' })],
    ['a URL with a zero byte', (name) => done(name, { uri: 'https://film.example/files/a\u0000' })],
    ['a URL with an unpaired surrogate', (name) => done(name, { uri: 'https://film.example/\ud800' })],
    ['a URL of 100 kB', (name) => done(name, { uri: `https://film.example/${'a'.repeat(100_000)}` })],
  ])('returns 502 upstream_failed for %s but lets a later poll succeed', async (_what, say) => {
    const operation = await started();
    vendor.operation = (name, response) => {
      const said = say(name);
      if (said === undefined) response.end('garbage');
      else json(response, 200, said);
    };
    expect(await refusalOf(ask(operation))).toEqual([502, 'upstream_failed', expect.stringMatching(/^the response /)]);
    vendor.operation = null;
    expect(await jsonOf(ask(operation))).toMatchObject({ done: true, video_uri: vendor.uris[0] });
    expect(await callsOf(gateway)).toMatchObject([{ outcome: 'ok', cost: 0.2, estimated: false }]);
  });

  test('downloads a file with a very long URL', async () => {
    const path = `/v1beta/made/${randomBytes(3_000).toString('hex')}`;
    vendor.uris = [vendor.url + path];
    vendor.files.set(path, (response) => response.end('video'));
    expect(await jsonOf(ask(await started()))).toMatchObject({ done: true, video_uri: vendor.uris[0] });
    expect(await (await fetchFile(vendor.url + path)).text()).toBe('video');
  });

  test.each([
    ['an empty response', undefined],
    ['a response without videos', { generateVideoResponse: {} }],
  ])('returns 502 video_failed and charges nothing for %s', async (_what, answer) => {
    const operation = await started();
    vendor.operation = (name, response) => json(response, 200, { name, done: true, ...(answer && { response: answer }) });
    expect(await refusalOf(ask(operation))).toEqual([502, 'video_failed', 'the video failed: NO_VIDEO']);
    expect(await refusalOf(ask(operation))).toEqual([502, 'video_failed', 'the video failed: NO_VIDEO']);
    expect(await callsOf(gateway)).toMatchObject([{ outcome: 'failed', code: 'video_failed', cost: 0 }]);
  });
});

test('cancels the vendor request if the caller disconnects during a download', async () => {
  const state = { asked: false, closed: false };
  const path = '/v1beta/files/slow:download';
  vendor.files.set(path, (response) => {
    state.asked = true;
    response.once('close', () => {
      state.closed = true;
    });
  });
  const leaving = request(`${gateway.url}/v1/video/download`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
  });
  leaving.on('error', () => undefined).end(JSON.stringify({ uri: vendor.url + path }));
  await eventually(async () => expect(state.asked).toBe(true));
  leaving.destroy();
  await eventually(async () => expect(state.closed).toBe(true));
});

test('lets a project download its earlier videos after it has lost access to the vendor', async () => {
  const operation = await started();
  const { video_uri: uri } = await jsonOf<{ video_uri: string }>(ask(operation));
  vendor.files.set(new URL(uri).pathname, (response) => response.end('video'));
  await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { providers: ['chat'] });
  const noRoute = [400, 'no_route', 'no video provider configured'];
  await eventually(async () => expect(await refusalOf(generate())).toEqual(noRoute));
  vendor.asked.length = 0;
  expect(await refusalOf(ask('operations/other'))).toEqual(noRoute);
  expect(await refusalOf(fetchFile(`${vendor.url}/v1beta/files/other`))).toEqual(noRoute);
  expect(vendor.asked).toEqual([]);
  expect((await ask(operation)).status).toBe(200);
  expect(await (await fetchFile(uri)).text()).toBe('video');
});
