import type { ServerResponse } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import OpenAI from 'openai';
import { callsOf, eventually, jsonOf, shareGateway, type TestGateway, withGateway } from '../support/gateway.ts';
import { expectRouteError } from './inference-routes.ts';
import { askMedia, images, mediaYaml, rowOf, speech } from './media-routes.ts';
import { type ListeningVendor, shareVendor, vendorKey, withListener } from './media-vendor.ts';

const mebibyte = 1024 * 1024;
const { withVendor, withAssets } = shareVendor();

interface ImageResult {
  readonly data: readonly { readonly b64_json: string }[];
}

const json = (response: ServerResponse, body: unknown): unknown =>
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));

describe("the openai SDK with the gateway's base URL and key", () => {
  const lent = shareGateway({ database: 'any', yaml: mediaYaml });
  const sdk = () => new OpenAI({ baseURL: `${lent().url}/v1`, apiKey: lent().key, maxRetries: 0 });

  it('generates base64 images with every provider', async () => {
    for (const model of ['standard', 'one/image-url', 'artful']) {
      const { data } = await sdk().images.generate({ model, prompt: 'a fox', size: '1024x1024' });
      expect(
        Buffer.from(data?.[0]?.b64_json ?? '', 'base64')
          .subarray(1, 4)
          .toString(),
      ).toBe('PNG');
    }
  });

  it('creates speech with every provider', async () => {
    for (const model of ['standard', 'path/rachel', 'query/aura']) {
      const audio = await sdk().audio.speech.create({ model, input: 'Hello, fox.', voice: 'alloy' });
      expect((await audio.arrayBuffer()).byteLength).toBeGreaterThan(100);
    }
  });

  it("throws the SDK's own error class for an error response", async () => {
    await expect(sdk().images.generate({ model: 'one/a b', prompt: 'x' })).rejects.toMatchObject({ status: 400, code: 'bad_model' });
    await expect(sdk().audio.speech.create({ model: 'nobody/x', input: 'x', voice: 'alloy' })).rejects.toMatchObject({
      status: 400,
      code: 'no_route',
    });
  });
});

describe('fields that only some models accept', () => {
  const fields = { quality: 'low', output_format: 'webp', style: 'vivid', user: 'anna', seed: 12345678901234567890n, background: 'opaque' };
  const sdkOf = ({ url, key }: TestGateway) => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
  const sent = ({ asked }: ListeningVendor): unknown => JSON.parse(asked.at(-1)?.body ?? '');

  it.each([
    ['own/gpt-image-2', {}],
    ['own/picture', { response_format: 'b64_json' }],
    ['own/drawn', { quality: 'low', output_format: 'webp', user: 'anna' }],
    ['own/dalle', { response_format: 'b64_json', style: 'vivid' }],
  ])('sends %s only the image fields that the model supports', (model, taken) =>
    withVendor(
      (response) => json(response, { created: 5, data: [{ b64_json: 'eA==' }] }),
      async (gateway, vendor) => {
        const { seed: _seed, ...texts } = fields;
        const { data } = await sdkOf(gateway).images.generate({
          model,
          prompt: 'a fox',
          ...texts,
        } as OpenAI.ImageGenerateParamsNonStreaming);
        expect(data).toEqual([{ b64_json: 'eA==' }]);
        expect(sent(vendor)).toEqual({ model: model.slice(4), prompt: 'a fox', n: 1, size: '1024x1024', ...taken });
      },
    ),
  );

  it('forwards large numbers in an image request unchanged', () =>
    withVendor(
      (response) => json(response, { created: 5, data: [{ b64_json: 'eA==' }] }),
      async (gateway, vendor) => {
        await gateway.call('/v1/images/generations', `{"model":"own/drawn","prompt":"x","seed":${fields.seed}}`);
        expect(vendor.asked[0]?.body).toContain(`"seed":${fields.seed}`);
      },
    ));

  it('returns images as base64 even if the caller asks for another response_format', () =>
    withVendor(
      (response) => json(response, { created: 5, data: [{ b64_json: 'eA==' }] }),
      async (gateway, vendor) => {
        for (const response_format of ['url', 'png', 1]) {
          const answer = await askMedia(gateway, images, 'own/picture', { more: { response_format } });
          expect([answer.status, await answer.json(), answer.headers.get('x-gateway-warning')]).toEqual([
            200,
            { created: 5, data: [{ b64_json: 'eA==' }] },
            'response_format was ignored: images are returned as b64_json',
          ]);
          expect(sent(vendor)).toMatchObject({ response_format: 'b64_json' });
        }
        for (const response_format of ['b64_json', null]) {
          const answer = await askMedia(gateway, images, 'own/picture', { more: { response_format } });
          expect([answer.status, answer.headers.has('x-gateway-warning')]).toEqual([200, false]);
        }
      },
    ));

  it('sends instructions and speed only to models that support them', () =>
    withVendor(
      (response) => response.writeHead(200, { 'content-type': 'audio/mpeg' }).end('sound'),
      async (gateway, vendor) => {
        const input = { input: 'Hi.', voice: 'coral', instructions: 'Whisper.', speed: 1.5 };
        for (const [model, taken] of [
          ['own/talk', { instructions: 'Whisper.', speed: 1.5 }],
          ['own/voice', {}],
        ] as const) {
          await sdkOf(gateway).audio.speech.create({ model, ...input });
          expect(sent(vendor)).toEqual({ model: model.slice(4), input: 'Hi.', voice: 'coral', response_format: 'mp3', ...taken });
        }
      },
    ));

  it.each([
    [undefined, 'audio/x-wav', 'audio/mpeg'],
    ['mp3', 'application/octet-stream', 'audio/mpeg'],
    ['wav', 'audio/mpeg', 'audio/wav'],
    ['opus', 'audio/opus', 'audio/ogg'],
    ['pcm', 'application/octet-stream', 'audio/pcm'],
    ['mulaw', 'audio/basic', 'audio/basic'],
    ['mulaw', 'application/octet-stream', 'audio/mpeg'],
  ])('given response_format %s and the vendor type %s, returns speech as %s', (response_format, vendorType, type) =>
    withVendor(
      (response) => response.writeHead(200, { 'content-type': vendorType }).end('sound'),
      async (gateway) => {
        const answer = await askMedia(gateway, speech, 'own/voice', { more: { response_format } });
        expect(answer.headers.get('content-type')).toBe(type);
      },
    ),
  );
});

