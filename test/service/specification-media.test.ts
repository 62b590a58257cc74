/**
 * Specification 4.2, 4.3, 4.6 for images and speech, row by row, and the media rows of 7.2, 7.4 and 7.5.
 *
 * Video is in files of its own; the row of content rules is in media-vendors.test.ts.
 */
import { describe, expect, it } from '@jest/globals';
import { makeSecret } from '../../src/keys/secret.ts';
import type { CallRow, TestGateway } from '../support/gateway.ts';
import { callsOf, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import { expectPlainText, expectRouteError, projectLender } from './inference-routes.ts';
import type { MediaRoute } from './media-routes.ts';
import { askMedia, images, mediaRoutes, mediaYaml, sentToVendor, speech } from './media-routes.ts';

const lent = shareGateway({ yaml: mediaYaml });
const lendProject = projectLender(lent, 'media');

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const png = /^iVBORw0KGgo/;

interface ImageResult {
  readonly created: number;
  readonly data: readonly { readonly b64_json: string }[];
}

async function issueKey({ admin, project }: TestGateway, settings: object): Promise<{ key: string; prefix: string }> {
  return jsonOf(admin('POST', `/provision/teams/${project}/keys`, { name: 'own', ...settings }));
}

/** The call row behind an answer. */
async function rowOf(gateway: TestGateway): Promise<CallRow & Record<string, unknown>> {
  const [row] = (await callsOf(gateway)) as readonly (CallRow & Record<string, unknown>)[];
  if (!row) throw new Error('no call is recorded');
  return row;
}

describe('4.6 images', () => {
  it('200: the standard shape: n and size have defaults, and only the listed fields are sent', async () => {
    const gateway = await lendProject();
    const odd = `{"model":"one/picture", "prompt": "a \\u0066ox", "quality":"hd","user":"u","style":1,"background":"x","steps":9,"seed":7}`;
    const answer = await gateway.call(images.path, odd);
    expect(answer.headers.get('x-gateway-model')).toBe('one/picture');
    expect(answer.headers.get('x-gateway-cache')).toBeNull();
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect([answer.status, await jsonOf(answer)]).toEqual([
      200,
      { created: expect.any(Number), data: [{ b64_json: expect.stringMatching(png) }] },
    ]);
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/images/generations',
      headers: { authorization: 'Bearer key-of-one', 'x-second-key': 'second-key-of-one' },
      text: '{"model":"picture","prompt":"a \\u0066ox","n":1,"size":"1024x1024","response_format":"b64_json"}',
    });
  });

  it('200: n and size of the caller; as many entries as images', async () => {
    const gateway = await lendProject();
    const { data } = await jsonOf<ImageResult>(askMedia(gateway, images, 'one/picture', { more: { n: 3, size: '16x8' } }));
    expect(data).toHaveLength(3);
    expect(new Set(data.map(({ b64_json }) => b64_json)).size).toBe(3);
    expect(sentToVendor(gateway).text).toContain('"n":3,"size":"16x8"');
  });

  it('200: image_response_format: false sends no response_format', async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, images, 'strict/b64-only');
    expect([answer.status, sentToVendor(gateway).text]).toEqual([200, '{"model":"b64-only","prompt":"a fox","n":1,"size":"8x8"}']);
  });

  it('200: a url of the vendor is fetched, so that the result is b64_json for every provider', async () => {
    const gateway = await lendProject();
    const { data } = await jsonOf<ImageResult>(askMedia(gateway, images, 'one/image-url', { more: { n: 2 } }));
    expect(data).toEqual([{ b64_json: expect.stringMatching(png) }, { b64_json: expect.stringMatching(png) }]);
    expect(sentToVendor(gateway).path).toMatch(/^\/files\//);
  });

  it('200: the other shape: the model in the path, size in two members, 4 steps; seed and cfg_scale as they were written', async () => {
    const gateway = await lendProject();
    const answer = await gateway.call(
      images.path,
      '{"model":"art/flux","prompt":"a fox","size":"16x8","seed":12345678901234567890,"cfg_scale":3.50,"n":4,"style":1}',
    );
    expect([answer.status, await jsonOf(answer)]).toEqual([
      200,
      { created: expect.any(Number), data: [{ b64_json: expect.stringMatching(png) }] },
    ]);
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/genai/acme/flux',
      headers: { authorization: 'Bearer key-of-art' },
      text: '{"prompt":"a fox","width":16,"height":8,"steps":4,"seed":12345678901234567890,"cfg_scale":3.50}',
    });
    await askMedia(gateway, images, 'art/flux', { more: { steps: 2, size: undefined } });
    expect(sentToVendor(gateway).text).toBe('{"prompt":"a fox","width":1024,"height":1024,"steps":2}');
    await askMedia(gateway, images, 'art/flux', { more: { size: 'auto', seed: null } });
    expect(sentToVendor(gateway).text).toBe('{"prompt":"a fox","steps":4}');
  });

  it('400 plain text: a size that the other shape cannot say', async () => {
    const gateway = await lendProject();
    for (const size of ['large', '8', '0x8', 8, {}, '8x8x8', '1024 x 1024'])
      await expectPlainText(await askMedia(gateway, images, 'art/flux', { more: { size } }), 400);
    expect(await callsOf(gateway)).toEqual([]);
  });
});

