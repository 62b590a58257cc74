/** Tests all terms that are listed in scripts.ts from the client's perspective. */
import { describe, expect, test } from '@jest/globals';
import { chat, count, message, readUntilBreak, withVendor } from './with-vendor.ts';

const now = Date.UTC(2026, 10, 21, 10, 0, 0);

describe('failures of the scripted vendor', () => {
  test.each([
    ['fail-500', 500, null, 'api_error'],
    ['fail-503', 503, null, 'api_error'],
    ['fail-529', 529, null, 'overloaded_error'],
    ['fail-401', 401, 'invalid_api_key', 'authentication_error'],
    ['fail-404', 404, 'model_not_found', 'not_found_error'],
    ['refuse-400', 400, 'unsupported_parameter', 'invalid_request_error'],
    ['refuse-413', 413, 'unsupported_parameter', 'request_too_large'],
    ['refuse-422', 422, 'unsupported_parameter', 'invalid_request_error'],
    ['rate-limited', 429, 'rate_limit_exceeded', 'rate_limit_error'],
    ['quota', 429, 'insufficient_quota', 'rate_limit_error'],
    ['spend-limit', 429, 'insufficient_quota', 'rate_limit_error'],
    ['not-found', 404, 'unknown_url', 'not_found_error'],
  ])("answers %s with a %i in each dialect's error format", (model, status, code, type) =>
    withVendor(async (vendor) => {
      const inChat = await chat(vendor, model, { stream: true });
      expect(inChat.status).toBe(status);
      expect(await inChat.json()).toMatchObject({ error: { code, message: expect.any(String) } });
      const inMessages = await message(vendor, model);
      expect(inMessages.status).toBe(status);
      expect(await inMessages.json()).toMatchObject({ type: 'error', error: { type } });
    }),
  );

  test.each([
    ['rate-limited', { 'retry-after': '1' }],
    ['rate-limited-7', { 'retry-after': '7' }],
    ['rate-limited-0.5', { 'retry-after': '0.5' }],
    ['rate-limited-ms-120', { 'retry-after': null, 'retry-after-ms': '120' }],
    ['rate-limited-date-90', { 'retry-after': 'Sat, 21 Nov 2026 10:01:30 GMT' }],
    ['rate-limited-reset-90', { 'retry-after': null, 'x-ratelimit-reset-requests': '1m30s' }],
    ['rate-limited-bare', { 'retry-after': null, 'retry-after-ms': null }],
    ['quota', { 'retry-after': null }],
    ['spend-limit', { 'retry-after': null }],
  ])('returns 429 for %s with the retry hints %j', (model, hints) =>
    withVendor(
      async (vendor) => {
        const response = await chat(vendor, model);
        expect(response.status).toBe(429);
        for (const [name, value] of Object.entries(hints)) expect(response.headers.get(name)).toBe(value);
        await response.text();
      },
      { now: () => now },
    ),
  );

  test('returns the reset time as a date in a 429 on messages', () =>
    withVendor(
      async (vendor) => {
        const reset = await message(vendor, 'rate-limited-reset-90');
        expect(reset.headers.get('anthropic-ratelimit-requests-reset')).toBe('2026-11-21T10:01:30.000Z');
        const spent = await message(vendor, 'spend-limit');
        expect(await spent.json()).toMatchObject({ error: { details: { error_code: 'enforced_spend_limit_reached' } } });
      },
      { now: () => now },
    ));

  test.each(['rate-limited-once-0', 'fail-once-429'])('returns 429 for the first call of each model %s, and again after a reset', (model) =>
    withVendor(async (vendor) => {
      const statuses = async () => [(await chat(vendor, model)).status, (await chat(vendor, model)).status];
      expect(await statuses()).toEqual([429, 200]);
      expect((await chat(vendor, `${model}+mine`)).status).toBe(429);
      vendor.clear();
      expect(await statuses()).toEqual([429, 200]);
    }),
  );

  test.each([
    ['garbage', 'application/json', /^\{.*[^}]$/],
    ['empty', 'application/json', /^$/],
    ['wrong-type', 'text/html; charset=utf-8', /^<!doctype html>/],
  ])('returns a useless response with status 200 for %s', (model, mediaType, body) =>
    withVendor(async (vendor) => {
      const response = await chat(vendor, model);
      expect(response.headers.get('content-type')).toBe(mediaType);
      expect(await response.text()).toMatch(body);
    }),
  );

  test('returns a redirect to another origin', () =>
    withVendor(async (vendor) => {
      const response = await chat(vendor, 'redirect');
      expect([response.status, response.headers.get('location')]).toEqual([302, 'http://elsewhere.invalid/v1/chat/completions']);
    }));

  test('returns 400 for an invalid number in a script name', () =>
    withVendor(async (vendor) => {
      for (const model of ['fail-200', 'fail-', 'slow-soon', 'break-after-x']) expect((await chat(vendor, model)).status).toBe(400);
      for (const model of ['gpt-4o-mini', 'constructor', '__proto__', 'rapid-fail-safe'])
        expect((await chat(vendor, model)).status).toBe(200);
    }));

  test.each(['hang', 'held', 'slow-60000', 'stall-before-first', 'stall-after-1', 'pace-60000'])(
    'stops responses of the model %s when the vendor closes',
    (model) =>
      withVendor(async (vendor) => {
        const answer = chat(vendor, model, { stream: true }).then(readUntilBreak, () => ({ broken: true }));
        await seen(vendor.requests);
        await vendor.close();
        expect(await answer).toMatchObject({ broken: true });
      }),
  );
});

