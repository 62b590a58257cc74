/**
 * Tests which vendor's refusal a caller gets, when it's asked to wait, and which vendors get the caller's idempotency
 * key.
 */
import { describe, expect, it } from '@jest/globals';
import OpenAI from 'openai';
import type { TestGateway } from '../support/gateway.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';
import { readUntilCut } from '../support/read-until-cut.ts';
import { lastCall, paths, providersYaml } from './dialects-gateway.ts';

const tiers = {
  sizes: ['one/window-2000', 'two/echo+same', 'four/echo+large'],
  'sizes-other': ['three/window-2000', 'two/echo+same', 'four/echo+large'],
  'too-small': ['one/window-2000', 'two/echo+same'],
  'too-small-other': ['three/window-2000', 'two/echo+same'],
  'limited-both': ['one/rate-limited-40', 'three/rate-limited-90+x'],
  'limited-and-refused': ['one/rate-limited-7', 'three/refuse-400', 'two/quota', 'four/fail-401'],
  'limited-and-failed': ['one/rate-limited-7', 'three/fail-500'],
  'limited-short': ['one/rate-limited-0.01', 'three/fail-529'],
  'quota-both': ['one/quota', 'three/spend-limit'],
  'missing-everywhere': ['one/fail-404', 'three/fail-405', 'two/fail-409', 'four/refuse-400'],
  'refused-then-missing': ['one/refuse-422', 'three/fail-404'],
  'missing-then-limited': ['one/fail-404', 'three/rate-limited-0.01'],
  'missing-then-failed': ['one/fail-404', 'three/fail-500'],
  'missing-then-forbidden': ['one/fail-404', 'three/fail-403'],
  'missing-then-quota': ['one/fail-409', 'three/quota'],
  'ours-first': ['three/echo', 'one/refuse-422', 'two/refuse-400'],
  'ours-alone': ['three/echo', 'four/echo'],
  'ours-then-answer': ['three/echo', 'one/echo'],
  'ours-then-failure': ['three/echo', 'one/fail-500'],
  'failure-then-ours': ['one/fail-500', 'three/echo'],
  'limited-then-ours': ['one/rate-limited-once-0.01+b', 'three/echo'],
  'opened-chat': ['one/error-after-0', 'three/error-after-0', 'two/echo+opened'],
  'opened-broken': ['three/break-after-0', 'one/break-after-0+long-9', 'two/echo+opened'],
  keyed: ['one/fail-500+a', 'one/fail-500+b', 'three/fail-500+c', 'two/fail-500+d', 'three/echo+e'],
  retried: ['one/rate-limited-once-0.01+a'],
};
const models = {
  // The vendor has a smaller limit than the catalog says.
  'one/window-2000': { max_input_tokens: 4_000 },
  'three/window-2000': { max_input_tokens: 4_000 },
  'two/echo+same': { max_input_tokens: 2_000 },
  'four/echo+large': { max_input_tokens: 8_000 },
};
const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) => `${providersYaml(vendorUrl, deadUrl)}models: ${JSON.stringify(models)}\ntiers: ${JSON.stringify(tiers)}\n`,
});
let projects = 0;
const lend = async (): Promise<TestGateway> => {
  projects += 1;
  const gateway = await lent().withProject(`details-${projects}`);
  gateway.vendor.clear();
  return gateway;
};

/** Two choices in one response, which the messages dialect cannot express. */
const twice = (model: string) => ({ model, n: 2, messages: [{ role: 'user', content: 'hi' }] });

