/**
 * Tests errors of image and speech calls (see docs/api/reference.md#error-codes). specification-media-models.test.ts
 * covers `no_route`, specification-media-ceilings.test.ts covers billing errors, and media-vendors.test.ts covers
 * content rules.
 */
import { describe, expect, it } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { generateSecret } from '../../src/keys/secret.ts';
import { adminToken, callsOf, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import { declareLargeBody, expectPlainText, expectRouteError, projectLender } from './inference-routes.ts';
import { askMedia, bearer, images, mediaRoutes, mediaYaml, rowOf, speech } from './media-routes.ts';

const lent = shareGateway({ database: 'any', yaml: mediaYaml });
const lendProject = projectLender(lent, 'media');

describe('errors in plain text on media routes', () => {
  it.each(mediaRoutes)('returns 400 on $name if the body is not valid JSON', async (route) => {
    for (const body of ['{', '', '[]', '"x"', 'null', '\ufeff{}', '{"model":"one/a","model":"two/b"}', '{"model":"one/a"} x'])
      await expectPlainText(await lent().call(route.path, body), 400);
  });

  it.each(mediaRoutes)('returns 413 on $name for a body larger than 32 MiB', async (route) => {
    await expectPlainText(await declareLargeBody(lent().url + route.path, lent().key), 413);
  });

  it.each(mediaRoutes)('returns 415 on $name if the content type is not JSON', async (route) => {
    for (const type of ['text/plain', '', 'application/jsonx', 'multipart/form-data'])
      await expectPlainText(await lent().call(route.path, '{}', { 'content-type': type }), 415);
    await expectPlainText(await lent().call(route.path, '{}', { 'content-encoding': 'gzip' }), 415);
  });
});

describe('error codes on media routes', () => {
  it.each(mediaRoutes)('returns 401 on $name before it reads the body', async (route) => {
    const { url, key } = lent();
    const post = (headers: Record<string, string>) => fetch(url + route.path, { method: 'POST', headers, body: 'x' });
    for (const headers of [{}, { 'x-api-key': key }, { authorization: `Basic ${key}` }] as Record<string, string>[])
      await expectRouteError(await post(headers), route, { status: 401, code: 'missing_key' });
    for (const wrong of ['sk-gw-nonsense', generateSecret().secret])
      await expectRouteError(await post(bearer(wrong)), route, { status: 401, code: 'invalid_key' });
  });

  it.each(mediaRoutes)('returns 400 missing_model on $name if the model is missing or empty', async (route) => {
    for (const model of [undefined, '', null, 7, ['one/x']])
      await expectRouteError(await askMedia(lent(), route, model), route, { status: 400, code: 'missing_model' });
  });

  it('returns 400 bad_model on images for an invalid character', async () => {
    for (const model of ['one/a b', 'one/a+b', 'one/ä', 'a?b', 'one/a%2Fb', 'one/a#b', 'one/a\\b', 'one/a\u0000', 'one/🦊', 'one@x/a'])
      await expectRouteError(await askMedia(lent(), images, model), images, { status: 400, code: 'bad_model' });
  });

  const namesOfNoModel = ['one//x', '/x', 'one/', '/', 'one/..', 'path/.', '..'];

  it("returns 400 bad_model if an image model's name has too many slashes or a dot segment", async () => {
    for (const model of [...namesOfNoModel, 'one/black-forest/flux'])
      await expectRouteError(await askMedia(lent(), images, model), images, { status: 400, code: 'bad_model' });
  });

  it("returns 400 no_route if a speech model's name has an empty or dot segment, or if a voice has a slash", async () => {
    const gateway = await lendProject();
    gateway.vendor.clear();
    const names = [...namesOfNoModel, 'one/x//y', 'one/x/', 'one/x/../y', 'path/a/b', 'query/a/b'];
    for (const model of names)
      await expectRouteError(await askMedia(gateway, speech, model), speech, {
        status: 400,
        code: 'no_route',
        message: 'no models available for route',
      });
    await expectRouteError(await askMedia(gateway, speech, 'a/x/y'), speech, {
      status: 400,
      code: 'no_route',
      message: "unknown tts provider 'a'",
    });
    expect(gateway.vendor.requests()).toEqual([]);
  });

  it('returns 500 bad_shape on images and speech if a model is configured with an unknown format', () =>
    withGateway({ database: 'any', yaml: mediaYaml }, async (gateway) => {
      const config = loadConfig({
        env: { GATEWAY_ADMIN_TOKEN: adminToken },
        fileText: mediaYaml(gateway.vendor.url, gateway.vendor.url),
        fileName: 'gateway.yaml',
      });
      const { one } = config.providers;
      if (!one) throw new Error('there is no provider one');
      // These values are invalid in every configuration file.
      const row = { ...one, imageShape: 'cubist', speechShape: 'cubist' } as unknown as typeof one;
      gateway.app.reload({ ...config, providers: { ...config.providers, one: row } });
      for (const route of mediaRoutes)
        await expectRouteError(await askMedia(gateway, route, 'one/x'), route, { status: 500, code: 'bad_shape' });
      expect([await callsOf(gateway), gateway.vendor.requests()]).toEqual([[], []]);
    }));

  it.each(mediaRoutes)('returns 502 or 503 upstream_failed on $name if the vendor is unreachable', async (route) => {
    const gateway = await lendProject();
    for (const model of ['dead/x', 'hasty/hang']) {
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

  it.each(mediaRoutes)("returns the vendor's status and body in an upstream_error on $name", async (route) => {
    const gateway = await lendProject();
    for (const [model, status, errorText] of [
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
      const message = new RegExp(`^the vendor responded with ${status}[^]*${errorText}`);
      await expectRouteError(answer, route, { status: [502, 503], code: 'upstream_error', message });
      expect(await rowOf(gateway)).toMatchObject({ code: 'upstream_error', cost: 0, attempts: [{ status, cost: 0 }] });
    }
    const asked = gateway.vendor
      .requests()
      .filter(({ path, body }) => path === route.path && body.toString().includes('rate-limited-0.05'));
    expect(asked).toHaveLength(1);
  });

  it.each(mediaRoutes)("adds the vendor's code and type to a 502 upstream_error on $name", async (route) => {
    const answer = await askMedia(await lendProject(), route, 'one/refuse-400');
    const members = { upstream_code: 'unsupported_parameter', upstream_type: 'invalid_request_error' };
    expect([answer.status, await jsonOf(answer)]).toEqual([
      502,
      {
        error: {
          message: expect.stringMatching(/^the vendor responded with 400: \{/),
          type: 'upstream_error',
          code: 'upstream_error',
          ...members,
        },
      },
    ]);
  });

  it("returns 502 upstream_error if the vendor's filter removed the image", async () => {
    const gateway = await lendProject();
    const message = /CONTENT_FILTERED/;
    await expectRouteError(await askMedia(gateway, images, 'art/filtered'), images, {
      status: [502, 503],
      code: 'upstream_error',
      message,
    });
  });

  it.each(mediaRoutes)('returns 502 or 503 bad_upstream_response on $name for an unreadable response', async (route) => {
    const gateway = await lendProject();
    const broken = route.name === 'images' ? ['break-after-1'] : [];
    for (const model of ['garbage', 'empty', 'wrong-type', ...broken]) {
      await expectRouteError(await askMedia(gateway, route, `one/${model}`), route, { status: [502, 503], code: 'bad_upstream_response' });
      expect(await rowOf(gateway)).toMatchObject({ outcome: 'failed', code: 'bad_upstream_response', cost: 0 });
    }
  });

  it.each(mediaRoutes)("doesn't fail over to the tier's next model on $name", async (route) => {
    const gateway = await lendProject();
    const tiers = { pair: ['one/fail-500', 'two/fine'] };
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { image_tiers: tiers, speech_tiers: tiers });
    await expectRouteError(await askMedia(gateway, route, 'pair'), route, { status: [502, 503], code: 'upstream_error' });
    expect((await rowOf(gateway)).attempts).toHaveLength(1);
  });
});
