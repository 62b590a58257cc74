/**
 * Tests the rules for responses and the messages of `no_route` in docs/api/reference.md row by row. Statuses are
 * covered by specification-errors.test.ts.
 *
 * These are covered elsewhere:
 * - `retry-after` of a 429, and 402: specification-ceilings.test.ts
 * - cached responses: response-cache.test.ts
 * - the system message with recalled memories: recall.test.ts
 * - 403: content-rules.test.ts
 * - the media type of audio and video: specification-media.test.ts and video.test.ts
 */
import { describe, expect, it } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, defaultYaml, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import type { InferenceRoute } from './inference-routes.ts';
import {
  ask,
  dialectRoutes,
  expectRouteError,
  nameOf,
  passthroughRoutes,
  projectLender,
  routeOf,
  routes,
  streamingRoutes,
} from './inference-routes.ts';

const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) =>
    defaultYaml(vendorUrl, deadUrl)
      .replace('tiers:\n', 'tiers:\n  embed: [two/echo]\n')
      .replace('models:', `  film: { base_url: ${vendorUrl}/v1beta, api_key: k, dialect: gemini }\nmodels:`),
});
const lendProject = projectLender(lent, 'answers');

/** The last request to the vendor. */
function sentBody(gateway: TestGateway): string {
  return gateway.vendor.requests().at(-1)?.body.toString() ?? '';
}

/** The body as text, with members that must not change. `model` comes first. */
function oddBody(route: InferenceRoute, model: string): string {
  return `{"model":${JSON.stringify(model)} , ${JSON.stringify(route.body).slice(1, -1)},"x_unknown": 12345678901234567890,"y":1.0 ,"\\u007a":[1e5]}`;
}

describe('GET /status/peek', () => {
  it('returns the circuit breakers of all providers that the project can use', async () => {
    const { call, admin, project } = await lendProject();
    const namesOf = async () => {
      const { breakers } = await jsonOf<{ breakers: readonly { provider: string }[] }>(call('/status/peek'));
      return breakers.map(({ provider }) => provider);
    };
    expect(await namesOf()).toEqual(['one', 'two', 'three', 'four', 'dead', 'dead-messages', 'film']);
    await admin('PUT', `/provision/teams/${project}`, { providers: ['film', 'two'] });
    expect(await namesOf()).toEqual(['two', 'film']);
  });
});

describe('a streamed response', () => {
  it.each([
    ['content-type', 'text/event-stream'],
    ['cache-control', 'no-cache'],
    ['x-accel-buffering', 'no'],
  ])('sends the header %s: %s only with streamed responses', async (header, value) => {
    const gateway = await lendProject();
    for (const route of streamingRoutes) {
      const streamed = await ask(gateway, route, 'first/echo', { more: { stream: true } });
      expect([route.name, streamed.status, streamed.headers.get(header)]).toEqual([route.name, 200, value]);
      expect(await streamed.text()).toMatch(/^(?:event|data): /);
      const plain = await ask(gateway, route, 'first/echo', { more: { stream: false } });
      expect(plain.headers.get(header)).not.toBe(value);
      await plain.body?.cancel();
    }
  });

  it.each(streamingRoutes)('sends retry-after on $name only if the caller should wait', async (route) => {
    const gateway = await lendProject();
    for (const model of ['first/echo', 'first/refuse-400', 'first/fail-500', 'nobody/knows']) {
      const answer = await ask(gateway, route, model);
      expect([model, answer.headers.get('retry-after')]).toEqual([model, null]);
      await answer.body?.cancel();
    }
    const limited = await ask(gateway, route, 'first/rate-limited-0.05');
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([503, '1']);
    await limited.body?.cancel();
  });
});

