import { describe, expect, test } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';

const chatPath = '/v1/chat/completions';
const ask = (model: string, content = 'hi') => ({ model, messages: [{ role: 'user', content }] });
const modelOf = async (answer: Promise<Response>): Promise<string | null> => (await answer).headers.get('x-gateway-model');
const ids = async ({ call }: TestGateway, headers?: Record<string, string>): Promise<string[]> =>
  (await jsonOf<{ data: { id: string }[] }>(call('/v1/models', undefined, headers))).data.map(({ id }) => id);

const gateway = shareGateway({
  database: 'any',
  yaml: (vendor) => `
providers:
  one: { base_url: ${vendor}/v1, api_key: key-one, dialect: chat }
  two: { base_url: ${vendor}/v1, api_key: key-two, dialect: chat, serves: [chat] }
  three: { base_url: ${vendor}/v1, api_key: key-three, dialect: messages }
models:
  one/echo: { input: 1, output: 4 }
  one/echo-small: { input: 0.2, output: 0.8 }
  one/embed: { kind: embeddings, input: 0.02 }
  two/echo: { input: 3, output: 15 }
  three/echo: { input: 2, output: 5 }
tiers:
  standard: [one/echo]
  trivial: [one/echo-small]
  strong: [two/echo]
  embed: [one/embed]
`,
});
const models = ['one/echo', 'one/echo-small', 'one/embed', 'two/echo', 'three/echo'];

describe('GET /v1/models', () => {
  test("lists the key's models and tiers in OpenAI's format", async () => {
    const answer = await gateway().call('/v1/models');
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json']);
    const { object, data } = await jsonOf<{ object: string; data: { id: string; created: number }[] }>(answer);
    expect(object).toBe('list');
    expect(data.map(({ id }) => id)).toEqual([...models, 'standard', 'trivial', 'strong', 'embed', 'auto']);
    expect(data[0]).toEqual({ id: 'one/echo', object: 'model', created: expect.any(Number), owned_by: 'one' });
    expect(Math.abs((data[0]?.created ?? 0) - Date.now() / 1_000)).toBeLessThan(600);
  });

  test('filters the list by project and key', async () => {
    const lent = await gateway().withProject('listed');
    await lent.admin('PUT', '/provision/teams/listed', { providers: ['two'], catalog_fill: false });
    await lent.admin('PUT', '/provision/teams/listed/applications/the%20bot', { tiers: { mine: ['two/echo'], standard: ['two/echo'] } });
    expect(await ids(lent)).toEqual(['two/echo', 'strong']);
    expect(await ids(lent, { 'x-gateway-source': 'the bot' })).toEqual(['two/echo', 'standard', 'strong', 'mine', 'auto']);
    const { key } = await jsonOf<{ key: string }>(
      lent.admin('POST', '/provision/teams/listed/keys', { name: 'small', models: ['strong'] }),
    );
    expect(await ids(lent, { authorization: `Bearer ${key}` })).toEqual(['strong']);
  });

  test('returns 401 without a key', async () => {
    const answer = await fetch(`${gateway().url}/v1/models`);
    expect([answer.status, await answer.json()]).toMatchObject([401, { error: { code: 'missing_key' } }]);
  });
});

test("prefers an application's own tiers to the project's tiers", async () => {
  const lent = await gateway().withProject('apps');
  await lent.admin('PUT', '/provision/teams/apps/applications/bot', { tiers: { standard: ['two/echo'] } });
  expect(await modelOf(lent.call(chatPath, ask('standard'), { 'x-gateway-source': 'bot' }))).toBe('two/echo');
  expect(await modelOf(lent.call(chatPath, ask('standard'), { 'x-gateway-source': 'other' }))).toBe('one/echo');
  expect(await modelOf(lent.call(chatPath, ask('standard')))).toBe('one/echo');
  await lent.admin('PUT', '/provision/teams/apps/applications/apps', { tiers: { standard: ['three/echo'] } });
  expect(await modelOf(lent.call(chatPath, ask('standard')))).toBe('three/echo');
});

