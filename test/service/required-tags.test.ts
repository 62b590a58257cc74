/**
 * Tests projects and keys that require tags on providers. We check all routes that send a caller's text to a vendor.
 * The providers whose names start with `us` don't have tags, so their keys can't appear in any request.
 */
import { afterEach, describe, expect, it, test } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { callsOf, eventually, jsonOf, shareGateway, type TestGateway, withGateway } from '../support/gateway.ts';
import { unusedUrl } from '../support/unused-port.ts';
import { ask, expectRouteError, projectLender, routeOf, routes } from './inference-routes.ts';
import { bearer, issueKey } from './media-routes.ts';

const say = (word: string): string => `say-${Buffer.from(word).toString('base64url')}`;

const yaml = (vendorUrl: string, _deadUrl: string, { us = '' } = {}): string => {
  const row = (name: string, dialect: string, tags: string) =>
    `  ${name}: { base_url: ${vendorUrl}/${dialect === 'gemini' ? 'v1beta' : 'v1'}, api_key: key-of-${name}, dialect: ${dialect}, tags: [${tags}] }\n`;
  return `
providers:
${row('us', 'chat', us)}${row('eu', 'chat', 'eu')}${row('safe', 'chat', 'eu, zero-retention')}${row('us-claude', 'messages', us)}${row(
  'eu-claude',
  'messages',
  'eu',
)}${row('us-films', 'gemini', us)}${row('eu-films', 'gemini', 'eu')}
models:
  us/small: { input: 0.01, output: 0.01 }
  eu/small: { input: 1, output: 1 }
  us/only: { input: 1, output: 1 }
  us-claude/echo: { input: 1, output: 1 }
  eu-claude/echo: { input: 1, output: 1 }
  us/vectors: { kind: embeddings, input: 1 }
  eu/vectors: { kind: embeddings, input: 1 }
  us/judge: { kind: moderations, input: 1 }
  eu/judge: { kind: moderations, input: 1 }
  us/rank: { kind: rerank, per_search: 1 }
  eu/rank: { kind: rerank, per_search: 1 }
  us/picture: { per_image: 0.01 }
  eu/picture: { per_image: 1 }
  us/voice: { per_million_characters: 1 }
  eu/voice: { per_million_characters: 9 }
  us/ears: { kind: transcriptions, per_second: 0.001 }
  eu/ears: { kind: transcriptions, per_second: 0.01 }
  us-films/video-polls-0: { per_second: 0.05 }
  eu-films/video-polls-0: { per_second: 0.05 }
tiers:
  standard: [us/small, eu/small, safe/small]
  american: [us/only]
  trivial: [us/${say('strong')}]
  strong: [us/big, eu/big]
  claude: [us-claude/echo, eu-claude/echo]
  embed: [us/vectors, eu/vectors]
  judge: [us/judge, eu/judge]
  rank: [us/rank, eu/rank]
image_tiers: { standard: [us/picture, eu/picture], american: [us/picture] }
speech_tiers: { standard: [us/voice, eu/voice] }
transcription_tiers: { standard: [us/ears, eu/ears] }
auto: { classifier: model }
memory: { idle_minutes: 0.02, recall_deadline_ms: 20000 }
`;
};

const lent = shareGateway({ database: 'any', yaml });
const lend = projectLender(lent, 'tags');

/** A project that requires tags, and never uses catalog fill. */
async function lendRequiring(...tags: string[]): Promise<TestGateway> {
  const gateway = await lend();
  await change(gateway, { required_tags: tags, catalog_fill: false });
  gateway.vendor.clear();
  return gateway;
}

async function change({ admin, project }: TestGateway, settings: object): Promise<void> {
  expect((await admin('PUT', `/provision/teams/${project}`, settings)).status).toBe(200);
}

/** The providers that got requests, by their keys. */
function calledProviders({ vendor }: TestGateway): string[] {
  const keys = vendor.requests().map(({ headers }) => JSON.stringify(headers).match(/key-of-[a-z-]+/)?.[0] ?? '');
  return [...new Set(keys)].map((key) => key.replace('key-of-', ''));
}

afterEach(() => {
  expect(calledProviders(lent()).filter((name) => name.startsWith('us'))).toEqual([]);
  lent().vendor.clear();
});