describe('4.6 speech', () => {
  it('200: the standard shape: voice and response_format have defaults; the bytes of the vendor', async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, speech, 'one/spoken', { more: { speed: 2, instructions: 'sing', stream_format: 'sse' } });
    expect([answer.status, answer.headers.get('content-type'), answer.headers.get('x-gateway-model')]).toEqual([
      200,
      'audio/mpeg',
      'one/spoken',
    ]);
    const audio = Buffer.from(await answer.arrayBuffer());
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/audio/speech',
      text: '{"model":"spoken","input":"Hello, fox.","voice":"alloy","response_format":"mp3"}',
    });
    const straight = await fetch(`${gateway.vendor.url}/v1/audio/speech`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer any' },
      body: sentToVendor(gateway).text,
    });
    expect(audio.equals(Buffer.from(await straight.arrayBuffer()))).toBe(true);
  });

  it.each([
    ['wav', 'audio/wav'],
    ['pcm', 'audio/pcm'],
  ])('200: response_format %s: the media type of the vendor, %s (4.3)', async (response_format, type) => {
    const answer = await askMedia(await lendProject(), speech, 'one/spoken', { more: { response_format, voice: 'echo' } });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, type]);
    await answer.body?.cancel();
  });

  it('200: <provider>/<voice>: the voice in the path, the text in the row’s field beside its fixed body', async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, speech, 'path/Rachel The Fox', { more: { voice: 'nova', response_format: 'wav' } });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'audio/mpeg']);
    expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(100);
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/text-to-speech/Rachel%20The%20Fox',
      headers: { 'xi-api-key': 'key-of-path' },
      text: '{"model_id":"v2","text":"Hello, fox."}',
    });
  });

  it('200: <provider>/<voice>: the voice in the query; the media type that the provider row sets (4.3)', async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, speech, 'query/aura&x=1');
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'audio/x-own']);
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/speak?encoding=mp3&model=aura%26x%3D1',
      headers: { authorization: 'Token key-of-query' },
      text: '{"text":"Hello, fox."}',
    });
    await answer.body?.cancel();
  });
});