describe('large images', () => {
  const large = Buffer.alloc(22 * mebibyte, 7).toString('base64');

  it('returns a 30 MB base64 image without truncating it', () =>
    withVendor(
      (response) => json(response, { created: 5, data: [{ b64_json: large }] }),
      async (gateway) => {
        const { data } = await jsonOf<ImageResult>(askMedia(gateway, images, 'own/picture'));
        expect([data.length, data[0]?.b64_json === large]).toEqual([1, true]);
      },
    ));

  it('downloads a large image without truncating it', () =>
    withVendor(
      (response, { path, headers }) =>
        path === '/big' ? response.end(Buffer.alloc(22 * mebibyte, 7)) : json(response, { data: [{ url: `http://${headers.host}/big` }] }),
      async (gateway) => {
        const { data } = await jsonOf<ImageResult>(askMedia(gateway, images, 'own/picture'));
        expect(data[0]?.b64_json === large).toBe(true);
      },
    ));

  it('aborts the download of an endless image', () =>
    withVendor(
      (response, { path, headers }) => {
        if (path !== '/endless') return json(response, { data: [{ url: `http://${headers.host}/endless` }] });
        const chunk = Buffer.alloc(mebibyte);
        const write = (): void => {
          while (!response.destroyed && response.write(chunk));
          response.once('drain', write);
        };
        return write();
      },
      async (gateway) => {
        const answer = await askMedia(gateway, images, 'own/picture');
        await expectRouteError(answer, images, { status: 502, code: 'bad_upstream_response', message: /larger than/ });
      },
    ));
});