describe("a call that can't be translated to the other dialect", () => {
  it("returns a vendor's message even if the call couldn't be translated for an earlier model", async () => {
    const gateway = await lend();
    const answer = await gateway.call(paths.chat, twice('ours-first'));
    expect([answer.status, await answer.json()]).toEqual([
      422,
      {
        error: {
          message: "The request is not one that 'refuse-422' can answer.",
          type: 'upstream_refused',
          code: 'upstream_refused',
          upstream_code: 'unsupported_parameter',
          upstream_type: 'invalid_request_error',
        },
      },
    ]);
    expect(await lastCall(gateway)).toMatchObject({
      outcome: 'refused',
      status: 422,
      attempts: [{ status: null }, { status: 422 }, { status: 400 }],
    });
  });

  it("returns 400 with the gateway's own message if no vendor could be called", async () => {
    const gateway = await lend();
    const answer = await gateway.call(paths.chat, twice('ours-alone'));
    expect(answer.status).toBe(400);
    expect((await jsonOf<{ error: { message: string } }>(answer)).error.message).toBe(
      'n: must be 1 for vendors that use the messages dialect',
    );
    expect(gateway.vendor.requests()).toEqual([]);
  });

  it('returns 502 if the call can be translated for only one model and that model fails', async () => {
    const gateway = await lend();
    expect((await gateway.call(paths.chat, twice('ours-then-answer'))).headers.get('x-gateway-model')).toBe('one/echo');
    for (const tier of ['ours-then-failure', 'failure-then-ours']) {
      const failed = await gateway.call(paths.chat, twice(tier));
      expect([failed.status, await failed.json()]).toMatchObject([
        502,
        { error: { code: 'upstream_failed', message: expect.stringMatching(/^one\/fail-500: the vendor responded with 500/) } },
      ]);
    }
  });

  it("waits and retries after a 429 if the call can't be translated for any other vendor", async () => {
    const gateway = await lend();
    const answer = await gateway.call(paths.chat, twice('limited-then-ours'));
    expect(answer.status).toBe(200);
    expect((await lastCall(gateway)).attempts).toMatchObject([
      { model: 'rate-limited-once-0.01+b', status: 429 },
      { model: 'echo', status: null },
      { model: 'rate-limited-once-0.01+b', status: 200, wait_ms: 10 },
    ]);
  });
});

describe('a request that no model in the chain can serve', () => {
  const ask = async (model: string) => {
    const gateway = await lend();
    const body = { model, max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] };
    return { gateway, answer: await gateway.call(paths.chat, body) };
  };

  it.each([
    ['missing-everywhere', 404, ['failed', 'failed', 'failed', 'refused']],
    ['refused-then-missing', 422, ['refused', 'failed']],
  ])("returns the first vendor's status if every model refuses: %s", async (model, status, outcomes) => {
    const { gateway, answer } = await ask(model);
    expect([answer.status, await answer.json()]).toMatchObject([status, { error: { code: 'upstream_refused' } }]);
    expect((await lastCall(gateway)).attempts).toMatchObject(outcomes.map((outcome) => ({ outcome })));
  });

  it.each([
    ['missing-then-limited', 503],
    ['missing-then-failed', 502],
    ['missing-then-forbidden', 502],
    ['missing-then-quota', 502],
  ])("doesn't count a call as refused unless every model refuses it: %s (%d)", async (model, status) => {
    const { answer } = await ask(model);
    expect([answer.status, await answer.json()]).toMatchObject([status, { error: { code: 'upstream_failed' } }]);
  });
});

describe('a stream that fails before its first content', () => {
  it.each([
    ['opened-chat', paths.chat],
    ['opened-chat', paths.messages],
    ['opened-broken', paths.chat],
    ['opened-broken', paths.messages],
    ['opened-chat', '/v1/responses'],
  ])('streams from the next model if the first one fails before any content (%s, %s)', async (model, path) => {
    const gateway = await lend();
    const response = await gateway.call(path, {
      model,
      stream: true,
      max_tokens: 9,
      input: 'hi',
      messages: [{ role: 'user', content: 'hi' }],
    });
    expect([response.status, response.headers.get('x-gateway-model')]).toEqual([200, 'two/echo+opened']);
    expect(await response.text()).not.toContain('after-0');
    expect((await lastCall(gateway)).attempts).toMatchObject([{ outcome: 'failed' }, { outcome: 'failed' }, { outcome: 'ok' }]);
  });

  it('forwards the broken stream if there is no other model to try', async () => {
    const gateway = await lend();
    const body = { model: 'one/error-after-0', stream: true, messages: [{ role: 'user', content: 'hi' }] };
    const response = await gateway.call(paths.chat, body);
    expect([response.status, await readUntilCut(response)]).toEqual([
      200,
      { isCut: true, text: expect.stringMatching(/^data: .*"role":"assistant".*\n\ndata: .*"error"/) },
    ]);
  });
});

