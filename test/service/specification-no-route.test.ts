/**
 * Tests the messages of `no_route` (see docs/api/reference.md#no-route).
 *
 * The messages of 429 are covered by specification-ceilings.test.ts, and those of media routes by
 * specification-media.test.ts and video.test.ts.
 */
import { describe, expect, it } from '@jest/globals';
import { callsOf, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import { ask, dialectRoutes, expectRouteError, nameOf, projectLender, routes } from './inference-routes.ts';

const lent = shareGateway({ database: 'any' });
const lendProject = projectLender(lent, 'no-route');

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

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
    const refused = await ask(gateway, route, 'first/echo', { headers: bearer(key) });
    await expectRouteError(refused, route, noRoute(/^model not permitted for this key: /));
    const tier = await ask(gateway, route, 'standard', { headers: bearer(key) });
    expect(tier.headers.get('x-gateway-model')).toBe(nameOf(route, 'second/echo'));
  });

  it('returns `no providers configured` if there are none', () =>
    withGateway(
      { database: 'any', yaml: (vendor) => `providers: { films: { base_url: ${vendor}/v1beta, api_key: k, dialect: gemini } }\n` },
      async (gateway) => {
        for (const route of routes)
          await expectRouteError(await ask(gateway, route, 'standard'), route, noRoute('no providers configured'));
      },
    ));

  it.each(routes)("doesn't count a call without a route on $name", async (route) => {
    const gateway = await lendProject();
    const before = gateway.vendor.requests().length;
    await expectRouteError(await ask(gateway, route, 'unheard-of'), route, noRoute(none));
    expect([await callsOf(gateway), gateway.vendor.requests().length]).toEqual([[], before]);
    const { key } = await jsonOf<{ key: { ceilings: unknown } }>(gateway.call('/status/peek'));
    expect(key.ceilings).toMatchObject({ calls: { used: 0, reserved: 0 }, rpm: { used: 0, reserved: 0 } });
  });

  it.each(routes)('calls retired models on $name if there are no others', async (route) => {
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

  it.each(routes)('returns upstream_failed on $name if x-gateway-timeout-ms runs out', async (route) => {
    const answer = await ask(await lendProject(), route, 'first/slow-1000', { headers: { 'x-gateway-timeout-ms': '50' } });
    await expectRouteError(answer, route, { status: [502, 503], code: 'upstream_failed', message: /^client deadline exceeded/ });
  });
});