describe('images that cannot be used', () => {
  const usable = { b64_json: 'eA==' };
  const usage = { input_tokens: 10, output_tokens: 1_000 };

  it.each<[string, object | null]>([
    ['that the filter rejected', { error: { code: 'content_filter' } }],
    ['that are null', { b64_json: null }],
    ['of another type', null],
  ])('leaves out images %s, and charges the others', (_what, row) =>
    withVendor(
      (response) => json(response, { data: [usable, row, usable], usage }),
      async (gateway) => {
        for (const [model, cost] of [
          ['own/picture', 0.08],
          ['own/gpt-image-2', (10 * 5 + 1_000 * 30) / 1e6],
        ] as const) {
          const answer = await askMedia(gateway, images, model, { more: { n: 3 } });
          expect([answer.status, (await jsonOf<ImageResult>(answer)).data]).toEqual([200, [usable, usable]]);
          expect(await rowOf(gateway)).toMatchObject({ outcome: 'ok', cost });
        }
      },
    ),
  );

  it('charges an image that it cannot download', () =>
    withVendor(
      (response, { path, headers }) => {
        if (path === '/gone') return response.writeHead(404).end();
        return json(response, { data: [{ url: `http://${headers.host}/gone` }, usable, { url: 'https://elsewhere.example/x' }] });
      },
      async (gateway) => {
        const { data } = await jsonOf<ImageResult>(askMedia(gateway, images, 'own/picture', { more: { n: 3 } }));
        expect(data).toEqual([usable]);
        expect((await rowOf(gateway)).cost).toBeCloseTo(0.12, 9);
      },
    ));

  it.each<[string, object, number, boolean]>([
    ['own/picture', {}, 0.04, true],
    ['own/gpt-image-2', { usage }, (10 * 5 + 1_000 * 30) / 1e6, false],
    ['own/gpt-image-2', {}, (3 * 1_056 * 30) / 1e6, true],
  ])('charges what %s reports, generated or was asked for if no image is left (usage: %j)', (model, reported, cost, estimated) =>
    withVendor(
      (response) => json(response, { data: [{ url: 'https://elsewhere.example/x' }, { b64_json: '' }], ...reported }),
      async (gateway) => {
        const answer = await askMedia(gateway, images, model, { more: { n: 3 } });
        await expectRouteError(answer, images, { status: 502, code: 'bad_upstream_response' });
        const row = await rowOf(gateway);
        expect(row).toMatchObject({ outcome: 'failed', status: 502, code: 'bad_upstream_response', estimated });
        expect(row.cost).toBeGreaterThanOrEqual(cost);
        expect(row.cost).toBeLessThan(cost + 0.001);
      },
    ),
  );

  it('charges the request if the response is too large', () =>
    withVendor(
      (response) => {
        const chunk = Buffer.alloc(mebibyte, ' ');
        const write = (): void => {
          while (!response.destroyed && response.write(chunk));
          response.once('drain', write);
        };
        response.writeHead(200, { 'content-type': 'application/json' });
        return write();
      },
      async (gateway) => {
        const answer = await askMedia(gateway, images, 'own/picture', { more: { n: 2 } });
        await expectRouteError(answer, images, { status: 502, code: 'bad_upstream_response', message: /larger than/ });
        expect(await rowOf(gateway)).toMatchObject({ outcome: 'failed', cost: 0.08, estimated: true });
      },
    ));

  it("doesn't charge a response without images", () =>
    withVendor(
      (response) => json(response, { error: { message: 'no' } }),
      async (gateway) => {
        await expectRouteError(await askMedia(gateway, images, 'own/picture'), images, { status: 502, code: 'bad_upstream_response' });
        expect(await rowOf(gateway)).toMatchObject({ outcome: 'failed', cost: 0 });
      },
    ));

  it('leaves out artifacts that the filter rejected', () =>
    withVendor(
      (response) => json(response, { artifacts: [{ base64: 'eA==', finishReason: 'CONTENT_FILTERED' }, { base64: 'eA==' }] }),
      async (gateway) => {
        const { data } = await jsonOf<ImageResult>(askMedia(gateway, images, 'jobs/picture'));
        expect(data).toEqual([usable]);
        expect(await rowOf(gateway)).toMatchObject({ outcome: 'ok', cost: 0.04 });
      },
    ));
});

describe('image URLs', () => {
  const promptOf = (body: string): string => (body === '' ? '' : (JSON.parse(body) as { prompt: string }).prompt);

  it('returns 502 if the vendor returns an image URL on a foreign host', () =>
    withListener(
      (response) => response.end('image'),
      (elsewhere) =>
        withVendor(
          (response, { path, body }) =>
            path === '/away'
              ? response.writeHead(302, { location: `${elsewhere.url}/x` }).end()
              : json(response, { data: [{ url: promptOf(body) }] }),
          async (gateway, vendor) => {
            const { port } = new URL(elsewhere.url);
            for (const prompt of [
              `${elsewhere.url}/x`,
              `${vendor.url}/away`,
              `http://localhost:${port}/x`,
              `http://127.0.0.1@127.0.0.1:${port}/x`,
              `${vendor.url}@127.0.0.1:${port}/x`,
              `//127.0.0.1:${port}/x`,
              'data:image/png;base64,AAAA',
              'file:///etc/passwd',
              '/x',
            ]) {
              const answer = await askMedia(gateway, images, 'own/picture', { more: { prompt } });
              await expectRouteError(answer, images, { status: 502, code: 'bad_upstream_response' });
            }
            expect(elsewhere.connections()).toBe(0);
          },
        ),
    ));

  it("doesn't send the provider's key to the vendor's asset host", () =>
    withAssets(
      (response) => response.end('image'),
      (response, { path, body }) => (path === '/own' ? response.end('own') : json(response, { data: [{ url: promptOf(body) }] })),
      async (gateway, vendor, assets) => {
        for (const [prompt, image] of [
          [`${assets.url}/a`, 'image'],
          [`${vendor.url}/own`, 'own'],
        ] as const) {
          const { data } = await jsonOf<ImageResult>(askMedia(gateway, images, 'files/picture', { more: { prompt } }));
          expect(data).toEqual([{ b64_json: Buffer.from(image).toString('base64') }]);
        }
        expect(assets.asked).toHaveLength(1);
        expect(JSON.stringify(assets.asked)).not.toContain(vendorKey);
        expect(vendor.asked.at(-1)?.headers.authorization).toBe(`Bearer ${vendorKey}`);
      },
    ));
});

