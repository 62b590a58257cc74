/** Tests the video routes of a running service (docs/api/reference.md#video). */
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { callsOf, eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';

const key = 'video-key-0123456789';
let now = Date.now();
const clock = { now: () => now };
/** While this is set, statements on videos fail as if the database were down. */
let isDown = false;
/** While this is set, transactions fail in the same way. */
let isLost = false;

const lent = shareGateway({
  database: 'any',
  clock,
  yaml: (vendorUrl, deadUrl) => `
providers:
  chat: { base_url: ${vendorUrl}/v1, api_key: key-chat, dialect: chat }
  film: { base_url: ${vendorUrl}/v1beta, api_key: ${key}, dialect: gemini }
  other: { base_url: ${vendorUrl}/v1beta, api_key: ${key}, dialect: gemini }
  dead: { base_url: ${deadUrl}/v1beta, api_key: key-dead, dialect: gemini }
  shapeless: { base_url: ${vendorUrl}/v1, api_key: key-chat, dialect: chat, serves: [video] }
models:
  chat/echo: { input: 1, output: 1 }
  film/clip: { per_second: 0.05 }
  "film/video-polls-0": { per_second: 0.05 }
  "film/video-polls-0:video-fails": { per_second: 0.05 }
  "film/video-polls-0:filtered": { per_second: 0.05 }
defaults: { video_provider: film, video_model: clip }
`,
  wrapDatabase: (database) =>
    ({
      ...database,
      query: (text, values) => (isDown && text.includes('videos') ? refuse() : database.query(text, values)),
      transaction: (work) => (isLost ? refuse() : database.transaction(work)),
      listen: (channel, onPayload, onReconnect) => database.listen(channel, onPayload, onReconnect),
      close: () => database.close(),
    }) satisfies Database,
});

function refuse(): Promise<never> {
  return Promise.reject(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }));
}

interface Started {
  readonly operation: string;
  readonly done: boolean;
  readonly model: string;
}

let projects = 0;
/** Runs a test with a separate project. */
let gateway: TestGateway;
async function freshProject(): Promise<TestGateway> {
  projects += 1;
  return lent().withProject(`films-${projects}`);
}

beforeAll(async () => {
  gateway = await freshProject();
});
afterEach(() => {
  isDown = false;
  isLost = false;
});

const generate = (body: unknown, of = gateway): Promise<Response> => of.call('/v1/video/generations', body);
const start = async (model: string, of = gateway): Promise<Started> => jsonOf<Started>(generate({ model, prompt: 'a cat' }, of));
const ask = (operation: unknown, of = gateway): Promise<Response> => of.call('/v1/video/operations', { operation });
const fetchFile = (uri: unknown, of = gateway): Promise<Response> => of.call('/v1/video/download', { uri });

/** Returns status, code and message of an error response. */
async function refusal(answer: Promise<Response>): Promise<{ status: number; code: string; message: string }> {
  const { status, code, message } = await wholeRefusal(answer);
  return { status, code, message };
}

type Refusal = { readonly code: string; readonly type: string; readonly message: string };

async function wholeRefusal(answer: Promise<Response>): Promise<Refusal & { readonly status: number }> {
  const response = await answer;
  const { error } = await jsonOf<{ error: Refusal }>(response);
  expect(error.type).toBe(error.code);
  expect(response.headers.get('x-gateway-call-id')).toMatch(/^[0-9a-f-]{36}$/);
  return { status: response.status, ...error };
}

/** Returns the requests that the vendor gets while `work` runs. */
async function vendorRequests(work: () => Promise<unknown>): Promise<readonly string[]> {
  const before = lent().vendor.requests().length;
  await work();
  return lent()
    .vendor.requests()
    .slice(before)
    .map(({ path }) => path);
}