const tierOf = { chat: 'standard', messages: 'claude', responses: 'standard', embeddings: 'embed', moderations: 'judge', rerank: 'rank' };

describe.each(routes)('$name', (route) => {
  it('calls the first provider with the required tags', async () => {
    const gateway = await lendRequiring('eu');
    const answer = await ask(gateway, route, tierOf[route.name]);
    expect([answer.status, answer.headers.get('x-gateway-model')?.split('/')[0]]).toEqual([
      200,
      route.name === 'messages' ? 'eu-claude' : 'eu',
    ]);
    await answer.text();
    await eventually(async () => {
      const [call] = await callsOf(gateway);
      expect(call?.plan).toContainEqual({ model: expect.stringMatching(/^us/), skipped: 'tags_missing', lacks: ['eu'] });
    });
  });

  it('returns 400 no_route with a list of the tags that each provider is missing', async () => {
    const gateway = await lendRequiring('eu', 'zero-retention', 'on-prem');
    const answer = await ask(gateway, route, tierOf[route.name]);
    const provider = route.name === 'messages' ? 'us-claude' : 'us';
    await expectRouteError(answer, route, {
      status: 400,
      code: 'no_route',
      message: new RegExp(
        `^required tags are missing: ${provider} \\(eu, zero-retention, on-prem\\), eu(-claude)? \\(zero-retention, on-prem\\)`,
      ),
    });
    expect([await callsOf(gateway), gateway.vendor.requests()]).toEqual([[], []]);
  });
});

test('lists only the circuit breakers of providers with the required tags', async () => {
  const gateway = await lendRequiring('eu');
  const issued = await issueKey(gateway, { required_tags: ['zero-retention'] });
  const breakersFor = async (key: string) => {
    const { breakers } = await jsonOf<{ breakers: { provider: string }[] }>(gateway.call('/status/peek', undefined, bearer(key)));
    return breakers.map(({ provider }) => provider).sort();
  };
  expect(await breakersFor(gateway.key)).toEqual(['eu', 'eu-claude', 'eu-films', 'safe']);
  expect(await breakersFor(issued.key)).toEqual(['safe']);
  await change(gateway, { required_tags: [] });
  expect(await breakersFor(gateway.key)).toContain('us');
});

test("combines a key's required tags with those of its project", async () => {
  const gateway = await lendRequiring('eu');
  const path = `/provision/teams/${gateway.project}/keys`;
  const issued = await issueKey(gateway, { required_tags: ['zero-retention'] });
  const [listed] = (await jsonOf<{ data: object[] }>(gateway.admin('GET', path))).data;
  expect(listed).toMatchObject({ prefix: issued.prefix, required_tags: ['zero-retention'] });
  const modelFor = async (key: string) =>
    (await ask(gateway, routeOf('chat'), 'standard', { headers: bearer(key) })).headers.get('x-gateway-model');
  expect([await modelFor(gateway.key), await modelFor(issued.key)]).toEqual(['eu/small', 'safe/small']);

  const rotated = await jsonOf<{ key: string; prefix: string }>(
    gateway.admin('POST', `${path}/${issued.prefix}/rotate`, { grace_seconds: 60 }),
  );
  expect([await modelFor(issued.key), await modelFor(rotated.key)]).toEqual(['safe/small', 'safe/small']);
  // As a process of an older version rotates a key.
  const older = await jsonOf<{ key: string; prefix: string }>(
    gateway.admin('POST', `${path}/${rotated.prefix}/rotate`, { grace_seconds: 60 }),
  );
  await gateway.database.query(`update virtual_keys set required_tags = '{}' where prefix = $1`, [older.prefix]);
  expect(await modelFor(older.key)).toBe('safe/small');
});

test("keeps required tags when an older version changes the project's settings", async () => {
  const gateway = await lendRequiring('eu');
  await gateway.database.query(`update projects set settings = settings - 'required_tags' || '{"retired": []}' where slug = $1`, [
    gateway.project,
  ]);
  await change(gateway, { retired: ['safe'] });
  expect(await jsonOf(gateway.admin('GET', `/provision/teams/${gateway.project}`))).toMatchObject({
    required_tags: ['eu'],
    retired: ['safe'],
  });
  expect((await ask(gateway, routeOf('chat'), 'us/small')).status).toBe(400);
});