describe('scripted streams', () => {
  test('holds back responses of the model `held` until the test releases them', () =>
    withVendor(async (vendor) => {
      expect((await chat(vendor, 'rate-limited-once-1+held')).status).toBe(429);
      const answers = [chat(vendor, 'rate-limited-once-1+held'), message(vendor, 'held', { stream: true })];
      let answered = 0;
      for (const answer of answers) void answer.then(() => (answered += 1));
      await seen(() => vendor.requests().slice(2));
      expect((await chat(vendor, 'echo')).status).toBe(200);
      expect(answered).toBe(0);
      expect(vendor.release()).toBe(2);
      expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
    }));

  test.each([
    ['break-before-first', 0, true],
    ['break-after-0', 0, true],
    ['break-after-2', 2, true],
    ['break-after-99', 6, true],
    ['error-before-first', 0, false],
    ['error-after-2', 2, false],
    ['end-before-first', 0, false],
    ['end-after-2', 2, false],
    ['echo', 6, false],
  ])('simulates %s with %i deltas (broken: %s)', (model, deltas, broken) =>
    withVendor(async (vendor) => {
      const inChat = await readUntilBreak(await chat(vendor, model, { stream: true }));
      expect(inChat.broken).toBe(broken);
      expect(count(inChat.text, '"delta":{"content"')).toBe(deltas);
      expect(count(inChat.text, '[DONE]')).toBe(model === 'echo' ? 1 : 0);
      expect(count(inChat.text, 'data: {"error"')).toBe(model.startsWith('error') ? 1 : 0);
      const inMessages = await readUntilBreak(await message(vendor, model, { stream: true }));
      expect(inMessages.broken).toBe(broken);
      expect(count(inMessages.text, 'event: content_block_delta')).toBe(deltas);
      expect(count(inMessages.text, 'event: message_stop')).toBe(model === 'echo' ? 1 : 0);
      expect(count(inMessages.text, 'event: error')).toBe(model.startsWith('error') ? 1 : 0);
      if (model.endsWith('before-first')) expect(count(inMessages.text + inChat.text, 'message_start')).toBe(0);
    }),
  );

  test('aborts a plain response halfway through', () =>
    withVendor(async (vendor) => {
      const broken = await readUntilBreak(await chat(vendor, 'break-after-1'));
      expect(broken.broken).toBe(true);
      expect(broken.text).toMatch(/^\{"id"/);
      expect(await readUntilBreak(await chat(vendor, 'break-before-first'))).toMatchObject({ text: '', broken: true });
      expect((await message(vendor, 'error-after-1')).status).toBe(500);
    }));

  test("leaves out [DONE] or usage, or sends usage early, if the model's name asks for it", () =>
    withVendor(async (vendor) => {
      const members = { stream: true, stream_options: { include_usage: true } };
      const read = async (model: string) => (await chat(vendor, model, members)).text();
      expect(await read('no-done')).not.toContain('[DONE]');
      expect(count(await read('echo'), '"usage":{')).toBe(1);
      expect(count(await read('echo'), '"choices":[]')).toBe(1);
      expect(await read('no-usage')).not.toContain('"usage"');
      expect(await read('usage-in-finish')).toMatch(/"finish_reason":"stop"\}\],"usage":\{"prompt_tokens":6/);
      expect(await (await message(vendor, 'no-usage', { stream: true })).text()).not.toContain('"usage"');
      expect(await (await chat(vendor, 'no-usage')).json()).not.toHaveProperty('usage');
    }));

  test.each(['tiny-bytes', 'crlf'])('splits the same text differently on the wire for %s', (wire) =>
    withVendor(async (vendor) => {
      const members = { stream: true, messages: [{ role: 'user', content: 'hé 🌍 wörld' }] };
      const plain = await (await chat(vendor, 'say-aMOpIPCfjI0gd8O2cmxk', members)).text();
      const odd = await readUntilBreak(await chat(vendor, `say-aMOpIPCfjI0gd8O2cmxk+${wire}`, members));
      const contents = (text: string) => [...text.matchAll(/"content":"([^"]*)"/g)].map((match) => match[1]);
      expect(contents(odd.text)).toEqual(contents(plain));
      expect(odd.chunks).toBeGreaterThan(20);
      if (wire === 'crlf') expect(odd.text).not.toMatch(/[^\r]\n/);
    }),
  );

  test('pauses between deltas for models named pace-<ms>', () =>
    withVendor(
      async (vendor) => {
        const read = async (model: string) => (await readUntilBreak(await chat(vendor, model, { stream: true }))).chunks;
        expect(await read('echo')).toBeGreaterThanOrEqual(5);
        expect(await read('echo+pace-0')).toBeLessThan(5);
      },
      { paceMs: 10 },
    ));
});

/** Waits until the vendor has received a request. */
async function seen(requests: () => readonly unknown[]): Promise<void> {
  while (requests().length === 0) await new Promise((resolve) => setImmediate(resolve));
}