describe('4.6 model', () => {
  it.each([
    [images, 'two/picture', 'two/picture'],
    [images, 'standard', 'one/picture'],
    [images, 'artful', 'art/flux'],
    [images, 'gpt-image:1.5_x', 'one/gpt-image:1.5_x'],
    [speech, 'two/spoken', 'two/spoken'],
    [speech, 'standard', 'one/spoken'],
    [speech, 'voices', 'path/rachel'],
    [speech, 'tts-1', 'one/tts-1'],
  ] as const)('$name: %s', async (route: MediaRoute, model, served) => {
    const answer = await askMedia(await lendProject(), route, model);
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, served]);
    await answer.body?.cancel();
  });

  it('a tier: the application’s, else the project’s, else the file’s', async () => {
    const gateway = await lendProject();
    const path = `/provision/teams/${gateway.project}`;
    const served = async (route: MediaRoute, headers = {}) => {
      const answer = await askMedia(gateway, route, 'standard', { headers });
      await answer.body?.cancel();
      return answer.headers.get('x-gateway-model');
    };
    await gateway.admin('PUT', path, { image_tiers: { standard: ['two/mine'] }, speech_tiers: { standard: ['two/mine'] } });
    expect([await served(images), await served(speech)]).toEqual(['two/mine', 'two/mine']);
    await gateway.admin('PUT', `${path}/applications/bot`, {
      image_tiers: { standard: ['art/bots'] },
      speech_tiers: { standard: ['path/bots'] },
    });
    const bot = { 'x-gateway-source': 'bot' };
    expect([await served(images, bot), await served(speech, bot), await served(images)]).toEqual(['art/bots', 'path/bots', 'two/mine']);
  });

  it('a project that may not use the default provider has its own first one as default', async () => {
    const gateway = await lendProject();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { providers: ['art', 'path', 'two'] });
    for (const route of mediaRoutes) {
      const answer = await askMedia(gateway, route, 'bare');
      expect(answer.headers.get('x-gateway-model')).toBe('two/bare');
      await answer.body?.cancel();
    }
  });

  it.each(mediaRoutes)('a retired model or provider never causes no_route on $name: it is asked last', async (route) => {
    const gateway = await lendProject();
    const [first, second] = route.name === 'images' ? ['one/picture', 'two/picture'] : ['one/spoken', 'two/spoken'];
    const served = async (model: string) => {
      const answer = await askMedia(gateway, route, model);
      await answer.body?.cancel();
      return answer.headers.get('x-gateway-model');
    };
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { retired: [first] });
    expect([await served('standard'), await served(first ?? '')]).toEqual([second, first]);
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { retired: ['one', 'two'] });
    expect(await served('standard')).toBe(first);
  });

  it('GET /v1/models lists media models and tiers that the key may use', async () => {
    const gateway = await lendProject();
    const listed = async (headers = {}) =>
      (await jsonOf<{ data: { id: string }[] }>(gateway.call('/v1/models', undefined, headers))).data.map(({ id }) => id);
    const all = await listed();
    expect(all).toEqual(expect.arrayContaining(['one/picture', 'one/spoken', 'two/picture', 'standard', 'artful', 'voices', 'prose']));
    expect(new Set(all).size).toBe(all.length);
    const { key } = await issueKey(gateway, { models: ['artful', 'one/spoken'] });
    const narrow = await listed(bearer(key));
    expect(narrow).toEqual(expect.arrayContaining(['artful', 'one/spoken', 'standard']));
    for (const id of ['voices', 'prose', 'one/picture', 'auto']) expect(narrow).not.toContain(id);
  });
});

describe('4.2 headers', () => {
  it.each(mediaRoutes)('source and correlation headers are stored on $name; timeout and memory have no effect', async (route) => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, route, 'one/slow-100', {
      headers: {
        'x-gateway-source': 'studio',
        'x-gateway-task-id': 't-1',
        'x-gateway-turn-id': 'u-1',
        'x-gateway-agent-id': 'a-1',
        'x-gateway-trigger-kind': 'cron',
        'x-gateway-trigger-detail': 'nightly',
        'x-gateway-iteration': '3',
        'x-gateway-distil-saved': 'many',
        'x-gateway-timeout-ms': '1',
        'x-gateway-memory': 'maybe',
      },
    });
    expect(answer.status).toBe(200);
    await answer.arrayBuffer();
    expect(await rowOf(gateway)).toMatchObject({
      id: answer.headers.get('x-gateway-call-id'),
      route: route.name,
      source: 'studio',
      task_id: 't-1',
      turn_id: 'u-1',
      agent_id: 'a-1',
      trigger_kind: 'cron',
      trigger_detail: 'nightly',
      iteration: 3,
      distil_saved: null,
    });
  });
});

