/**
 * Tests which model serves an image or speech call, and why a call gets `no_route` (see
 * docs/api/reference.md#no-route).
 */
import { describe, expect, it } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { adminToken, callsOf, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import { expectRouteError, projectLender } from './inference-routes.ts';
import type { MediaRoute } from './media-routes.ts';
import { askMedia, bearer, images, issueKey, mediaRoutes, mediaYaml, speech } from './media-routes.ts';

const lent = shareGateway({ database: 'any', yaml: mediaYaml });
const lendProject = projectLender(lent, 'media');

describe('the requested model on media routes', () => {
  it.each([
    { route: images, model: 'two/picture', served: 'two/picture' },
    { route: images, model: 'standard', served: 'one/picture' },
    { route: images, model: 'artful', served: 'art/flux' },
    { route: images, model: 'gpt-image:1.5_x', served: 'one/gpt-image:1.5_x' },
    { route: speech, model: 'two/spoken', served: 'two/spoken' },
    { route: speech, model: 'standard', served: 'one/spoken' },
    { route: speech, model: 'voices', served: 'path/rachel' },
    { route: speech, model: 'tts-1', served: 'one/tts-1' },
  ])('routes the model $model on $route.name to $served', async ({ route, model, served }) => {
    const answer = await askMedia(await lendProject(), route, model);
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, served]);
    await answer.body?.cancel();
  });

  it("prefers the application's media tier over the project's", async () => {
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

  it("uses the project's first media provider if the project may not use the default one", async () => {
    const gateway = await lendProject();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { providers: ['art', 'path', 'two'] });
    for (const route of mediaRoutes) {
      const answer = await askMedia(gateway, route, 'bare');
      expect(answer.headers.get('x-gateway-model')).toBe('two/bare');
      await answer.body?.cancel();
    }
  });

  it.each(mediaRoutes)('tries a retired model last on $name', async (route) => {
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

  it('lists the media models that a key may use', async () => {
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

describe('no_route on media routes', () => {
  const noRoute = (message: string | RegExp) => ({ status: 400, code: 'no_route', message });

  it.each(mediaRoutes)("returns `unknown … provider` on $name if the vendor doesn't serve media", async (route) => {
    const gateway = await lendProject();
    const other = route.name === 'images' ? 'path' : 'art';
    for (const name of ['nobody', 'text', other])
      await expectRouteError(await askMedia(gateway, route, `${name}/x`), route, noRoute(`unknown ${route.word} provider '${name}'`));
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { providers: ['two'] });
    await expectRouteError(await askMedia(gateway, route, 'one/x'), route, noRoute(`unknown ${route.word} provider 'one'`));
  });

  it.each(mediaRoutes)('returns `no … provider configured` on $name if no vendor serves media', async (route) => {
    const gateway = await lendProject();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { providers: ['text'] });
    for (const model of ['one/x', 'standard', 'bare'])
      await expectRouteError(await askMedia(gateway, route, model), route, noRoute(`no ${route.word} provider configured`));
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { providers: [] });
    await expectRouteError(await askMedia(gateway, route, 'one/x'), route, noRoute('no providers configured'));
  });

  it('returns different errors if no vendor serves media and if there are no vendors at all', async () => {
    const yaml = (url: string) => `providers: { films: { base_url: ${url}/v1beta, api_key: some-key, dialect: gemini } }\n`;
    await withGateway({ database: 'any', yaml }, async (gateway) => {
      for (const route of mediaRoutes)
        await expectRouteError(await askMedia(gateway, route, 'x'), route, noRoute(`no ${route.word} provider configured`));
      const env = { GATEWAY_ADMIN_TOKEN: adminToken };
      gateway.app.reload(loadConfig({ env, fileText: 'providers: {}\n', fileName: 'gateway.yaml' }));
      for (const route of mediaRoutes)
        await expectRouteError(await askMedia(gateway, route, 'one/x'), route, noRoute('no providers configured'));
    });
  });

  it.each(mediaRoutes)('returns `model not permitted for this key: …` on $name', async (route) => {
    const gateway = await lendProject();
    const { key } = await issueKey(gateway, { models: ['two/fine', 'standard'] });
    const asked = (model: string) => askMedia(gateway, route, model, { headers: bearer(key) });
    for (const model of ['one/x', 'bare', route.name === 'images' ? 'artful' : 'voices'])
      await expectRouteError(await asked(model), route, noRoute(`model not permitted for this key: ${model}`));
    for (const model of ['two/fine', 'standard']) expect((await asked(model)).status).toBe(200);
  });

  it.each(mediaRoutes)('returns `no models available for route` on $name if no vendor serves the tier', async (route) => {
    const gateway = await lendProject();
    const path = `/provision/teams/${gateway.project}`;
    const tiers = { gone: ['text/x'] };
    await gateway.admin('PUT', path, { image_tiers: tiers, speech_tiers: tiers, catalog_fill: false });
    await expectRouteError(await askMedia(gateway, route, 'gone'), route, noRoute('no models available for route'));
    await gateway.admin('PUT', path, { catalog_fill: true });
    const answer = await askMedia(gateway, route, 'gone');
    await answer.body?.cancel();
    // This is the cheapest model of its kind.
    expect(answer.headers.get('x-gateway-model')).toBe(route.name === 'images' ? 'two/picture' : 'one/seconds');
  });

  it.each(mediaRoutes)("doesn't call a vendor on $name for a model without a route", async (route) => {
    const gateway = await lendProject();
    const before = gateway.vendor.requests().length;
    await expectRouteError(await askMedia(gateway, route, 'nobody/x'), route, noRoute(/^unknown/));
    await expectRouteError(await askMedia(gateway, route, 'x'.repeat(301)), route, noRoute(/./));
    expect([await callsOf(gateway), gateway.vendor.requests().length]).toEqual([[], before]);
  });
});