describe('asynchronous jobs in the artifacts format', () => {
  const done = { artifacts: [{ base64: 'aW1hZ2U=', finishReason: 'SUCCESS', seed: 1 }] };
  const accept = (response: ServerResponse, id: string): unknown => response.writeHead(202, { 'nvcf-reqid': id }).end();

  it('polls an asynchronous image job until it is done', () => {
    let polls = 0;
    return withVendor(
      (response, { method }) => {
        if (method === 'POST') return accept(response, 'job-1');
        polls += 1;
        return polls < 2 ? accept(response, 'job-1') : json(response, done);
      },
      async (gateway, vendor) => {
        const answer = await askMedia(gateway, images, 'jobs/picture');
        expect([answer.status, (await jsonOf<ImageResult>(answer)).data]).toEqual([200, [{ b64_json: 'aW1hZ2U=' }]]);
        expect(vendor.asked.map(({ method, path }) => `${method} ${path}`)).toEqual([
          'POST /v1/picture',
          ...Array.from({ length: 2 }, () => 'GET /v2/nvcf/pexec/status/job-1'),
        ]);
        expect(vendor.asked.at(-1)?.headers.authorization).toBe(`Bearer ${vendorKey}`);
        expect(await rowOf(gateway)).toMatchObject({ cost: 0.04, outcome: 'ok' });
      },
    );
  });

  it('returns 503 for an image job that never finishes', () =>
    withVendor(
      (response) => accept(response, 'job-1'),
      async (gateway) => {
        await expectRouteError(await askMedia(gateway, images, 'hasty/picture'), images, { status: 503, code: 'upstream_failed' });
      },
    ));

  it('returns 502 if the vendor gives an image job an invalid id', async () => {
    for (const id of ['', '../../secrets', 'a b', 'x'.repeat(200)]) {
      await withVendor(
        (response) => accept(response, id),
        async (gateway, vendor) => {
          await expectRouteError(await askMedia(gateway, images, 'jobs/picture'), images, { status: 502, code: 'bad_upstream_response' });
          expect(vendor.asked).toHaveLength(1);
        },
      );
    }
  });
});

describe('vendor responses', () => {
  it('returns an image even if its finish reason is unknown', () =>
    withVendor(
      (response) => json(response, { artifacts: [{ base64: 'aW1hZ2U=', finishReason: 'STOP' }] }),
      async (gateway) => {
        const answer = await askMedia(gateway, images, 'jobs/picture');
        expect([answer.status, (await jsonOf<ImageResult>(answer)).data]).toEqual([200, [{ b64_json: 'aW1hZ2U=' }]]);
      },
    ));

  it("returns 502 upstream_error if the vendor's filter has blurred the image", () =>
    withVendor(
      (response) => json(response, { artifacts: [{ base64: 'aW1hZ2U=', finishReason: 'CONTENT_FILTERED', seed: 1 }] }),
      async (gateway) => {
        const message = 'the vendor responded with 200 without a usable image: CONTENT_FILTERED';
        await expectRouteError(await askMedia(gateway, images, 'jobs/picture'), images, { status: 502, code: 'upstream_error', message });
      },
    ));

  it.each([images, speech])("removes the provider's key from the vendor's response in a 502 on $name", (route) =>
    withVendor(
      (response, { headers }) =>
        response.writeHead(401).end(JSON.stringify({ error: `wrong key: ${headers.authorization} of org-Ab12Cd34Ef (sk-a***f)` })),
      async (gateway) => {
        const answer = await askMedia(gateway, route, 'own/x');
        const message = 'the vendor responded with 401: {"error":"wrong key: Bearer [key] of [account] ([key])"}';
        await expectRouteError(answer, route, { status: 502, code: 'upstream_error', message });
        expect(gateway.logs.join('')).not.toContain(vendorKey);
      },
    ),
  );

  it("returns speech as audio/mpeg if the vendor doesn't send an audio type", () =>
    withVendor(
      (response) => response.writeHead(200, { 'content-type': 'application/octet-stream' }).end('abc'),
      async (gateway) => {
        const answer = await askMedia(gateway, speech, 'own/voice');
        expect([answer.status, answer.headers.get('content-type'), await answer.text()]).toEqual([200, 'audio/mpeg', 'abc']);
      },
    ));

  it.each([images, speech])('returns 403 on $name for a request that a content rule blocks', (route) =>
    withVendor(
      (response) => response.end(),
      async (gateway, vendor) => {
        await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, {
          rules: [{ class: 'email', place: 'input', action: 'block' }],
        });
        const more = { prompt: 'ada@example.com', input: 'ada@example.com' };
        const answer = await askMedia(gateway, route, 'own/x', { more });
        await expectRouteError(answer, route, { status: 403, code: 'guardrail_blocked', message: /email in input/ });
        expect([vendor.asked, await callsOf(gateway)]).toEqual([[], []]);
      },
    ),
  );
});