describe('a prompt that is too long for the model', () => {
  const routes = [
    { caller: 'chat', own: 'one', tier: '', path: paths.chat, more: {} },
    { caller: 'chat', own: 'three', tier: '-other', path: paths.chat, more: {} },
    { caller: 'messages', own: 'three', tier: '-other', path: paths.messages, more: { max_tokens: 9 } },
    { caller: 'messages', own: 'one', tier: '', path: paths.messages, more: { max_tokens: 9 } },
  ] as const;
  const prompt = (terms: number) => ({ messages: [{ role: 'user', content: 'lorem ipsum '.repeat(terms / 2) }] });

  it.each(routes)('switches to a model with a larger context window ($caller on $own)', async ({ own, tier, path, more }) => {
    const gateway = await lend();
    for (const stream of [false, true]) {
      // The vendor counts 2,250 tokens, the gateway at least 1,500.
      const answer = await gateway.call(path, { model: `sizes${tier}`, stream, ...more, ...prompt(1_500) });
      expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'four/echo+large']);
      await answer.text();
      const call = await lastCall(gateway);
      expect(call.plan.map(({ model, skipped }) => [model, skipped])).toEqual([
        [`${own}/window-2000`, null],
        ['two/echo+same', null],
        ['four/echo+large', null],
      ]);
      expect(call.attempts).toMatchObject([{ provider: own, status: 400, outcome: 'refused' }, { provider: 'four' }]);
    }
    const { breakers } = await jsonOf<{ breakers: { provider: string }[] }>(gateway.call('/status/peek'));
    expect(breakers.find(({ provider }) => provider === own)).toMatchObject({ state: 'closed', failures: 0 });
  });

  it.each(routes)('never switches to a model with a smaller context window ($caller on $own)', async ({ own, tier, path, more }) => {
    const gateway = await lend();
    const answer = await gateway.call(path, { model: `sizes${tier}`, ...more, ...prompt(5_000) });
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'four/echo+large']);
    const call = await lastCall(gateway);
    expect(call.plan.map(({ model, skipped }) => [model, skipped])).toEqual([
      ['four/echo+large', null],
      [`${own}/window-2000`, 'context_too_small'],
      ['two/echo+same', 'context_too_small'],
    ]);
    expect(call.attempts).toHaveLength(1);
  });

  it.each(routes)(
    'returns the error that SDKs expect if no model has a larger context window ($caller on $own)',
    async ({ caller, own, tier, path, more }) => {
      const gateway = await lend();
      for (const stream of [false, true]) {
        const answer = await gateway.call(path, { model: `too-small${tier}`, stream, ...more, ...prompt(5_000) });
        const { error } = await jsonOf<{ error: Record<string, string> }>(answer);
        expect([answer.status, answer.headers.get('retry-after')]).toEqual([400, null]);
        expect(error).toEqual({
          message: expect.stringMatching(
            own === 'one' ? /^Input tokens exceed the configured limit of 2000 tokens/ : /^prompt is too long: \d+ tokens > 2000/,
          ),
          ...(caller === 'chat' ? { type: 'upstream_refused', code: 'upstream_refused' } : { type: 'invalid_request_error' }),
          upstream_code: 'context_length_exceeded',
          upstream_type: 'invalid_request_error',
          ...(own === 'one' && { param: 'messages' }),
          hint: expect.any(String),
        });
        // LangChain for OpenAI and for Anthropic, then LiteLLM. Each of them searches the text of the whole error.
        const text = JSON.stringify(error);
        for (const phrase of ['context_length_exceeded', 'prompt is too long', "model's maximum context limit"])
          expect(text).toContain(phrase);
        expect(text).not.toMatch(/rate[\s_-]*limit/i);
      }
    },
  );
});