describe('cost', () => {
  it.each([
    ['per image', images, 'one/picture', { n: 2 }, { cost: 0.08, estimated: false }],
    ['per token, as the vendor counts them', images, 'one/tokens', {}, { cost: (5 * 2 + 40 * 1056) / 1e6, estimated: false }],
    ['per token, with a vendor that counts none', images, 'one/no-usage', {}, { cost: (5 * 2 + 40 * 1056) / 1e6, estimated: true }],
    ['per character, by code point', speech, 'one/spoken', { input: '🦊ab' }, { cost: (3 * 15) / 1e6, estimated: false }],
    ['per second, estimated from the text', speech, 'one/seconds', { input: 'x'.repeat(30) }, { cost: 0.002, estimated: true }],
    [
      'per token, estimated from the text',
      speech,
      'one/tts-tokens',
      { input: 'x'.repeat(60) },
      { cost: (0.6 * 15 + 12 * 84) / 1e6, estimated: true },
    ],
    ['unknown', images, 'two/other', {}, { cost: null }],
    ['unknown', speech, 'two/other', {}, { cost: null }],
  ] as const)('%s: $name %s', async (_title, route: MediaRoute, model, more, expected) => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, route, model, { more });
    expect(answer.status).toBe(200);
    await answer.arrayBuffer();
    const row = await rowOf(gateway);
    expect(row).toMatchObject({ ...expected, model, outcome: 'ok', status: 200, attempts: [{ n: 1, status: 200, cost: row.cost }] });
    expect(row.attempts).toHaveLength(1);
  });
});

describe('7.2 plain text', () => {
  it.each(mediaRoutes)('400 on $name: body not valid JSON', async (route) => {
    for (const body of ['{', '', '[]', '"x"', 'null', '\ufeff{}', '{"model":"one/a","model":"two/b"}', '{"model":"one/a"} x'])
      await expectPlainText(await lent().call(route.path, body), 400);
  });

  it.each(mediaRoutes)('413 on $name: body larger than 32 MiB', async (route) => {
    await expectPlainText(await lent().call(route.path, Buffer.alloc(33 * 1024 * 1024, 0x20)), 413);
  });

  it.each(mediaRoutes)('415 on $name: content type not JSON', async (route) => {
    for (const type of ['text/plain', '', 'application/jsonx', 'multipart/form-data'])
      await expectPlainText(await lent().call(route.path, '{}', { 'content-type': type }), 415);
    await expectPlainText(await lent().call(route.path, '{}', { 'content-encoding': 'gzip' }), 415);
  });
});