it('charges for an image even if the caller disconnects', () => {
  let finish: () => void = () => undefined;
  return withVendor(
    (response) => {
      finish = () => json(response, { data: [{ b64_json: 'aW1hZ2U=' }] });
    },
    async (gateway, vendor) => {
      const leaving = new AbortController();
      const { url, key } = gateway;
      const left = fetch(url + images.path, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'own/picture', prompt: 'x' }),
        signal: leaving.signal,
      }).catch((error: unknown) => error);
      await eventually(async () => expect(vendor.asked).toHaveLength(1));
      leaving.abort();
      await left;
      finish();
      await eventually(async () => expect(await rowOf(gateway)).toMatchObject({ outcome: 'ok', cost: 0.04 }));
    },
  );
});

it(
  'charges for images that are still being generated when the gateway stops',
  () =>
    withListener(
      () => undefined,
      async (vendor) => {
        const yaml = () => `
providers: { own: { base_url: ${vendor.url}/v1, api_key: ${vendorKey}, dialect: chat } }
models: { own/picture: { per_image: 0.04 } }
`;
        await withGateway({ database: 'any', yaml, graceMs: 100 }, async (gateway) => {
          const answer = askMedia(gateway, images, 'own/picture', { more: { n: 3 } }).catch((error: unknown) => error);
          await eventually(async () => expect(vendor.asked).toHaveLength(1));
          await gateway.app.close();
          await answer;
          const rows = await gateway.database.query(`select outcome, cost_nanos::float8 as cost, estimated from calls`);
          expect(rows).toEqual([{ outcome: 'unknown', cost: 120_000_000, estimated: true }]);
        });
      },
    ),
  300_000,
);

it("stores the vendor's request id with the call", () =>
  withVendor(
    (response, { path, body }) => {
      response.setHeader('x-request-id', `req-${path.split('/').at(-1)}`);
      if (body.includes('fail')) return response.writeHead(500).end('{}');
      return path.endsWith('/speech')
        ? response.writeHead(200, { 'content-type': 'audio/mpeg' }).end('sound')
        : json(response, { created: 5, data: [{ b64_json: 'eA==' }] });
    },
    async (gateway) => {
      const latest = async () => (await rowOf(gateway)).attempts;
      await (await askMedia(gateway, images, 'own/picture')).arrayBuffer();
      expect(await latest()).toMatchObject([{ outcome: 'ok', request_id: 'req-generations' }]);
      await (await askMedia(gateway, images, 'own/picture', { more: { prompt: 'fail' } })).arrayBuffer();
      expect(await latest()).toMatchObject([{ status: 500, request_id: 'req-generations' }]);
      await (await askMedia(gateway, speech, 'own/voice')).arrayBuffer();
      expect(await latest()).toMatchObject([{ outcome: 'ok', request_id: 'req-speech' }]);
      const form = new FormData();
      form.set('model', 'own/picture');
      form.set('prompt', 'a hat');
      form.set('image', new Blob(['x'], { type: 'image/png' }), 'x.png');
      const headers = { authorization: `Bearer ${gateway.key}` };
      await (await fetch(`${gateway.url}/v1/images/edits`, { method: 'POST', headers, body: form })).arrayBuffer();
      expect(await latest()).toMatchObject([{ outcome: 'ok', request_id: 'req-edits' }]);
    },
  ));
