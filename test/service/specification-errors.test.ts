/**
 * Tests the error rules in docs/api/reference.md#errors. Each row is tested on every route of the row, with the body
 * format of the route.
 *
 * These errors are covered elsewhere:
 * - `no_route`: specification-responses.test.ts
 * - unavailable stores: specification-stores.test.ts
 * - ceilings, and projects that can't make calls (402 and 429): specification-ceilings.test.ts
 * - media: specification-media.test.ts and video.test.ts
 * - memory: specification-memory.test.ts
 * - content rules (403): content-rules.test.ts
 *
 * On `/v1/messages`, nothing causes a 529, and only a wrong method causes a 404 (bad-input.test.ts). A vendor's 404 or
 * 529 isn't a refusal.
 */
import { describe, expect, it } from '@jest/globals';
import { generateSecret } from '../../src/keys/secret.ts';
import { clockAt } from '../journal/calls.ts';
import type { TestGateway } from '../support/gateway.ts';
import { adminToken, callsOf, jsonOf, shareGateway } from '../support/gateway.ts';
import type { InferenceRoute } from './inference-routes.ts';
import {
  ask,
  declareLargeBody,
  dialectRoutes,
  expectChatError,
  expectPlainText,
  expectRouteError,
  nameOf,
  passthroughRoutes,
  projectLender,
  routeOf,
  routes,
} from './inference-routes.ts';

const hourMs = 3_600_000;
const clock = clockAt(Date.now());
const lent = shareGateway({ database: 'any', clock });
const lendProject = projectLender(lent, 'errors');

/** Routes with a virtual key that are not inference routes. */
const readRoutes = ['/v1/models', '/status/peek', '/usage/me', '/v1/memory/episodes/01936b1e-0000-7000-8000-000000000000'];

/** A key with given settings. */
async function issueKey(
  { admin, project }: TestGateway,
  settings: Readonly<Record<string, unknown>>,
): Promise<{ key: string; prefix: string }> {
  return jsonOf(admin('POST', `/provision/teams/${project}/keys`, { name: 'own', ...settings }));
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** A valid call of the route, except for its headers. */
function post({ url }: TestGateway, route: InferenceRoute, headers: Record<string, string>): Promise<Response> {
  const body = JSON.stringify({ ...route.body, model: nameOf(route, 'first/echo') });
  return fetch(url + route.path, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } });
}

describe('errors in plain text', () => {
  it.each(passthroughRoutes)('returns 400 on $name if the body is not valid JSON', async (route) => {
    for (const body of ['{', '', '[]', '"text"', 'null', '{"model":"a","model":"b"}'])
      await expectPlainText(await lent().call(route.path, body), 400);
  });

  it('returns 400 for a memory id that is not a UUID', async () => {
    for (const id of ['nonsense', '01936b1e-0000-7000-8000-00000000000', '%00', '%E0%A4%A'])
      await expectPlainText(await lent().call(`/v1/memory/episodes/${id}`), 400);
  });

  it.each(routes)('returns 413 on $name for a body larger than 32 MiB', async (route) => {
    await expectPlainText(await declareLargeBody(lent().url + route.path, lent().key), 413);
  });

  it('returns 413 for a provisioning request whose body is too large', async () => {
    for (const path of ['/provision/teams/acme', '/provision/catalog'])
      await expectPlainText(await declareLargeBody(lent().url + path, adminToken, 'PUT'), 413);
  });

  it.each(passthroughRoutes)('returns 415 on $name if the content type is not JSON', async (route) => {
    for (const type of ['text/plain', '', 'application/jsonx', 'json'])
      await expectPlainText(await lent().call(route.path, '{}', { 'content-type': type }), 415);
    await expectPlainText(await lent().call(route.path, '{}', { 'content-encoding': 'gzip' }), 415);
  });
});

