/**
 * Tests images and speech as in docs/api/reference.md, including headers and cost. The choice of the model is covered
 * by specification-media-models.test.ts, errors by specification-media-errors.test.ts, and video by separate files.
 */
import { describe, expect, it } from '@jest/globals';
import { callsOf, jsonOf, shareGateway } from '../support/gateway.ts';
import { expectChatError, expectPlainText, projectLender } from './inference-routes.ts';
import type { MediaRoute } from './media-routes.ts';
import { askMedia, images, mediaRoutes, mediaYaml, rowOf, sentToVendor, speech } from './media-routes.ts';

const lent = shareGateway({ database: 'any', yaml: mediaYaml });
const lendProject = projectLender(lent, 'media');
const png = /^iVBORw0KGgo/;

interface ImageResult {
  readonly created: number;
  readonly data: readonly { readonly b64_json: string }[];
}

describe('image requests to the vendor', () => {
  it('sends only known fields of an image request in the standard format', async () => {
    const gateway = await lendProject();
    const odd = `{"model":"one/picture", "prompt": "a \\u0066ox", "quality":"hd","user":"u","style":1,"background":"x","steps":9,"seed":7}`;
    const answer = await gateway.call(images.path, odd);
    expect(answer.headers.get('x-gateway-model')).toBe('one/picture');
    expect(answer.headers.get('x-gateway-cache')).toBeNull();
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect([answer.status, await jsonOf(answer)]).toEqual([
      200,
      { created: expect.any(Number), data: [{ b64_json: expect.stringMatching(png) }] },
    ]);
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/images/generations',
      headers: { authorization: 'Bearer key-of-one', 'x-second-key': 'second-key-of-one' },
      text: '{"model":"picture","prompt":"a \\u0066ox","n":1,"size":"1024x1024","response_format":"b64_json"}',
    });
  });

  it("forwards the caller's number and size of images", async () => {
    const gateway = await lendProject();
    const { data } = await jsonOf<ImageResult>(askMedia(gateway, images, 'one/picture', { more: { n: 3, size: '16x8' } }));
    expect(data).toHaveLength(3);
    expect(new Set(data.map(({ b64_json }) => b64_json)).size).toBe(3);
    expect(sentToVendor(gateway).text).toContain('"n":3,"size":"16x8"');
  });

  it("doesn't send response_format if image_response_format is false", async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, images, 'strict/b64-only');
    expect([answer.status, sentToVendor(gateway).text]).toEqual([200, '{"model":"b64-only","prompt":"a fox","n":1,"size":"8x8"}']);
  });

  it('repeats an image request without response_format if the vendor rejects this field', async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, images, 'one/b64-only');
    expect([answer.status, sentToVendor(gateway).text]).toEqual([200, '{"model":"b64-only","prompt":"a fox","n":1,"size":"8x8"}']);
    expect(await callsOf(gateway)).toMatchObject([{ status: 200 }]);
  });

  it('downloads images and returns them as b64_json', async () => {
    const gateway = await lendProject();
    const { data } = await jsonOf<ImageResult>(askMedia(gateway, images, 'one/image-url', { more: { n: 2 } }));
    expect(data).toEqual([{ b64_json: expect.stringMatching(png) }, { b64_json: expect.stringMatching(png) }]);
    expect(sentToVendor(gateway).path).toMatch(/^\/files\//);
  });

  it('sends the model name as part of the URL path in the artifacts format', async () => {
    const gateway = await lendProject();
    const answer = await gateway.call(
      images.path,
      '{"model":"art/flux","prompt":"a fox","size":"16x8","seed":12345678901234567890,"cfg_scale":3.50,"n":4,"style":1}',
    );
    expect([answer.status, await jsonOf(answer)]).toEqual([
      200,
      { created: expect.any(Number), data: [{ b64_json: expect.stringMatching(png) }] },
    ]);
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/genai/acme/flux',
      headers: { authorization: 'Bearer key-of-art' },
      text: '{"prompt":"a fox","width":16,"height":8,"steps":4,"seed":12345678901234567890,"cfg_scale":3.50}',
    });
    await askMedia(gateway, images, 'art/flux', { more: { steps: 2, size: undefined } });
    expect(sentToVendor(gateway).text).toBe('{"prompt":"a fox","width":1024,"height":1024,"steps":2}');
    await askMedia(gateway, images, 'art/flux', { more: { size: 'auto', seed: null } });
    expect(sentToVendor(gateway).text).toBe('{"prompt":"a fox","steps":4}');
  });

  it('sends no image request above the base URL of the provider', async () => {
    const gateway = await lendProject();
    for (const [tier, model] of [
      ['up', 'art/../b'],
      ['far', 'art/a/../../b'],
      ['dot', 'art/.'],
    ] as const) {
      await jsonOf(gateway.admin('PUT', `/provision/teams/${gateway.project}`, { image_tiers: { [tier]: [model] } }));
      await expectChatError(await gateway.call(images.path, { model: tier, prompt: 'a fox' }), 502, 'upstream_error', /cannot be named/);
    }
  });

  it("returns 400 for a size that the artifacts format can't express", async () => {
    const gateway = await lendProject();
    for (const size of ['large', '8', '0x8', 8, {}, '8x8x8', '1024 x 1024'])
      await expectPlainText(await askMedia(gateway, images, 'art/flux', { more: { size } }), 400);
    expect(await callsOf(gateway)).toEqual([]);
  });
});