describe('requests', () => {
  it.each(routes)('accepts a tier, auto or <provider>/<model> as the model on $name', async (route) => {
    const gateway = await lendProject();
    for (const [model, served] of [
      [nameOf(route, 'second/echo'), nameOf(route, 'second/echo')],
      ['standard', 'one/echo'],
      ['auto', route.name === 'embeddings' ? 'two/echo' : 'one/echo'],
      ['embed', 'two/echo'],
    ] as const) {
      const answer = await ask(gateway, route, model);
      expect([model, answer.status, answer.headers.get('x-gateway-model')]).toEqual([model, 200, served]);
      await answer.body?.cancel();
    }
  });

  it('uses the auto tier if a chat request has no model', async () => {
    const gateway = await lendProject();
    for (const model of [undefined, null, '']) {
      expect((await ask(gateway, routeOf('chat'), model)).headers.get('x-gateway-model')).toBe('one/echo');
    }
  });

  it.each(passthroughRoutes)('requires only the model field on $name', async (route) => {
    const gateway = await lendProject();
    const answer = await gateway.call(route.path, { model: nameOf(route, 'first/echo') });
    // The vendor's message about an empty body shows that the request was sent.
    expect(sentBody(gateway)).toBe('{"model":"echo"}');
    if (answer.status !== 200) await expectRouteError(answer, route, { status: 400, code: 'upstream_refused' });
    for (const model of [undefined, '', null, 7]) {
      await expectRouteError(await ask(gateway, route, model), route, { status: 400, code: 'missing_model' });
    }
  });

  it.each(routes)('forwards all other fields unchanged on $name', async (route) => {
    const gateway = await lendProject();
    const answer = await gateway.call(route.path, oddBody(route, nameOf(route, 'first/echo')));
    expect([answer.status, sentBody(gateway)]).toEqual([200, oddBody(route, 'echo')]);
    expect(gateway.vendor.requests().at(-1)?.path).toBe(route.path);
    await answer.body?.cancel();
  });

  it.each([
    ['absent', '', '"stream_options":{"include_usage":true},'],
    ['null', '"stream_options":null,', '"stream_options":{"include_usage":true},'],
    ['with other options', '"stream_options":{"a":1},', '"stream_options":{"include_usage":true,"a":1},'],
    ['set to false', '"stream_options":{"include_usage":false},', '"stream_options":{"include_usage":true},'],
  ])('adds stream_options.include_usage to a streamed chat request (%s)', async (_title, asked, sent) => {
    const gateway = await lendProject();
    const body = (options: string, model: string) =>
      `{${options}"model":"${model}","messages":[{"role":"user","content":"hi"}],"stream":true}`;
    const answer = await gateway.call('/v1/chat/completions', body(asked, 'one/echo'));
    expect([answer.status, JSON.parse(sentBody(gateway))]).toEqual([200, JSON.parse(body(sent, 'echo'))]);
    expect(await answer.text()).toContain('data: [DONE]');
  });

  it("doesn't add include_usage to a chat request that isn't streamed", async () => {
    const gateway = await lendProject();
    await ask(gateway, routeOf('chat'), 'one/echo', { more: { stream: false } });
    expect(sentBody(gateway)).not.toContain('include_usage');
  });

  it('accepts x-api-key as well as Authorization on messages', async () => {
    const { url, key } = await lendProject();
    const { path, body } = routeOf('messages');
    for (const headers of [{ 'x-api-key': key }, { authorization: `Bearer ${key}` }] as Record<string, string>[]) {
      const request = {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ ...body, model: 'three/echo' }),
      };
      expect((await fetch(url + path, request)).status).toBe(200);
    }
  });
});

describe('responses', () => {
  it.each(routes)("returns the provider's body unchanged on $name", async (route) => {
    const gateway = await lendProject();
    const answer = await ask(gateway, route, 'first/numbers');
    const text = await answer.text();
    // JSON.parse and stringify would change its unusual numbers.
    expect([answer.status, text === JSON.stringify(JSON.parse(text))]).toEqual([200, false]);
    for (const odd of ['12345678901234567890', '1.0', '1e5']) expect(text).toContain(odd);
    const straight = await fetch(`${gateway.vendor.url}${route.path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer any', 'x-api-key': 'any', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify({ model: 'numbers', ...route.body }),
    });
    expect(withoutIds(text)).toBe(withoutIds(await straight.text()));
  });

  it.each(streamingRoutes)("forwards the provider's server-sent events on $name", async (route) => {
    const gateway = await lendProject();
    const more = { stream: true, ...(route.name === 'chat' && { stream_options: { include_usage: true } }) };
    const text = await (await ask(gateway, route, 'first/crlf+numbers', { more })).text();
    const straight = await fetch(`${gateway.vendor.url}${route.path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer any', 'x-api-key': 'any', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify({ model: 'crlf+numbers', ...route.body, ...more }),
    });
    expect(withoutIds(text)).toBe(withoutIds(await straight.text()));
  });

  it.each(dialectRoutes)('sends x-gateway-cache: miss on $name without a cached response', async (route) => {
    expect((await ask(await lendProject(), route, 'first/echo')).headers.get('x-gateway-cache')).toBe('miss');
  });

  it.each(passthroughRoutes)('caches nothing on $name', async (route) => {
    const gateway = await lendProject();
    const before = gateway.vendor.requests().length;
    for (let call = 0; call < 3; call += 1) {
      const answer = await ask(gateway, route, 'first/echo');
      expect([answer.status, answer.headers.get('x-gateway-cache')]).toEqual([200, null]);
    }
    expect(gateway.vendor.requests().length - before).toBe(3);
  });

  it('stores the tokens and cost of embeddings', async () => {
    const gateway = await lendProject();
    await ask(gateway, routeOf('embeddings'), 'two/echo');
    const usage = await jsonOf<{ by_model: unknown }>(gateway.call('/usage/me'));
    expect(usage.by_model).toEqual([{ model: 'two/echo', cost: expect.any(Number), tokens: expect.any(Number), calls: 1 }]);
  });

  it('lists the models that the key may use on GET /v1/models', async () => {
    const gateway = await lendProject();
    const { data } = await jsonOf<{ data: readonly { id: string }[] }>(gateway.call('/v1/models'));
    expect(data.map(({ id }) => id)).toEqual(['one/echo', 'two/echo', 'three/echo', 'four/echo', 'embed', 'standard', 'auto']);
    const { key } = await jsonOf<{ key: string }>(
      gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'narrow', models: ['two/echo'] }),
    );
    const narrow = await jsonOf<{ data: readonly { id: string }[] }>(
      gateway.call('/v1/models', undefined, { authorization: `Bearer ${key}` }),
    );
    expect(narrow.data.map(({ id }) => id)).toEqual(expect.arrayContaining(['two/echo']));
    expect(narrow.data.map(({ id }) => id)).not.toContain('one/echo');
  });
});