describe('7.4 codes', () => {
  it.each(mediaRoutes)('missing_key and invalid_key, 401 on $name, before the body is looked at', async (route) => {
    const { url, key } = lent();
    const post = (headers: Record<string, string>) => fetch(url + route.path, { method: 'POST', headers, body: 'x' });
    for (const headers of [{}, { 'x-api-key': key }, { authorization: `Basic ${key}` }] as Record<string, string>[])
      await expectRouteError(await post(headers), route, { status: 401, code: 'missing_key' });
    for (const wrong of ['sk-gw-nonsense', makeSecret().secret])
      await expectRouteError(await post(bearer(wrong)), route, { status: 401, code: 'invalid_key' });
  });

  it.each(mediaRoutes)('missing_model, 400 on $name: no model or empty', async (route) => {
    for (const model of [undefined, '', null, 7, ['one/x']])
      await expectRouteError(await askMedia(lent(), route, model), route, { status: 400, code: 'missing_model' });
  });

  it('bad_model, 400 on images: a character other than letter, digit, ".", "_", "-", ":"', async () => {
    for (const model of ['one/a b', 'one/a+b', 'one/ä', 'a?b', 'one/a%2Fb', 'one/a#b', 'one/a\\b', 'one/a\u0000', 'one/🦊', 'one@x/a'])
      await expectRouteError(await askMedia(lent(), images, model), images, { status: 400, code: 'bad_model' });
  });

  it.each(mediaRoutes)('bad_model, 400 on $name: a second slash, or a step to another path', async (route) => {
    for (const model of ['one/black-forest/flux', 'one//x', '/x', 'one/', '/', 'one/..', 'path/.', '..'])
      await expectRouteError(await askMedia(lent(), route, model), route, { status: 400, code: 'bad_model' });
  });

  it.each([
    [images, 'imageShape'],
    [speech, 'speechShape'],
  ] as const)('bad_shape, 500 on $name: a row that names an unknown shape at run time', (route: MediaRoute, member) =>
    withGateway({ yaml: mediaYaml }, async (gateway) => {
      const { loadConfig } = await import('../../src/config/load.ts');
      const config = loadConfig({ env: {}, fileText: mediaYaml(gateway.vendor.url, gateway.vendor.url), fileName: 'gateway.yaml' });
      const { one } = config.providers;
      if (!one) throw new Error('there is no provider one');
      // What no file can say.
      const row = { ...one, [member]: 'cubist' } as typeof one;
      gateway.app.reload({ ...config, providers: { ...config.providers, one: row } });
      await expectRouteError(await askMedia(gateway, route, 'one/x'), route, { status: 500, code: 'bad_shape' });
      expect([await callsOf(gateway), gateway.vendor.requests()]).toEqual([[], []]);
    }),
  );

  it.each(mediaRoutes)('upstream_failed, 502 or 503 on $name: the vendor cannot be reached, or does not answer', async (route) => {
    const gateway = await lendProject();
    for (const model of ['dead/x', 'one/hang']) {
      await expectRouteError(await askMedia(gateway, route, model), route, { status: [502, 503], code: 'upstream_failed' });
      expect(await rowOf(gateway)).toMatchObject({
        outcome: 'failed',
        code: 'upstream_failed',
        model: null,
        cost: 0,
        attempts: [{ status: null, outcome: 'failed' }],
      });
    }
  });

  it.each(mediaRoutes)('upstream_error, 502 or 503 on $name: the message holds the vendor’s status and body, 429 too', async (route) => {
    const gateway = await lendProject();
    for (const [model, status, words] of [
      ['fail-500', 500, 'error'],
      ['refuse-400', 400, 'not one that'],
      ['fail-401', 401, 'error'],
      ['not-found', 404, 'error'],
      ['rate-limited-0.05', 429, 'rate_limit_exceeded'],
      ['quota', 429, 'insufficient_quota'],
      ['redirect', 302, ''],
    ] as const) {
      const answer = await askMedia(gateway, route, `one/${model}`);
      expect(answer.headers.get('retry-after')).toBeNull();
      const message = new RegExp(`^the vendor answered ${status}[^]*${words}`);
      await expectRouteError(answer, route, { status: [502, 503], code: 'upstream_error', message });
      expect(await rowOf(gateway)).toMatchObject({ code: 'upstream_error', cost: 0, attempts: [{ status, cost: 0 }] });
    }
    const asked = gateway.vendor
      .requests()
      .filter(({ path, body }) => path === route.path && body.toString().includes('rate-limited-0.05'));
    expect(asked).toHaveLength(1);
  });

  it('upstream_error on images: what the vendor’s filter took', async () => {
    const gateway = await lendProject();
    const message = /CONTENT_FILTERED/;
    await expectRouteError(await askMedia(gateway, images, 'art/filtered'), images, {
      status: [502, 503],
      code: 'upstream_error',
      message,
    });
  });

  it.each(mediaRoutes)('bad_upstream_response, 502 or 503 on $name: an answer that cannot be read', async (route) => {
    const gateway = await lendProject();
    const broken = route.name === 'images' ? ['break-after-1'] : [];
    for (const model of ['garbage', 'empty', 'wrong-type', ...broken]) {
      await expectRouteError(await askMedia(gateway, route, `one/${model}`), route, { status: [502, 503], code: 'bad_upstream_response' });
      expect(await rowOf(gateway)).toMatchObject({ outcome: 'failed', code: 'bad_upstream_response', cost: 0 });
    }
  });

  it.each(mediaRoutes)('on $name there is no failover: the tier’s next model is not asked', async (route) => {
    const gateway = await lendProject();
    const tiers = { pair: ['one/fail-500', 'two/fine'] };
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { image_tiers: tiers, speech_tiers: tiers });
    await expectRouteError(await askMedia(gateway, route, 'pair'), route, { status: [502, 503], code: 'upstream_error' });
    expect((await rowOf(gateway)).attempts).toHaveLength(1);
  });
});