describe('error types on messages', () => {
  const route = routeOf('messages');

  it.each([
    [400, 'refuse-400', 'invalid_request_error'],
    [413, 'refuse-413', 'request_too_large'],
    [415, 'refuse-415', 'invalid_request_error'],
    [422, 'refuse-422', 'invalid_request_error'],
    [410, 'refuse-410', 'api_error'],
    [502, 'fail-500', 'api_error'],
  ])('returns a %i (%s) on messages with the error type %s', async (status, model, type) => {
    const answer = await ask(await lendProject(), route, `first/${model}`);
    const vendorType = status === 413 ? 'request_too_large' : 'invalid_request_error';
    const further = model.startsWith('refuse') ? { upstream_type: vendorType } : {};
    expect([answer.status, await jsonOf(answer)]).toEqual([
      status,
      { type: 'error', error: { type, message: expect.stringMatching(/./), ...further } },
    ]);
  });

  it('returns a 401 on messages with the error type authentication_error', async () => {
    const answer = await post(lent(), route, {});
    expect([answer.status, await jsonOf(answer)]).toMatchObject([401, { error: { type: 'authentication_error' } }]);
  });

  it('uses the error type api_error for a 503 on messages if a vendor is unreachable', async () => {
    const answer = await ask(await lendProject(), route, 'dead/any');
    expect([answer.status, await jsonOf(answer)]).toMatchObject([503, { error: { type: 'api_error' } }]);
  });

  it.each([
    ['a missing max_tokens', { model: 'three/echo', messages: [] }, 'max_tokens: Field required'],
    ['a model that is not a string', { model: 5, max_tokens: 5, messages: [] }, 'model: Input should be a valid string'],
  ])("returns 400 with the vendor's message for %s", async (_title, body, message) => {
    await expectRouteError(await lent().call(route.path, body), route, { status: 400, code: 'bad_json', message });
  });
});

describe('missing_key', () => {
  const spellings = (key: string): readonly (readonly [string, Record<string, string>])[] => [
    ['no header', {}],
    ['another scheme', { authorization: `Basic ${key}` }],
    ['the bare key', { authorization: key }],
    ['nothing after the scheme', { authorization: 'Bearer ' }],
    ['two spaces', { authorization: `Bearer  ${key}` }],
    ['a tab', { authorization: `Bearer\t${key}` }],
    ['a space in the key', { authorization: `Bearer ${key} x` }],
  ];

  it.each(routes)('returns 401 on $name without a key', async (route) => {
    const gateway = lent();
    for (const [, headers] of spellings(gateway.key))
      await expectRouteError(await post(gateway, route, headers), route, { status: 401, code: 'missing_key' });
    if (route.name !== 'messages')
      await expectRouteError(await post(gateway, route, { 'x-api-key': gateway.key }), route, { status: 401, code: 'missing_key' });
  });

  it.each(readRoutes)('returns 401 on GET %s without a key', async (path) => {
    const { url, key } = lent();
    for (const [, headers] of [...spellings(key), ...(path === '/v1/models' ? [] : [['x-api-key', { 'x-api-key': key }] as const])])
      await expectChatError(await fetch(url + path, { headers }), 401, 'missing_key');
  });
});

describe('invalid_key', () => {
  const wrongKeys = (key: string): readonly string[] => [
    'sk-gw-nonsense',
    'sk-proj-abcdefghijklmnopqrstuvwxyz',
    `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`,
    generateSecret().secret,
  ];

  it.each(routes)('returns 401 on $name for an invalid key', async (route) => {
    const gateway = lent();
    for (const key of wrongKeys(gateway.key)) {
      await expectRouteError(await post(gateway, route, bearer(key)), route, { status: 401, code: 'invalid_key' });
      if (route.name !== 'messages') continue;
      await expectRouteError(await post(gateway, route, { 'x-api-key': key }), route, { status: 401, code: 'invalid_key' });
      const both = { 'x-api-key': gateway.key, ...bearer(key) };
      await expectRouteError(await post(gateway, route, both), route, { status: 401, code: 'invalid_key' });
    }
  });

  it.each(readRoutes)('returns 401 on GET %s for an invalid key', async (path) => {
    const { url, key } = lent();
    for (const wrong of wrongKeys(key)) await expectChatError(await fetch(url + path, { headers: bearer(wrong) }), 401, 'invalid_key');
  });

  it.each(routes)('returns 401 on $name for expired and revoked keys', async (route) => {
    const gateway = await lendProject();
    const revoked = await issueKey(gateway, {});
    expect((await post(gateway, route, bearer(revoked.key))).status).toBe(200);
    await gateway.admin('DELETE', `/provision/teams/${gateway.project}/keys/${revoked.prefix}`);
    await expectRouteError(await post(gateway, route, bearer(revoked.key)), route, { status: 401, code: 'invalid_key' });
    const expired = await issueKey(gateway, { expires_at: new Date(clock.now() + hourMs).toISOString() });
    expect((await post(gateway, route, bearer(expired.key))).status).toBe(200);
    clock.move(hourMs);
    await expectRouteError(await post(gateway, route, bearer(expired.key)), route, { status: 401, code: 'invalid_key' });
  });
});