test('chooses a tier that fits the request if the model is auto', async () => {
  const lent = await gateway().withProject('auto');
  expect(await modelOf(lent.call(chatPath, ask('auto')))).toBe('one/echo-small');
  expect(await modelOf(lent.call(chatPath, ask('auto', 'word '.repeat(500))))).toBe('one/echo');
  expect(await modelOf(lent.call(chatPath, ask('auto', 'word '.repeat(12_000))))).toBe('two/echo');
  expect(await modelOf(lent.call('/v1/embeddings', { model: 'auto', input: 'hi' }))).toBe('one/embed');
});

test('replaces a chain that no provider serves with models from the catalog', async () => {
  const lent = await gateway().withProject('filled');
  await lent.admin('PUT', '/provision/teams/filled', { providers: ['two', 'three'] });
  expect(await modelOf(lent.call(chatPath, ask('standard')))).toBe('three/echo');
  const [call] = await callsOf(lent, '?limit=1');
  expect(call?.plan).toMatchObject([
    { model: 'three/echo', skipped: null },
    { model: 'two/echo', skipped: null },
    { model: 'one/echo', skipped: 'provider_not_in_project' },
  ]);
  expect(await modelOf(lent.call(chatPath, ask('one/echo')))).toBe('two/echo');
});

test('tries retired models and providers last', async () => {
  const lent = await gateway().withProject('retired');
  const tiers = { all: ['one/echo', 'two/echo'] };
  await lent.admin('PUT', '/provision/teams/retired', { tiers, retired: ['one/echo'] });
  expect(await modelOf(lent.call(chatPath, ask('all')))).toBe('two/echo');
  await lent.admin('PUT', '/provision/teams/retired', { retired: ['two'] });
  expect(await modelOf(lent.call(chatPath, ask('all')))).toBe('one/echo');
  await lent.admin('PUT', '/provision/teams/retired', { retired: ['one', 'two'] });
  expect(await modelOf(lent.call(chatPath, ask('all')))).toBe('one/echo');
});

describe('400 no_route', () => {
  const none = 'no models available for route';

  test.each<[string, object, readonly string[] | null, string, object, string]>([
    ['an unknown name', {}, null, chatPath, ask('unheard'), none],
    ['a project without providers', { providers: [] }, null, chatPath, ask('standard'), 'no providers configured'],
    ['a tier without models while catalog fill is off', { providers: ['two'], catalog_fill: false }, null, chatPath, ask('standard'), none],
    ["a tier that catalog fill can't serve", { providers: ['two'] }, null, '/v1/embeddings', { model: 'embed', input: 'a' }, none],
    ['a route that no vendor of the project serves', { providers: ['two'] }, null, '/v1/rerank', { model: 'strong' }, none],
    ["a model that the key doesn't permit", {}, ['trivial'], chatPath, ask('standard'), 'model not permitted for this key: standard'],
    [
      "substitutes that the key doesn't permit",
      { providers: ['two'] },
      ['one/echo'],
      chatPath,
      ask('one/echo'),
      'model not permitted for this key: one/echo',
    ],
  ])('returns 400 no_route for %s', async (name, settings, keyModels, path, body, message) => {
    const slug = `refused-${name.replaceAll(/[^a-z0-9]+/g, '-')}`;
    const lent = await gateway().withProject(slug);
    await lent.admin('PUT', `/provision/teams/${slug}`, settings);
    const { key } = await jsonOf<{ key: string }>(lent.admin('POST', `/provision/teams/${slug}/keys`, { name: 'k', models: keyModels }));
    const answer = await lent.call(path, body, { authorization: `Bearer ${key}` });
    const hint = expect.stringMatching(/; GET \/v1\/models lists the models and tiers that this key may use$/);
    expect([answer.status, await answer.json()]).toEqual([400, { error: { message, type: 'no_route', code: 'no_route', hint } }]);
  });

  test('returns 400 no_route if no provider serves text', () =>
    withGateway(
      { database: 'any', yaml: (vendor) => `providers: { films: { base_url: ${vendor}/v1beta, api_key: k, dialect: gemini } }\n` },
      async ({ call }) => {
        const answer = await call(chatPath, ask('auto'));
        expect([answer.status, await answer.json()]).toMatchObject([
          400,
          { error: { message: 'no models available for route', code: 'no_route' } },
        ]);
      },
    ));
});