describe('7.4 ceilings', () => {
  const priced = (route: MediaRoute): string => (route.name === 'images' ? 'one/picture' : 'one/spoken');

  it.each(mediaRoutes)('tenant_capped, 429 on $name: the key reached a ceiling; what does not pass uses no slot', async (route) => {
    const gateway = await lendProject();
    for (const [ceiling, ceilings] of [
      ['calls', { calls: 1 }],
      ['rpm', { rpm: 1 }],
      ['cost', { cost: route.name === 'images' ? 0.04 : 0.000165 }],
    ] as const) {
      const { key } = await issueKey(gateway, { ceilings });
      const asked = () => askMedia(gateway, route, priced(route), { headers: bearer(key) });
      const noRoute = await askMedia(gateway, route, 'nobody/x', { headers: bearer(key) });
      expect(noRoute.status).toBe(400);
      const first = await asked();
      expect([ceiling, first.status]).toEqual([ceiling, 200]);
      await first.arrayBuffer();
      const refused = await asked();
      expect(refused.headers.get('retry-after')).toBe('60');
      const message = new RegExp(`budget exceeded \\(${ceiling}\\)`);
      await expectRouteError(refused, route, { status: 429, code: 'tenant_capped', message });
    }
  });

  it.each(mediaRoutes)('source_capped and credits_exhausted, 429 on $name', async (route) => {
    const gateway = await lendProject();
    const path = `/provision/teams/${gateway.project}`;
    await gateway.admin('PUT', `${path}/applications/bot`, { ceilings: { calls: 0 } });
    const message = "source budget exceeded for 'bot' (calls)";
    const bot = await askMedia(gateway, route, priced(route), { headers: { 'x-gateway-source': 'bot' } });
    await expectRouteError(bot, route, { status: 429, code: 'source_capped', message });
    await gateway.admin('PUT', path, { monthly_cap: 0 });
    const capped = await askMedia(gateway, route, priced(route));
    expect(capped.headers.get('retry-after')).toBe('3600');
    await expectRouteError(capped, route, { status: 429, code: 'credits_exhausted' });
  });

  it.each(mediaRoutes)('subscription_required, 402 on $name', async (route) => {
    const gateway = await lendProject();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { may_call: false });
    await expectRouteError(await askMedia(gateway, route, priced(route)), route, { status: 402, code: 'subscription_required' });
  });

  it.each(mediaRoutes)('on $name a model without a price is not asked where a cost ceiling applies', async (route) => {
    const gateway = await lendProject();
    const { key } = await issueKey(gateway, { ceilings: { cost: 5 } });
    const tiers = { mixed: ['two/unknown', priced(route)] };
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { image_tiers: tiers, speech_tiers: tiers });
    const answer = await askMedia(gateway, route, 'mixed', { headers: bearer(key) });
    expect(answer.headers.get('x-gateway-model')).toBe(priced(route));
    await answer.arrayBuffer();
    const refused = await askMedia(gateway, route, 'two/unknown', { headers: bearer(key) });
    await expectRouteError(refused, route, { status: 400, code: 'no_route', message: 'no models available for route' });
  });
});