describe('a video from start to download', () => {
  test('starts, polls and downloads a video', async () => {
    const of = await freshProject();
    const response = await generate({ prompt: 'a cat', model: 'film/video-polls-0', duration_seconds: 4, aspect_ratio: '16:9', n: 2 }, of);
    expect(response.status).toBe(200);
    expect(response.headers.get('x-gateway-model')).toBe('film/video-polls-0');
    const started = await jsonOf<Started>(response);
    expect(started).toEqual({
      operation: expect.stringMatching(/^models\/video-polls-0\/operations\/demo\d+$/),
      done: false,
      model: 'film/video-polls-0',
    });
    const asked = lent()
      .vendor.requests()
      .findLast(({ path }) => path.endsWith(':predictLongRunning'));
    expect(asked?.headers['x-goog-api-key']).toBe(key);
    expect(asked?.path).not.toContain(key);
    expect(JSON.parse(asked?.body.toString() ?? '')).toEqual({
      instances: [{ prompt: 'a cat' }],
      parameters: { aspectRatio: '16:9', durationSeconds: 4, sampleCount: 2 },
    });
    expect(await callsOf(of)).toMatchObject([
      { route: 'video', outcome: 'ok', cost: 0.4, estimated: true, model_asked: 'film/video-polls-0' },
    ]);

    const state = await jsonOf<{ video_uri: string; videos: unknown[] }>(ask(started.operation, of));
    expect(state).toEqual({
      operation: started.operation,
      done: true,
      video_uri: expect.stringContaining('/v1beta/files/'),
      videos: [{ video_uri: state.video_uri }, { video_uri: expect.not.stringMatching(`^${state.video_uri}$`) }],
    });
    const [call] = await callsOf(of);
    expect(call).toMatchObject({ outcome: 'ok', cost: 0.4, estimated: false, attempts: [{ cost: 0.4 }] });

    const file = await fetchFile(state.video_uri, of);
    expect(file.status).toBe(200);
    expect(file.headers.get('content-type')).toBe('video/mp4');
    expect(file.headers.get('cache-control')).toBe('no-store');
    expect(Buffer.from(await file.arrayBuffer()).toString('latin1', 4, 12)).toBe('ftypisom');
    expect(await callsOf(of)).toHaveLength(1);
  });

  test("generates a video with the default model if the request doesn't name a model", async () => {
    const image = { b64_json: 'aGk=', mime_type: 'image/png' };
    expect(await jsonOf(generate({ prompt: 'a cat', image, model: null }))).toMatchObject({ model: 'film/clip' });
    const asked = lent()
      .vendor.requests()
      .findLast(({ path }) => path.endsWith('clip:predictLongRunning'));
    expect(JSON.parse(asked?.body.toString() ?? '')).toEqual({
      instances: [{ prompt: 'a cat', image: { bytesBase64Encoded: 'aGk=', mimeType: 'image/png' } }],
      parameters: {},
    });
  });

  test('uses the default video provider if the model name has no provider', async () => {
    expect(await start('clip')).toMatchObject({ model: 'film/clip' });
    const { operation, model } = await start('other/video-polls-0');
    expect(model).toBe('other/video-polls-0');
    expect(await jsonOf(ask(operation))).toMatchObject({ done: true });
  });

  test('accepts the full vendor URL of an operation', async () => {
    const { operation } = await start('video-polls-0');
    expect(await jsonOf(ask(`${lent().vendor.url}/v1beta/${operation}`))).toMatchObject({ operation, done: true });
  });

  test('polls the vendor for a video no more than once every three seconds', async () => {
    const { operation } = await start('video-polls-1');
    const asks = async (): Promise<number> => (await vendorRequests(() => ask(operation))).length;
    expect(await asks()).toBe(1);
    expect(await asks()).toBe(0);
    expect(await jsonOf(ask(operation))).toEqual({ operation, done: false });
    now += 3_000;
    expect(await asks()).toBe(1);
    expect(await asks()).toBe(0);
    expect(await jsonOf(ask(operation))).toMatchObject({ done: true });
  });

  test('shares one vendor request among concurrent callers that poll the same video', async () => {
    const { operation } = await start('video-polls-5');
    const asked = await vendorRequests(() => Promise.all(Array.from({ length: 20 }, () => ask(operation))));
    // Later callers read the state from the stored row.
    expect(asked).toEqual([`/v1beta/${operation}`]);
  });
});

