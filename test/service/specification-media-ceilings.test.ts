/**
 * Tests ceilings on image and speech calls, and the other billing errors (see
 * docs/api/reference.md#rate-limits-and-ceilings).
 */
import { describe, expect, it } from '@jest/globals';
import { eventually, shareGateway } from '../support/gateway.ts';
import { expectRouteError, projectLender } from './inference-routes.ts';
import type { MediaRoute } from './media-routes.ts';
import { askMedia, bearer, issueKey, mediaRoutes, mediaYaml, rowOf } from './media-routes.ts';

/** The clock stands still, because a ceiling per minute would reset in the next minute. */
const now = Date.now();
const lent = shareGateway({ database: 'any', yaml: mediaYaml, clock: { now: () => now } });
const lendProject = projectLender(lent, 'media');

describe('ceilings on media routes', () => {
  const priced = (route: MediaRoute): string => (route.name === 'images' ? 'one/picture' : 'one/spoken');

  it.each(mediaRoutes)('returns 429 tenant_capped on $name once the key reaches a ceiling', async (route) => {
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

  it.each(mediaRoutes)('returns source_capped or credits_exhausted on $name if a ceiling is reached', async (route) => {
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

  it.each(mediaRoutes)('applies a ceiling that is lowered while a request body on $name is still arriving', async (route) => {
    const gateway = await lendProject();
    const limitCalls = (calls: number) =>
      gateway.admin('PUT', `/provision/teams/${gateway.project}/applications/${gateway.project}`, { ceilings: { calls } });
    await limitCalls(9);
    const first = await askMedia(gateway, route, priced(route));
    expect(first.status).toBe(200);
    await first.arrayBuffer();
    expect(await rowOf(gateway)).toMatchObject({ duration_ms: 0 });
    const body = JSON.stringify({ ...route.body, model: priced(route) });
    const isLowered = Promise.withResolvers<void>();
    const halves = async function* () {
      yield Buffer.from(body.slice(0, 9));
      await isLowered.promise;
      yield Buffer.from(body.slice(9));
    };
    const slow = fetch(gateway.url + route.path, {
      method: 'POST',
      headers: { ...bearer(gateway.key), 'content-type': 'application/json' },
      body: ReadableStream.from(halves()),
      duplex: 'half',
    });
    await eventually(async () => expect(await (await gateway.admin('GET', '/metrics')).text()).toMatch(/^gateway_body_memory_bytes 9$/m));
    await limitCalls(1);
    isLowered.resolve();
    const message = /budget exceeded .*\(calls\)/;
    await expectRouteError(await slow, route, { status: 429, code: 'source_capped', message });
  });

  it.each(mediaRoutes)('returns 402 subscription_required on $name while calls are off', async (route) => {
    const gateway = await lendProject();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { may_call: false });
    await expectRouteError(await askMedia(gateway, route, priced(route)), route, { status: 402, code: 'subscription_required' });
  });

  it.each(mediaRoutes)('skips models without a price on $name under a cost ceiling', async (route) => {
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