describe('7.5 no_route', () => {
  const noRoute = (message: string | RegExp) => ({ status: 400, code: 'no_route', message });

  it.each(mediaRoutes)('`unknown … provider` on $name: the vendor named does not serve this type', async (route) => {
    const gateway = await lendProject();
    const other = route.name === 'images' ? 'path' : 'art';
    for (const name of ['nobody', 'text', other])
      await expectRouteError(await askMedia(gateway, route, `${name}/x`), route, noRoute(`unknown ${route.word} provider '${name}'`));
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { providers: ['two'] });
    await expectRouteError(await askMedia(gateway, route, 'one/x'), route, noRoute(`unknown ${route.word} provider 'one'`));
  });

  it.each(mediaRoutes)('`no … provider configured` on $name: no vendor of this type', async (route) => {
    const gateway = await lendProject();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { providers: ['text'] });
    for (const model of ['one/x', 'standard', 'bare'])
      await expectRouteError(await askMedia(gateway, route, model), route, noRoute(`no ${route.word} provider configured`));
    const yaml = (url: string) => `providers: { films: { base_url: ${url}/v1beta, api_key: some-key, dialect: gemini } }\n`;
    await withGateway({ yaml }, async (films) => {
      await expectRouteError(await askMedia(films, route, 'x'), route, noRoute(`no ${route.word} provider configured`));
    });
  });

  it.each(mediaRoutes)('`no providers configured` on $name: no vendor at all', (route) =>
    withGateway({ yaml: () => 'providers: {}\n' }, async (gateway) => {
      await expectRouteError(await askMedia(gateway, route, 'one/x'), route, noRoute('no providers configured'));
    }),
  );

  it.each(mediaRoutes)('`model not permitted for this key: …` on $name', async (route) => {
    const gateway = await lendProject();
    const { key } = await issueKey(gateway, { models: ['two/fine', 'standard'] });
    const asked = (model: string) => askMedia(gateway, route, model, { headers: bearer(key) });
    for (const model of ['one/x', 'bare', route.name === 'images' ? 'artful' : 'voices'])
      await expectRouteError(await asked(model), route, noRoute(`model not permitted for this key: ${model}`));
    for (const model of ['two/fine', 'standard']) expect((await asked(model)).status).toBe(200);
  });

  it.each(mediaRoutes)(
    '`no models available for route` on $name: no vendor of the project serves the tier, and catalog fill is off',
    async (route) => {
      const gateway = await lendProject();
      const path = `/provision/teams/${gateway.project}`;
      const tiers = { gone: ['text/x'] };
      await gateway.admin('PUT', path, { image_tiers: tiers, speech_tiers: tiers, catalog_fill: false });
      await expectRouteError(await askMedia(gateway, route, 'gone'), route, noRoute('no models available for route'));
      await gateway.admin('PUT', path, { catalog_fill: true });
      const answer = await askMedia(gateway, route, 'gone');
      await answer.body?.cancel();
      // The cheapest of the kind.
      expect(answer.headers.get('x-gateway-model')).toBe(route.name === 'images' ? 'two/picture' : 'one/seconds');
    },
  );

  it.each(mediaRoutes)('on $name it calls no vendor and records no call', async (route) => {
    const gateway = await lendProject();
    const before = gateway.vendor.requests().length;
    await expectRouteError(await askMedia(gateway, route, 'nobody/x'), route, noRoute(/^unknown/));
    await expectRouteError(await askMedia(gateway, route, 'x'.repeat(301)), route, noRoute(/./));
    expect([await callsOf(gateway), gateway.vendor.requests().length]).toEqual([[], before]);
  });
});