describe('speech requests to the vendor', () => {
  it('sends a default voice and response_format in the standard format', async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, speech, 'one/spoken', { more: { speed: 2, instructions: 'sing', stream_format: 'sse' } });
    expect([answer.status, answer.headers.get('content-type'), answer.headers.get('x-gateway-model')]).toEqual([
      200,
      'audio/mpeg',
      'one/spoken',
    ]);
    const audio = Buffer.from(await answer.arrayBuffer());
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/audio/speech',
      text: '{"model":"spoken","input":"Hello, fox.","voice":"alloy","response_format":"mp3"}',
    });
    const straight = await fetch(`${gateway.vendor.url}/v1/audio/speech`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer any' },
      body: sentToVendor(gateway).text,
    });
    expect(audio.equals(Buffer.from(await straight.arrayBuffer()))).toBe(true);
  });

  it.each([
    ['wav', 'audio/wav'],
    ['pcm', 'audio/pcm'],
  ])("returns the vendor's media type for response_format %s: %s", async (response_format, type) => {
    const answer = await askMedia(await lendProject(), speech, 'one/spoken', { more: { response_format, voice: 'echo' } });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, type]);
    await answer.body?.cancel();
  });

  it('sends everything after the first slash as the name of the model', async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, speech, 'one/canopylabs/orpheus/v1');
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'one/canopylabs/orpheus/v1']);
    expect(JSON.parse(sentToVendor(gateway).text)).toMatchObject({ model: 'canopylabs/orpheus/v1' });
    await answer.body?.cancel();
  });

  it('sends the voice in the URL path and the text in the configured field', async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, speech, 'path/Rachel The Fox', { more: { voice: 'nova', response_format: 'wav' } });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'audio/mpeg']);
    expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(100);
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/text-to-speech/Rachel%20The%20Fox',
      headers: { 'xi-api-key': 'key-of-path' },
      text: '{"model_id":"v2","text":"Hello, fox."}',
    });
  });

  it('sends the voice as a query parameter if the provider is configured that way', async () => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, speech, 'query/aura&x=1');
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'audio/x-own']);
    expect(sentToVendor(gateway)).toMatchObject({
      path: '/v1/speak?encoding=mp3&model=aura%26x%3D1',
      headers: { authorization: 'Token key-of-query' },
      text: '{"text":"Hello, fox."}',
    });
    await answer.body?.cancel();
  });
});

describe('headers of media requests', () => {
  it.each(mediaRoutes)('stores source and correlation headers on $name', async (route) => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, route, 'one/slow-100', {
      headers: {
        'x-gateway-source': 'studio',
        'x-gateway-task-id': 't-1',
        'x-gateway-turn-id': 'u-1',
        'x-gateway-agent-id': 'a-1',
        'x-gateway-trigger-kind': 'cron',
        'x-gateway-trigger-detail': 'nightly',
        'x-gateway-iteration': '3',
        'x-gateway-distil-saved': 'many',
        'x-gateway-timeout-ms': '1',
        'x-gateway-memory': 'maybe',
      },
    });
    expect(answer.status).toBe(200);
    await answer.arrayBuffer();
    expect(await rowOf(gateway)).toMatchObject({
      id: answer.headers.get('x-gateway-call-id'),
      route: route.name,
      source: 'studio',
      task_id: 't-1',
      turn_id: 'u-1',
      agent_id: 'a-1',
      trigger_kind: 'cron',
      trigger_detail: 'nightly',
      iteration: 3,
      distil_saved: null,
    });
  });
});

describe('the cost of media requests', () => {
  it.each([
    ['per image', images, 'one/picture', { n: 2 }, { cost: 0.08, estimated: false }],
    ['per token as counted by the vendor', images, 'one/tokens', {}, { cost: (5 * 2 + 40 * 1056) / 1e6, estimated: false }],
    ['per token if the vendor counts none', images, 'one/no-usage', {}, { cost: (5 * 2 + 40 * 1056) / 1e6, estimated: true }],
    ['per character, by code point', speech, 'one/spoken', { input: '🦊ab' }, { cost: (3 * 15) / 1e6, estimated: false }],
    ['per second, estimated from the text', speech, 'one/seconds', { input: 'x'.repeat(30) }, { cost: 0.002, estimated: true }],
    ['per second of slow speech', speech, 'one/seconds', { input: 'x'.repeat(30), speed: 0.25 }, { cost: 0.008, estimated: true }],
    ['per second of very slow speech', speech, 'one/seconds', { input: 'x'.repeat(30), speed: 5e-324 }, { cost: 0.008, estimated: true }],
    ['per second of fast speech', speech, 'one/seconds', { input: 'x'.repeat(30), speed: 4 }, { cost: 0.002, estimated: true }],
    [
      'per token, estimated from the text',
      speech,
      'one/tts-tokens',
      { input: 'x'.repeat(60) },
      { cost: (0.6 * 15 + 12 * 84) / 1e6, estimated: true },
    ],
    ['an image without a price', images, 'two/other', {}, { cost: null }],
    ['speech without a price', speech, 'two/other', {}, { cost: null }],
  ] as const)('calculates the cost of a media call: %s', async (_title, route: MediaRoute, model, more, expected) => {
    const gateway = await lendProject();
    const answer = await askMedia(gateway, route, model, { more });
    expect(answer.status).toBe(200);
    await answer.arrayBuffer();
    const row = await rowOf(gateway);
    expect(row).toMatchObject({ ...expected, model, outcome: 'ok', status: 200, attempts: [{ n: 1, status: 200, cost: row.cost }] });
    expect(row.attempts).toHaveLength(1);
  });
});
