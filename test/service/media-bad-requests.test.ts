/** Tests unusual and invalid image and speech requests, and what we send to the vendor. */
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { eventually, jsonOf } from '../support/gateway.ts';
import { expectRouteError } from './inference-routes.ts';
import type { MediaRoute } from './media-routes.ts';
import { askMedia, images, mediaRoutes, speech } from './media-routes.ts';
import type { Answerer } from './media-vendor.ts';
import { shareVendor } from './media-vendor.ts';

const { withVendor } = shareVendor();
const drawn = { artifacts: [{ base64: 'aW1hZ2U=', finishReason: 'SUCCESS' }] };
const draw: Answerer = (response) => sendJson(response, 200, drawn);
const speak: Answerer = (response) => response.writeHead(200, { 'content-type': 'audio/mpeg' }).end('audio');
const modelOf = (route: MediaRoute): string => (route.name === 'images' ? 'own/picture' : 'own/voice');

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '1' }).end(JSON.stringify(body));
}

describe('image requests in the artifacts format', () => {
  it('ignores n in the artifacts format and reserves the cost of a single image', () => {
    const finish: (() => void)[] = [];
    return withVendor(
      (response) => finish.push(() => sendJson(response, 200, drawn)),
      async (gateway) => {
        const { key } = await jsonOf<{ key: string }>(
          gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'two images', ceilings: { cost: 0.08 } }),
        );
        const ask = () => askMedia(gateway, images, 'jobs/picture', { more: { n: 1000 }, headers: { authorization: `Bearer ${key}` } });
        const answers = [ask(), ask()];
        await eventually(async () => expect(finish).toHaveLength(2));
        for (const send of finish) send();
        expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
      },
    );
  });

  it.each([
    ['"1024x512"', { width: 1024, height: 512 }],
    ['"1024\\u0078512"', { width: 1024, height: 512 }],
    ['null', { width: 1024, height: 1024 }],
    ['"auto"', {}],
  ])('accepts the image size %s in the artifacts format', (size, sides) =>
    withVendor(draw, async (gateway, vendor) => {
      expect((await gateway.call(images.path, `{"model":"jobs/picture","prompt":"x","size":${size}}`)).status).toBe(200);
      expect(JSON.parse(vendor.asked[0]?.body ?? '')).toEqual({ prompt: 'x', ...sides, steps: 4 });
    }),
  );

  it.each(['"0x8"', '"8x8 "', '"-8x8"', '"8.5x8"', '"1e3x8"', '"8X8"', '8', '""', '"999999x1"'])(
    'returns a plain-text 400 for the image size %s in the artifacts format',
    (size) =>
      withVendor(draw, async (gateway, vendor) => {
        const answer = await gateway.call(images.path, `{"model":"jobs/picture","prompt":"x","size":${size}}`);
        expect([answer.status, await answer.text()]).toEqual([400, 'size: must be <width>x<height>\n']);
        expect(vendor.asked).toEqual([]);
      }),
  );
});

describe('voice names in speech requests', () => {
  it.each([
    ['a b', 'a%20b'],
    ['ä', '%C3%A4'],
    ['🦊', '%F0%9F%A6%8A'],
    ['..%2f', '..%252f'],
    ['%2e%2e', '%252e%252e'],
    ['x?y=1#z&q', 'x%3Fy%3D1%23z%26q'],
  ])('percent-encodes the voice %j in the path and the query', (voice, encoded) =>
    withVendor(speak, async (gateway, vendor) => {
      for (const provider of ['path', 'query']) expect((await askMedia(gateway, speech, `${provider}/${voice}`)).status).toBe(200);
      expect(vendor.asked.map(({ path }) => path)).toEqual([`/v1/text-to-speech/${encoded}`, `/v1/speak?model=${encoded}`]);
    }),
  );

  it.each([
    ['half a surrogate pair', '\ud800'],
    ['301 letters', 'x'.repeat(301)],
  ])('returns 400 no_route for a voice name that is %s', (_what, voice) =>
    withVendor(speak, async (gateway, vendor) => {
      for (const provider of ['own', 'path', 'query']) {
        const expected = { status: 400, code: 'no_route', message: 'no models available for route' };
        await expectRouteError(await askMedia(gateway, speech, `${provider}/${voice}`), speech, expected);
      }
      expect(vendor.asked).toEqual([]);
    }),
  );
});

describe("media vendors' responses", () => {
  it.each(mediaRoutes)('returns upstream_error on $name for every error status that a vendor sends', async (route) => {
    for (const status of [301, 307, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 503, 529])
      await withVendor(
        (response) => sendJson(response, status, { error: { message: 'no' } }),
        async (gateway) => {
          const answer = await askMedia(gateway, route, modelOf(route));
          expect(answer.headers.get('retry-after')).toBeNull();
          await expectRouteError(answer, route, {
            status: 502,
            code: 'upstream_error',
            message: `the vendor responded with ${status}: {"error":{"message":"no"}}`,
          });
        },
      );
  });

  it.each(mediaRoutes)('returns bad_upstream_response on $name if a successful response has no content', async (route) => {
    for (const status of [200, 201, 204, 206])
      await withVendor(
        (response) => (status === 204 ? response.writeHead(204).end() : sendJson(response, status, { error: { message: 'no' } })),
        async (gateway) => {
          await expectRouteError(await askMedia(gateway, route, modelOf(route)), route, {
            status: 502,
            code: 'bad_upstream_response',
            message: /^the response /,
          });
        },
      );
  });
});

it.each(mediaRoutes)('returns 404 on $name for methods other than POST', (route) =>
  withVendor(draw, async (gateway) => {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const answer = fetch(gateway.url + route.path, { method, headers: { authorization: `Bearer ${gateway.key}` } });
      expect(await jsonOf(answer)).toMatchObject({ error: { code: 'not_found', type: 'not_found' } });
      expect((await answer).status).toBe(404);
    }
  }),
);
