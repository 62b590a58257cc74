/** Tests what the demo vendor returns for a model's name, what it rejects, and what it records about requests. */
import { describe, expect, test } from '@jest/globals';
import { chat, keyHeaders, message, post, withVendor } from './with-vendor.ts';

describe("content of the scripted vendor's responses", () => {
  test('returns the body of the request byte for byte for the model echo-body', () =>
    withVendor(async (vendor) => {
      const body = '{ "messages":[{"role":"user","content":"\\u0041"}], "x": 1.0 ,"model":"echo-body"}';
      const answer = (await (await post(vendor, '/v1/chat/completions', body)).json()) as { choices: { message: { content: string } }[] };
      expect(answer.choices[0]?.message.content).toBe(body);
    }));

  test('sets length, usage and finish reason by model names like long-50, big-3, cached-40 and filtered', () =>
    withVendor(async (vendor) => {
      const read = async (model: string) => (await (await chat(vendor, model)).json()) as { choices: { message: { content: string } }[] };
      expect((await read('long-50')).choices[0]?.message.content.split(' ')).toHaveLength(50);
      expect((await read('big-3')).choices[0]?.message.content).toHaveLength(3 * 1024);
      expect(await read('cached-40')).toMatchObject({ usage: { prompt_tokens: 46, prompt_tokens_details: { cached_tokens: 40 } } });
      expect(await read('filtered')).toMatchObject({ choices: [{ finish_reason: 'content_filter' }] });
      expect(await (await message(vendor, 'filtered+cache-written-9')).json()).toMatchObject({
        stop_reason: 'refusal',
        usage: { input_tokens: 6, cache_creation_input_tokens: 9 },
      });
      const whole = await (await chat(vendor, 'big-200', { stream: true })).text();
      expect(whole.length).toBeGreaterThan(200 * 1024);
    }));

  test('creates an embedding for a word of 17 million characters', () =>
    withVendor(async (vendor) => {
      const body = JSON.stringify({ model: 'echo', input: '中'.repeat(17 * 1024 * 1024) });
      expect((await post(vendor, '/v1/embeddings', body)).status).toBe(200);
    }));

  test.each([false, true])('preserves numbers that re-serializing would change (stream: %s)', (stream) =>
    withVendor(async (vendor) => {
      for (const response of [await chat(vendor, 'numbers', { stream }), await message(vendor, 'numbers', { stream })]) {
        const text = await response.text();
        expect(text).toContain('"one":1.0 , "power" : 1e5,"big":12345678901234567890');
        const objects = stream ? [...text.matchAll(/^data: (\{.*)$/gm)].map((match) => match[1] ?? '') : [text];
        for (const object of objects) expect(JSON.stringify(JSON.parse(object))).not.toBe(object);
      }
    }),
  );
});

describe('requests to the scripted vendor', () => {
  test('requires a key, and accepts it in the authorization header in both dialects', () =>
    withVendor(async (vendor) => {
      const { authorization, ...rest } = keyHeaders;
      const body = { model: 'echo', max_tokens: 5, messages: [{ role: 'user', content: 'x' }] };
      expect((await post(vendor, '/v1/chat/completions', body, rest)).status).toBe(401);
      const bare = { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' };
      const inMessages = await post(vendor, '/v1/messages', body, bare);
      expect(await inMessages.json()).toMatchObject({ type: 'error', error: { type: 'authentication_error' } });
      expect((await post(vendor, '/v1/messages', body, { ...bare, authorization })).status).toBe(200);
    }));

  test('returns 400 for bodies that the real vendors reject, and 404 for unknown routes', () =>
    withVendor(async (vendor) => {
      const status = async (path: string, body: unknown, headers?: Record<string, string>) =>
        (await post(vendor, path, body, headers)).status;
      expect(await status('/v1/chat/completions', '{"model":')).toBe(400);
      expect(await status('/v1/chat/completions', { messages: [] })).toBe(400);
      expect(await status('/v1/chat/completions', { model: 'echo', messages: [] })).toBe(400);
      expect(await status('/v1/messages', { model: 'echo', messages: [{ role: 'user', content: 'x' }] })).toBe(400);
      const { 'anthropic-version': _, ...unversioned } = keyHeaders;
      expect(await status('/v1/messages', { model: 'echo', max_tokens: 5, messages: [{ role: 'user', content: 'x' }] }, unversioned)).toBe(
        400,
      );
      expect(await status('/v1/embeddings', { model: 'embed', input: [] })).toBe(400);
      expect(await status('/v2/rerank', { model: 'rerank' })).toBe(404);
      expect((await fetch(`${vendor.url}/v1/chat/completions`)).status).toBe(404);
    }));

  test('records the latest 1,000 requests in order', () =>
    withVendor(async (vendor) => {
      for (let sent = 0; sent < 1_003; sent += 17) {
        await Promise.all(
          Array.from({ length: Math.min(17, 1_003 - sent) }, () => chat(vendor, 'echo').then((response) => response.text())),
        );
      }
      const requests = vendor.requests();
      expect(requests.map(({ requestNumber }) => requestNumber)).toEqual(Array.from({ length: 1_000 }, (_, index) => index + 4));
      expect(requests[0]).toMatchObject({ method: 'POST', path: '/v1/chat/completions', headers: { authorization: 'Bearer any' } });
      expect(JSON.parse(requests[0]?.body.toString() ?? '')).toMatchObject({ model: 'echo' });
      vendor.clear();
      expect(vendor.requests()).toEqual([]);
    }));

  test('reports each request to the test before it responds', () => {
    const observed: number[] = [];
    return withVendor(
      async (vendor) => {
        await chat(vendor, 'echo');
        await chat(vendor, 'fail-500');
        expect(observed).toEqual([1, 2]);
      },
      { observe: ({ requestNumber }) => observed.push(requestNumber) },
    );
  });
});