describe('a chain of rate-limited vendors', () => {
  it.each([
    ['as long as the vendor with the shortest wait', 'limited-both', 503, '40'],
    ['even if another model refuses', 'limited-and-refused', 503, '7'],
    ['at least a second', 'limited-short', 503, '1'],
    ['not at all if another model failed', 'limited-and-failed', 502, null],
    ['not at all if the quota is exhausted', 'quota-both', 502, null],
  ])('tells the caller to wait %s (%s)', async (_what, model, status, retryAfter) => {
    const gateway = await lend();
    for (const stream of [false, true])
      for (const [path, body] of [
        [paths.chat, { messages: [{ role: 'user', content: 'hi' }] }],
        [paths.messages, { messages: [{ role: 'user', content: 'hi' }], max_tokens: 9 }],
      ] as const) {
        // Without a deadline the gateway would wait for the vendors itself.
        const answer = await gateway.call(path, { ...body, model, stream }, { 'x-gateway-timeout-ms': '5000' });
        expect([answer.status, answer.headers.get('retry-after'), answer.headers.get('content-type')]).toEqual([
          status,
          retryAfter,
          'application/json',
        ]);
        expect(await answer.json()).toMatchObject({ error: path === paths.chat ? { code: 'upstream_failed' } : { type: 'api_error' } });
      }
  });

  it('keeps an SDK from retrying too early', async () => {
    const gateway = await lend();
    const delays: number[] = [];
    const openai = new OpenAI({
      baseURL: `${gateway.url}/v1`,
      apiKey: gateway.key,
      maxRetries: 1,
      fetch: (url, init) => {
        delays.push(performance.now());
        return fetch(url, init);
      },
    });
    await expect(
      openai.chat.completions.create({ model: 'limited-short', messages: [{ role: 'user', content: 'hi' }] }),
    ).rejects.toMatchObject({ status: 503 });
    const [first = 0, second = 0] = delays;
    // A timer may be a millisecond early.
    expect(second - first).toBeGreaterThanOrEqual(999);
  });
});

describe('idempotency keys of callers', () => {
  const keysSent = ({ vendor }: TestGateway) =>
    vendor.requests().map(({ headers, body }) => [JSON.parse(body.toString('utf8')).model, headers['idempotency-key'] ?? null]);

  it("sends the caller's idempotency key to only one model of each provider", async () => {
    const gateway = await lend();
    const body = { model: 'keyed', messages: [{ role: 'user', content: 'hi' }] };
    expect((await gateway.call(paths.chat, body, { 'idempotency-key': 'k-1' })).status).toBe(200);
    expect(keysSent(gateway)).toEqual([
      ['fail-500+a', 'k-1'],
      ['fail-500+b', null],
      ['fail-500+c', 'k-1'],
      ['fail-500+d', 'k-1'],
      ['echo+e', null],
    ]);
  });

  it('reuses the idempotency key when it retries the same model', async () => {
    const gateway = await lend();
    const body = { model: 'retried', messages: [{ role: 'user', content: 'hi' }] };
    expect((await gateway.call(paths.chat, body, { 'idempotency-key': 'k-2' })).status).toBe(200);
    expect(keysSent(gateway)).toEqual([
      ['rate-limited-once-0.01+a', 'k-2'],
      ['rate-limited-once-0.01+a', 'k-2'],
    ]);
  });
});