test('rejects tags with invalid characters', async () => {
  const { admin, project } = await lend();
  for (const tags of [['e u'], [''], Array.from({ length: 17 }, (_, index) => `tag-${index}`)]) {
    expect((await admin('PUT', `/provision/teams/${project}`, { required_tags: tags })).status).toBe(400);
    expect((await admin('POST', `/provision/teams/${project}/keys`, { name: 'x', required_tags: tags })).status).toBe(400);
  }
});

describe('catalog fill with required tags', () => {
  it('substitutes only models of providers with the required tags', async () => {
    const gateway = await lendRequiring('eu');
    await change(gateway, { catalog_fill: true });
    expect((await ask(gateway, routeOf('chat'), 'american')).headers.get('x-gateway-model')).toMatch(/^eu/);
  });

  it('returns 400 no_route if no substitute has the required tags', async () => {
    const gateway = await lendRequiring('on-prem');
    await change(gateway, { catalog_fill: true });
    const route = routeOf('chat');
    await expectRouteError(await ask(gateway, route, 'american'), route, {
      status: 400,
      code: 'no_route',
      message: /^required tags are missing: us \(on-prem\), .*eu-claude \(on-prem\)/,
    });
  });
});

describe('media with required tags', () => {
  const audio = (model: string) => {
    const form = new FormData();
    form.set('model', model);
    form.set('file', new Blob(['sound']), 'a.wav');
    return form;
  };
  const upload = ({ url, key }: TestGateway, model: string) =>
    fetch(`${url}/v1/audio/transcriptions`, { method: 'POST', headers: bearer(key), body: audio(model) });
  const cases: Record<string, (gateway: TestGateway, model: string) => Promise<Response>> = {
    images: (gateway, model) => gateway.call('/v1/images/generations', { model, prompt: 'a fox', size: '8x8' }),
    speech: (gateway, model) => gateway.call('/v1/audio/speech', { model, input: 'Hello, fox.' }),
    transcriptions: upload,
    video: (gateway, model) =>
      gateway.call('/v1/video/generations', {
        model: model.includes('/') ? model.replace(/\/.*/, '-films/video-polls-0') : 'video-polls-0',
        prompt: 'a fox',
      }),
  };

  it.each(Object.entries(cases))('uses a provider with the required tags for %s', async (_name, send) => {
    const gateway = await lendRequiring('eu');
    const answer = await send(gateway, 'standard');
    expect(answer.status).toBe(200);
    await answer.arrayBuffer();
    expect(calledProviders(gateway)).toEqual([expect.stringMatching(/^eu/)]);
  });

  it.each(Object.entries(cases))('returns 400 no_route with the missing tags for %s', async (_name, send) => {
    const gateway = await lendRequiring('eu');
    const answer = await send(gateway, 'us/picture');
    const { error } = await jsonOf<{ error: object }>(answer);
    expect(error).toMatchObject({ code: 'no_route', message: expect.stringMatching(/^required tags are missing: us(-films)? \(eu\)$/) });
    await change(gateway, { required_tags: ['on-prem'] });
    const none = await jsonOf<{ error: object }>(await send(gateway, 'standard'));
    expect(none.error).toMatchObject({
      code: 'no_route',
      message: expect.stringMatching(/^required tags are missing: us.*, eu(-films)? \(on-prem\)/),
    });
    expect(gateway.vendor.requests()).toEqual([]);
  });

  it('returns 400 no_route for an image if no provider has the required tags', async () => {
    const gateway = await lendRequiring('eu');
    const { error } = await jsonOf<{ error: object }>(gateway.call('/v1/images/generations', { model: 'american', prompt: 'a fox' }));
    expect(error).toMatchObject({ code: 'no_route', message: 'required tags are missing: us (eu)' });
  });
});

test('counts tokens with a provider that has the required tags', async () => {
  const gateway = await lendRequiring('eu');
  const body = { model: 'claude', messages: [{ role: 'user', content: 'hi' }] };
  expect((await gateway.call('/v1/messages/count_tokens', body)).status).toBe(200);
  expect(calledProviders(gateway)).toEqual(['eu-claude']);
});