describe('bad requests', () => {
  const fields: readonly (readonly [object, RegExp])[] = [
    [{ messages: undefined }, /^messages: /],
    [{ messages: 'hi' }, /^messages: /],
    [{ messages: null }, /^messages: /],
    [{ model: 7 }, /^model: /],
    [{ stream: 'yes' }, /^stream: /],
    [{ stream: 1 }, /^stream: /],
  ];

  it.each(dialectRoutes)('returns 400 bad_json on $name with the name of the invalid field', async (route) => {
    for (const [more, message] of fields)
      await expectRouteError(await ask(lent(), route, 'first/echo', { more: { ...more } }), route, {
        status: 400,
        code: 'bad_json',
        message,
      });
    for (const body of ['{', '', '[]', 'null'])
      await expectRouteError(await lent().call(route.path, body), route, { status: 400, code: 'bad_json' });
  });

  it.each(dialectRoutes)('returns 415 on $name for an unsupported content type', async (route) => {
    for (const type of ['text/plain', '', 'application/jsonx']) {
      const answer = await lent().call(route.path, '{}', { 'content-type': type });
      await expectRouteError(answer, route, { status: 415, code: 'unsupported_media_type' });
    }
    const encoded = await lent().call(route.path, '{}', { 'content-encoding': 'gzip' });
    await expectRouteError(encoded, route, { status: 415, code: 'unsupported_media_type' });
  });

  it.each(routes)('accepts a content type that ends in +json on $name', async (route) => {
    for (const type of ['application/json; charset=utf-8', 'Application/JSON', 'application/vnd.api+json', 'application/+json']) {
      const answer = await ask(lent(), route, 'first/echo', { headers: { 'content-type': type } });
      expect([type, answer.status]).toEqual([type, 200]);
    }
  });

  it.each(passthroughRoutes)('returns 400 missing_model on $name if the model is missing or empty', async (route) => {
    for (const model of [undefined, ''])
      await expectRouteError(await ask(lent(), route, model), route, { status: 400, code: 'missing_model' });
  });

  it('returns 404 for a conversation of another project', async () => {
    const owner = await lendProject();
    await ask(owner, routeOf('chat'), 'first/echo');
    await callsOf(owner);
    const [row] = await owner.database.query<{ id: string }>(
      `select c.id from conversations c join projects p on p.id = c.project_id where p.slug = $1::text`,
      [owner.project],
    );
    const path = `/v1/memory/episodes/${row?.id}`;
    expect((await owner.call(path)).status).toBe(200);
    await expectChatError(await (await lendProject()).call(path), 404, 'not_found');
    await expectChatError(await owner.call('/v1/memory/episodes/01936b1e-0000-7000-8000-000000000000'), 404, 'not_found');
  });
});

describe('vendor failures', () => {
  it.each(routes)('returns 502 or 503 upstream_failed on $name if every attempt fails', async (route) => {
    const gateway = await lendProject();
    for (const model of [
      'first/fail-500',
      'first/garbage',
      'first/fail-401',
      'first/fail-402',
      'first/fail-403',
      'first/quota',
      'dead/any',
    ]) {
      const answer = await ask(gateway, route, model);
      const message = new RegExp(`^${nameOf(route, model)}: `);
      await expectRouteError(answer, route, { status: [502, 503], code: 'upstream_failed', message });
    }
  });

  it.each(routes)("returns the first vendor's 4xx on $name if every model refuses the request", async (route) => {
    const gateway = await lendProject();
    const tiers = { refusing: [nameOf(route, 'first/refuse-422'), nameOf(route, 'second/refuse-400')] };
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers });
    await expectRouteError(await ask(gateway, route, 'refusing'), route, { status: 422, code: 'upstream_refused' });
    await expectRouteError(await ask(gateway, route, 'first/refuse-413'), route, { status: 413, code: 'upstream_refused' });
    for (const status of [404, 405, 408, 409])
      await expectRouteError(await ask(gateway, route, `first/fail-${status}`), route, { status, code: 'upstream_refused' });
  });
});