describe('a video that fails', () => {
  test.each([
    ['fails', 'video-polls-0:video-fails', 'the video failed: INVALID_ARGUMENT: The video could not be made.'],
    ['is filtered', 'video-polls-0:filtered', 'the video failed: FILTERED: The scripted vendor was asked to filter this video.'],
  ])('returns 502 video_failed with the reason if the video %s', async (_how, model, message) => {
    const of = await freshProject();
    const { operation } = await start(model, of);
    expect(await callsOf(of)).toMatchObject([{ outcome: 'ok', cost: 0.4 }]);
    for (let times = 0; times < 2; times += 1)
      expect(await refusal(ask(operation, of))).toEqual({ status: 502, code: 'video_failed', message });
    expect(await callsOf(of)).toMatchObject([
      { outcome: 'failed', code: 'video_failed', cost: 0, estimated: false, attempts: [{ cost: 0 }] },
    ]);
    lent().vendor.clear();
    expect(await refusal(ask(operation, of))).toMatchObject({ code: 'video_failed', message: message.split(': ').slice(0, 2).join(': ') });
  });
});

test('counts the estimated cost of a running video towards a cost ceiling', async () => {
  const of = await freshProject();
  const { key: capped } = await jsonOf<{ key: string }>(
    of.admin('POST', `/provision/teams/${of.project}/keys`, { name: 'capped', ceilings: { cost: 1 } }),
  );
  const authorization = { authorization: `Bearer ${capped}` };
  const used = async (): Promise<number> =>
    (await jsonOf<{ key: { ceilings: { cost: { used: number } } } }>(of.call('/status/peek', undefined, authorization))).key.ceilings.cost
      .used;
  // A text call creates the counters, unless a video has done so.
  await of.call('/v1/chat/completions', { model: 'chat/echo', messages: [{ role: 'user', content: 'hi' }] }, authorization);
  const before = await used();
  const body = { model: 'film/video-polls-0:video-fails', prompt: 'a cat' };
  const { operation } = await jsonOf<Started>(of.call('/v1/video/generations', body, authorization));
  expect((await used()) - before).toBeCloseTo(0.4, 9);
  expect((await ask(operation, of)).status).toBe(502);
  expect(await used()).toBe(before);
});