describe('400 no_route', () => {
  const none = 'no models available for route';
  const noRoute = (message: string | RegExp) => ({ status: 400, code: 'no_route', message });

  it.each(routes)('returns `no models available for route` on $name if no vendor serves the model', async (route) => {
    const gateway = await lendProject();
    for (const model of ['unheard-of', 'nobody/knows']) await expectRouteError(await ask(gateway, route, model), route, noRoute(none));
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { providers: [], catalog_fill: true });
    await expectRouteError(await ask(gateway, route, 'standard'), route, noRoute('no providers configured'));
  });

  it.each(dialectRoutes)('returns `no models available for route` on $name if catalog fill is off', async (route) => {
    const gateway = await lendProject();
    const path = `/provision/teams/${gateway.project}`;
    await gateway.admin('PUT', path, { providers: [route.second], catalog_fill: true });
    expect((await ask(gateway, route, 'first/echo')).headers.get('x-gateway-model')).toBe(nameOf(route, 'second/echo'));
    await gateway.admin('PUT', path, { catalog_fill: false });
    await expectRouteError(await ask(gateway, route, 'first/echo'), route, noRoute(none));
  });

  it.each(routes)('returns `model not permitted for this key: …` on $name if the allow-list permits no model', async (route) => {
    const gateway = await lendProject();
    const { key } = await jsonOf<{ key: string }>(
      gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'narrow', models: [nameOf(route, 'second/echo')] }),
    );
    const refused = await ask(gateway, route, 'first/echo', { headers: { authorization: `Bearer ${key}` } });
    await expectRouteError(refused, route, noRoute(/^model not permitted for this key: /));
    const tier = await ask(gateway, route, 'standard', { headers: { authorization: `Bearer ${key}` } });
    expect(tier.headers.get('x-gateway-model')).toBe(nameOf(route, 'second/echo'));
  });

  it('returns `no models available for route` if there are no providers for text', () =>
    withGateway(
      { database: 'any', yaml: (vendor) => `providers: { films: { base_url: ${vendor}/v1beta, api_key: k, dialect: gemini } }\n` },
      async (gateway) => {
        for (const route of routes) await expectRouteError(await ask(gateway, route, 'standard'), route, noRoute(none));
      },
    ));

  it.each(routes)("doesn't count a call on $name towards ceilings if it has no route", async (route) => {
    const gateway = await lendProject();
    const before = gateway.vendor.requests().length;
    await expectRouteError(await ask(gateway, route, 'unheard-of'), route, noRoute(none));
    expect([await callsOf(gateway), gateway.vendor.requests().length]).toEqual([[], before]);
    const { key } = await jsonOf<{ key: { ceilings: unknown } }>(gateway.call('/status/peek'));
    expect(key.ceilings).toMatchObject({ calls: { used: 0, reserved: 0 }, rpm: { used: 0, reserved: 0 } });
  });

  it.each(routes)('calls a retired model on $name if there is no other', async (route) => {
    const gateway = await lendProject();
    const path = `/provision/teams/${gateway.project}`;
    await gateway.admin('PUT', path, {
      tiers: { pair: [nameOf(route, 'first/echo'), nameOf(route, 'second/echo')] },
      retired: [nameOf(route, 'first/echo')],
    });
    expect((await ask(gateway, route, 'pair')).headers.get('x-gateway-model')).toBe(nameOf(route, 'second/echo'));
    await gateway.admin('PUT', path, { retired: [route.first, route.second] });
    expect((await ask(gateway, route, 'pair')).headers.get('x-gateway-model')).toBe(nameOf(route, 'first/echo'));
  });
});

/** The scripted vendor numbers its responses. Otherwise two of them are identical. */
function withoutIds(text: string): string {
  return text.replaceAll(/demo[-_]\d+/g, 'demo').replaceAll(/_demo_?\d+/g, '_demo');
}