test("skips a classifier whose provider doesn't have the required tags", async () => {
  const gateway = await lendRequiring('eu');
  const answer = await ask(gateway, routeOf('chat'), 'auto');
  expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'eu/small']);
  await change(gateway, { tiers: { trivial: [`eu/${say('strong')}`] } });
  expect((await ask(gateway, routeOf('chat'), 'auto')).headers.get('x-gateway-model')).toBe('eu/big');
});

test('lists only models whose providers have the required tags', async () => {
  const gateway = await lendRequiring('eu');
  const idsFor = async (key: string) =>
    (await jsonOf<{ data: { id: string }[] }>(gateway.call('/v1/models', undefined, bearer(key)))).data.map(({ id }) => id);
  const all = await idsFor(gateway.key);
  expect(all.filter((id) => id.startsWith('us'))).toEqual([]);
  expect(all).toEqual(expect.arrayContaining(['eu/small', 'eu/picture', 'standard', 'strong', 'auto']));
  expect(all).not.toEqual(expect.arrayContaining(['american']));
  const { key } = await issueKey(gateway, { required_tags: ['zero-retention'] });
  expect(await idsFor(key)).toEqual(['standard', 'auto']);
});

test('searches memory only with embedding models that have the required tags', async () => {
  const gateway = await lendRequiring('eu');
  const search = async (key: string) => jsonOf<object>(gateway.call('/v1/memory/search', { query: 'tea' }, bearer(key)));
  expect(await search(gateway.key)).toMatchObject({ vector: true });
  expect(calledProviders(gateway)).toEqual(['eu']);
  const { key } = await issueKey(gateway, { required_tags: ['on-prem'] });
  gateway.vendor.clear();
  expect(await search(key)).toMatchObject({ vector: false });
  expect(gateway.vendor.requests()).toEqual([]);
});

test("doesn't serve a cached response from a provider without the required tags", async () => {
  await withGateway({ database: 'any', cache: true, yaml }, async (gateway) => {
    const { key } = await issueKey(gateway, { required_tags: ['eu'] });
    const send = async (headers = {}) => {
      const answer = await ask(gateway, routeOf('chat'), 'standard', { headers });
      await answer.text();
      return [answer.headers.get('x-gateway-cache'), answer.headers.get('x-gateway-model')];
    };
    expect([await send(), await send()]).toEqual([
      ['miss', 'us/small'],
      ['hit', 'us/small'],
    ]);
    expect([await send(bearer(key)), await send(bearer(key))]).toEqual([
      ['miss', 'eu/small'],
      ['hit', 'eu/small'],
    ]);
    await change(gateway, { required_tags: ['eu'] });
    expect(await send()).toEqual(['hit', 'eu/small']);
  });
});

test('applies changed provider tags after a reload', async () => {
  await withGateway({ database: 'any', yaml }, async (gateway) => {
    await change(gateway, { required_tags: ['eu'] });
    const reload = async (us: string) => {
      const fileText = yaml(gateway.vendor.url, await unusedUrl(), { us });
      gateway.app.reload(
        loadConfig({ env: { GATEWAY_TEMPORAL: 'off', GATEWAY_DATA_DIR: gateway.dataDir }, fileText, fileName: 'gateway.yaml' }),
      );
      return (await ask(gateway, routeOf('chat'), 'standard')).headers.get('x-gateway-model');
    };
    expect([await reload(''), await reload('eu'), await reload('')]).toEqual(['eu/small', 'us/small', 'eu/small']);
  });
});

test('uses the local embedder regardless of the required tags', async () => {
  await withGateway(
    {
      database: 'any',
      yaml: (url) => `providers: { us: { base_url: ${url}/v1, api_key: k, dialect: chat } }`,
      isLocalEmbedderReady: () => true,
    },
    async (gateway) => {
      await change(gateway, { required_tags: ['eu'] });
      expect((await gateway.call('/v1/embeddings', { model: 'embed', input: 'tea' })).headers.get('x-gateway-model')).toBe(
        'local/bge-small-en-v1.5',
      );
      expect((await ask(gateway, routeOf('chat'), 'us/small')).status).toBe(400);
    },
  );
});