describe('errors on the video routes', () => {
  const paths = ['/v1/video/generations', '/v1/video/operations', '/v1/video/download'];

  test.each(paths)('checks the key, then the content type, then the body of a video request: %s', async (path) => {
    const { url, call } = gateway;
    expect((await fetch(url + path, { method: 'POST', body: '{}' })).status).toBe(401);
    expect(await refusal(call(path, {}, { authorization: 'Bearer sk-gw-none' }))).toMatchObject({ status: 401, code: 'invalid_key' });
    for (const [status, body, headers] of [
      [415, '{}', { 'content-type': 'text/plain' }],
      [400, '{', {}],
      [400, '', {}],
      [400, '[]', {}],
      [400, Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), {}],
      [413, Buffer.alloc(32 * 1024 * 1024 + 1, ' '), {}],
    ] as const) {
      const answer = await call(path, body, headers);
      expect([status, answer.status, answer.headers.get('content-type')]).toEqual([status, status, 'text/plain; charset=utf-8']);
    }
  });

  test.each<[string, unknown, number, string, RegExp]>([
    ['a model with an invalid character', { prompt: 'x', model: 'film/a b' }, 400, 'bad_model', /model/],
    ['a model with a second slash', { prompt: 'x', model: 'film/a/b' }, 400, 'bad_model', /model/],
    ['a model that is not a string', { prompt: 'x', model: 5 }, 400, 'bad_model', /model/],
    ['an invalid model and no prompt', { model: 'film/a b' }, 400, 'bad_model', /model/],
    ['an unknown provider and no prompt', { model: 'nobody/clip' }, 400, 'no_route', /^unknown video provider 'nobody'$/],
    ['no prompt', { model: 'film/clip' }, 400, 'bad_request', /^prompt:/],
    ['an empty prompt', { prompt: ' ' }, 400, 'bad_request', /^prompt:/],
    ['a prompt that is not a string', { prompt: ['x'] }, 400, 'bad_request', /^prompt:/],
    ['an image without its type', { prompt: 'x', image: { b64_json: 'aGk=' } }, 400, 'bad_request', /^image:/],
    ['an n of 0', { prompt: 'x', n: 0 }, 400, 'bad_request', /^n:/],
    ['an n above what a call reserves', { prompt: 'x', n: 101 }, 400, 'bad_request', /^n:/],
    ['a length above what a call reserves', { prompt: 'x', duration_seconds: '86401' }, 400, 'bad_request', /^duration_seconds:/],
    ['an n that is not an integer', { prompt: 'x', n: 1.5 }, 400, 'bad_request', /^n:/],
    ['an n that is not a number', { prompt: 'x', n: '2' }, 400, 'bad_request', /^n:/],
    ['an unknown provider', { prompt: 'x', model: 'nobody/clip' }, 400, 'no_route', /^unknown video provider 'nobody'$/],
    ['a provider without videos', { prompt: 'x', model: 'chat/clip' }, 400, 'no_route', /^unknown video provider 'chat'$/],
    ['a provider of another dialect', { prompt: 'x', model: 'shapeless/clip' }, 500, 'bad_shape', /unknown response format/],
    ["the vendor's refusal", { prompt: 'x', model: 'film/refuse-400' }, 502, 'upstream_error', /^the vendor responded with 400: \{/],
    ["the vendor's failure", { prompt: 'x', model: 'film/fail-503' }, 502, 'upstream_error', /^the vendor responded with 503: \{/],
    ["the vendor's rate limit", { prompt: 'x', model: 'film/rate-limited' }, 502, 'upstream_error', /^the vendor responded with 429: \{/],
    ['an unreadable response', { prompt: 'x', model: 'film/garbage' }, 502, 'bad_upstream_response', /./],
    ['an unreachable vendor', { prompt: 'x', model: 'dead/clip' }, 503, 'upstream_failed', /ECONNREFUSED/],
  ])('returns an error if a video is requested with %s', async (_what, body, status, code, message) => {
    expect(await refusal(generate(body))).toEqual({ status, code, message: expect.stringMatching(message) });
  });

  test('returns 400 for a duplicate field in a video request', async () => {
    const answer = await generate('{"prompt":"a","prompt":"b"}');
    expect([answer.status, await answer.text()]).toEqual([400, 'prompt: duplicate key\n']);
  });

  test('returns 400 no_route without a video provider', async () => {
    const poor = await freshProject();
    await poor.admin('PUT', `/provision/teams/${poor.project}`, { providers: ['chat'] });
    await eventually(async () =>
      expect(await refusal(generate({ prompt: 'x' }, poor))).toMatchObject({
        status: 400,
        code: 'no_route',
        message: 'no video provider configured',
      }),
    );
    const { key: narrow } = await jsonOf<{ key: string }>(
      gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'narrow', models: ['chat/echo'] }),
    );
    const answer = gateway.call('/v1/video/generations', { prompt: 'x' }, { authorization: `Bearer ${narrow}` });
    expect(await refusal(answer)).toMatchObject({ status: 400, code: 'no_route', message: 'model not permitted for this key: clip' });
  });

  test('returns 503 budget_unavailable during a database outage', async () => {
    const { operation } = await start('clip');
    isDown = true;
    for (const body of [{ prompt: 'x' }, { prompt: 'x', model: 'film/video-polls-0' }]) {
      const asked = await vendorRequests(async () => {
        const answer = await generate(body);
        expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
        expect(await answer.json()).toMatchObject({ error: { code: 'budget_unavailable' } });
      });
      expect(asked).toEqual([]);
    }
    expect(await refusal(ask(operation))).toMatchObject({ status: 503, code: 'budget_unavailable' });
    isDown = false;
    expect((await ask(operation)).status).toBe(200);
  });

  test('charges the estimated cost of a video if the database fails during the vendor request', async () => {
    const of = await freshProject();
    const asked = await vendorRequests(async () => {
      isLost = true;
      expect(await refusal(generate({ prompt: 'x' }, of))).toMatchObject({ status: 503, code: 'budget_unavailable' });
      isLost = false;
    });
    expect(asked).toEqual(['/v1beta/models/clip:predictLongRunning']);
    await eventually(async () =>
      expect(await callsOf(of)).toMatchObject([{ outcome: 'unknown', code: 'budget_unavailable', cost: 0.4, estimated: true }]),
    );
  });

  test.each([{}, { operation: '' }, { operation: null }])('returns 400 missing_operation for %j', async (body) => {
    expect(await refusal(gateway.call('/v1/video/operations', body))).toMatchObject({ status: 400, code: 'missing_operation' });
  });

  test.each([{}, { uri: '' }, { uri: null }])('returns 400 missing_uri for %j', async (body) => {
    expect(await refusal(gateway.call('/v1/video/download', body))).toMatchObject({ status: 400, code: 'missing_uri' });
  });

  test("returns 502 upstream_error for an operation that the vendor doesn't know", async () => {
    const notFound = {
      status: 502,
      code: 'upstream_error',
      message: expect.stringMatching(/^the vendor responded with 404: \{"error":\{"code":404/),
    };
    expect(await refusal(ask('models/clip/operations/unknown'))).toEqual(notFound);
    expect(await refusal(ask(`${lent().vendor.url}/v1beta/operations/unknown`))).toEqual(notFound);
    expect(await refusal(fetchFile(`${lent().vendor.url}/v1beta/files/unknown:download?alt=media`))).toEqual(notFound);
  });

  /**
   * Asks for videos that the project didn't start, and expects the same refusal each time, without a vendor request.
   */
  const expectRefusals = async (of: TestGateway, expected: object): Promise<void> => {
    const { operation: foreign } = await start('video-polls-0');
    const { video_uri: foreignUri } = await jsonOf<{ video_uri: string }>(ask(foreign));
    const asked = await vendorRequests(async () => {
      for (const answer of [
        ask('models/clip/operations/unknown', of),
        ask(foreign, of),
        fetchFile(`${lent().vendor.url}/v1beta/files/unknown:download?alt=media`, of),
        fetchFile(foreignUri, of),
      ])
        expect(await refusal(answer)).toMatchObject(expected);
    });
    expect(asked).toEqual([]);
  };

  test("returns 429 for unknown and foreign operations once a ceiling is reached, but not for the project's own", async () => {
    const of = await freshProject();
    await of.admin('PUT', `/provision/teams/${of.project}/applications/${of.project}`, { ceilings: { calls: 1 } });
    expect(await refusal(ask('models/clip/operations/unknown', of))).toMatchObject({ code: 'upstream_error' });
    const { operation } = await start('video-polls-0', of);
    await expectRefusals(of, { status: 429, code: 'source_capped' });
    const { video_uri: uri } = await jsonOf<{ video_uri: string }>(ask(operation, of));
    expect((await fetchFile(uri, of)).status).toBe(200);
  });

  test("returns 402 for unknown and foreign operations if the project may not call, but not for the project's own", async () => {
    const of = await freshProject();
    const { operation } = await start('video-polls-0', of);
    await of.admin('PUT', `/provision/teams/${of.project}`, { may_call: false });
    await expectRefusals(of, { status: 402, code: 'subscription_required' });
    const { video_uri: uri } = await jsonOf<{ video_uri: string }>(ask(operation, of));
    expect((await fetchFile(uri, of)).status).toBe(200);
  });

  test("returns 502 upstream_error for another project's operation", async () => {
    const { operation } = await start('video-polls-0');
    const { video_uri: uri } = await jsonOf<{ video_uri: string }>(ask(operation));
    const stranger = await freshProject();
    const unknown = await wholeRefusal(ask('models/clip/operations/unknown', stranger));
    const spellings = [uri, `${uri}&x=1`, uri.replace(':download', ''), uri.replace('/v1beta/', '/download/v1beta/')];
    const asked = await vendorRequests(async () => {
      const operations = [operation, operation.replace(/^models\/[^/]+\//, ''), operation.replace(/^models\/[^/]+/, 'models/other')];
      expect(new Set(operations).size).toBe(3);
      for (const answer of [
        ...operations.map((spelling) => ask(spelling, stranger)),
        ...spellings.map((spelling) => fetchFile(spelling, stranger)),
      ])
        expect(await wholeRefusal(answer)).toEqual({ ...unknown, message: expect.stringContaining('responded with 404') });
    });
    expect(asked).toEqual([]);
  });

  test("returns 502 upstream_error without calling the vendor if the URL isn't a file", async () => {
    const asked = await vendorRequests(async () => {
      for (const path of ['/v1beta/files', '/v1beta/models', '/v1beta/files/a/b', '/'])
        expect(await refusal(fetchFile(`${lent().vendor.url}${path}`))).toMatchObject({ status: 502, code: 'upstream_error' });
    });
    expect(asked).toEqual([]);
  });
});
