/**
 * Tests the response cache from the perspective of applications, with vendors of both dialects (see
 * docs/architecture/response-cache.md).
 */
import { type IncomingMessage, request as openRequest } from 'node:http';
import { describe, expect, test } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, defaultYaml, eventually, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import { readUntilCut } from '../support/read-until-cut.ts';
import { unusedUrl } from '../support/unused-port.ts';
import { anthropicOf, chatTools, type Dialect, messagesTools, openaiOf, paths, vendors, ways } from './dialects-gateway.ts';
import { projectLender } from './inference-routes.ts';

const gateway = shareGateway({ database: 'any', cache: true });
const lendProject = projectLender(gateway, 'cache');

const question = [{ role: 'user' as const, content: 'Please use a tool: the weather in Oslo' }];

interface Asked {
  readonly cache: string | null;
  readonly status: number;
  readonly text: string;
}

interface ChatOptions {
  readonly model?: string;
  readonly stream?: boolean;
  readonly headers?: Record<string, string>;
  readonly more?: object;
}

async function ask(
  lent: TestGateway,
  caller: Dialect,
  { model = 'one/echo', stream, headers = {}, more = {} }: ChatOptions = {},
): Promise<Asked> {
  const own = caller === 'messages' ? { max_tokens: 100 } : {};
  const form = stream === undefined ? {} : { stream };
  const answer = await lent.call(paths[caller], { model, messages: question, ...own, ...more, ...form }, headers);
  const { text } = await readUntilCut(answer);
  return { cache: answer.headers.get('x-gateway-cache'), status: answer.status, text };
}

const caches = (asked: readonly Asked[]) => asked.map(({ cache }) => cache);

/** Counts the requests to the scripted vendor while `work` runs. */
async function vendorCallsOf({ vendor }: TestGateway, work: () => Promise<unknown>): Promise<number> {
  const before = vendor.requests().at(-1)?.requestNumber ?? 0;
  await work();
  return (vendor.requests().at(-1)?.requestNumber ?? 0) - before;
}

describe('a request that the cache can serve', () => {
  describe.each(ways)('$caller callers and $vendor vendors', ({ caller, vendor }) => {
    const model = `${vendors[vendor]}/echo`;
    const tools = caller === 'chat' ? chatTools : messagesTools;

    test.each([false, true])('returns a cached response byte for byte (streamed: %s)', async (stream) => {
      const lent = await lendProject();
      const count = await vendorCallsOf(lent, async () => {
        const first = await ask(lent, caller, { model, stream });
        const second = await ask(lent, caller, { model, stream });
        expect(caches([first, second])).toEqual(['miss', 'hit']);
        expect(second.text).toBe(first.text);
      });
      expect(count).toBe(1);
    });

    test.each([
      ['text', {}],
      ['tool calls', { tools }],
    ])('serves the same cached content to plain and streamed calls: %s', async (_what, more) => {
      const [one, two] = [await lendProject(), await lendProject()];
      const hear = hearers[caller];
      const [plain, replayed] = [await hear(one, { model, ...more }, false), await hear(one, { model, ...more }, true)];
      const [streamed, assembled] = [await hear(two, { model, ...more }, true), await hear(two, { model, ...more }, false)];
      expect(replayed).toEqual(plain);
      expect(assembled).toEqual(streamed);
      for (const lent of [one, two]) expect((await callsOf(lent)).map((call) => cacheOf(call))).toEqual(['hit', 'miss']);
    });
  });

  test('caches a response with several choices if the project caches sampled responses', async () => {
    const lent = await lendProject();
    await lent.admin('PUT', `/provision/teams/${lent.project}`, { cache_sampled: true });
    const say = `one/say-${Buffer.from('😀 every word').toString('base64url')}`;
    await ask(lent, 'chat', { model: say, more: { n: 2 } });
    expect((await ask(lent, 'chat', { model: say, more: { n: 2 }, stream: true })).cache).toBe('hit');
  });

  test('includes usage and the closing event in a cached stream', async () => {
    const lent = await lendProject();
    await ask(lent, 'chat');
    const asking = { stream: true, stream_options: { include_usage: true } };
    const answer = await lent.call(paths.chat, { model: 'one/echo', messages: question, ...asking });
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
      'x-gateway-cache': 'hit',
      'x-gateway-model': 'one/echo',
    });
    expect(await answer.text()).toMatch(/"choices":\[\],"usage":\{"prompt_tokens":\d+[^\n]*\n\ndata: \[DONE\]\n\n$/);
  });

  test("includes the vendor's headers in a cached response", async () => {
    const lent = await lendProject();
    await ask(lent, 'messages', { model: 'three/echo', stream: true });
    const answer = await lent.call(paths.messages, { model: 'three/echo', messages: question, max_tokens: 100, stream: false });
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'x-gateway-cache': 'hit',
      'x-gateway-model': 'three/echo',
    });
  });

  test('serves a response that was cached for another key of the same project', async () => {
    const lent = await lendProject();
    await ask(lent, 'chat');
    const { key } = await jsonOf<{ key: string }>(lent.admin('POST', `/provision/teams/${lent.project}/keys`, { name: 'other' }));
    const other = { authorization: `Bearer ${key}` };
    expect((await ask(lent, 'chat', { headers: other })).cache).toBe('hit');
  });

  test('records a cache hit without tokens, cost or attempts', async () => {
    const lent = await lendProject();
    await ask(lent, 'chat', { headers: { 'x-gateway-task-id': 't-1' } });
    await ask(lent, 'chat', { headers: { 'x-gateway-task-id': 't-2' }, stream: true });
    const [hit, miss] = await callsOf(lent);
    expect(hit).toMatchObject({
      cache: 'hit',
      outcome: 'ok',
      status: 200,
      code: null,
      model: 'one/echo',
      stream: true,
      cost: 0,
      estimated: false,
      tokens: { input: 0, cached_input: 0, cache_write: 0, output: 0 },
      task_id: 't-2',
      attempts: [],
      plan: [{ model: 'one/echo', skipped: null }],
    });
    expect(miss).toMatchObject({ cache: 'miss', task_id: 't-1' });
    expect(miss?.cost).toBeGreaterThan(0);
    const status = await jsonOf<{ key: { ceilings: Record<string, { used: number }> } }>(lent.call('/status/peek'));
    expect(status.key.ceilings.calls?.used).toBe(1);
  });

  test('records a cached response in the conversation', async () => {
    const lent = await lendProject();
    const subject = { 'x-gateway-memory-subject': 'ada' };
    await ask(lent, 'chat', { headers: subject });
    await ask(lent, 'chat', { headers: subject, stream: true });
    await callsOf(lent);
    const texts = await lent.database.query<{ answered: boolean; last: string }>(
      `select answered, encode(last_hash, 'hex') as last from call_texts
        where project_id = (select id from projects where slug = $1::text)`,
      [lent.project],
    );
    expect(texts).toEqual([
      { answered: true, last: expect.stringMatching(/^[0-9a-f]+$/) },
      { answered: true, last: texts[0]?.last },
    ]);
  });

  test('serves a cached response that came from the second model in the plan', async () => {
    const lent = await lendProject();
    await lent.admin('PUT', `/provision/teams/${lent.project}`, { tiers: { mine: ['one/fail-500+cache', 'two/echo'] } });
    const asked = [await ask(lent, 'chat', { model: 'mine' }), await ask(lent, 'chat', { model: 'mine' })];
    expect(caches(asked)).toEqual(['miss', 'hit']);
    expect((await callsOf(lent))[0]).toMatchObject({ model: 'two/echo', attempts: [] });
  });

  test('serves a cached response even if its vendor has become unhealthy', async () => {
    const lent = await lendProject();
    await lent.admin('PUT', `/provision/teams/${lent.project}`, { tiers: { mine: ['one/echo', 'two/echo'] } });
    const kept = await ask(lent, 'chat', { model: 'mine' });
    for (let fault = 0; fault < 5; fault += 1) await ask(lent, 'chat', { model: 'one/fail-500' });
    const { breakers } = await jsonOf<{ breakers: { provider: string; state: string }[] }>(lent.call('/status/peek'));
    expect(breakers.find(({ provider }) => provider === 'one')).toMatchObject({ state: 'open' });
    const again = await ask(lent, 'chat', { model: 'mine' });
    expect([kept.cache, again.cache, again.text]).toEqual(['miss', 'hit', kept.text]);
    expect((await callsOf(lent))[0]).toMatchObject({ model: 'one/echo', attempts: [] });
    const asked = await ask(lent, 'chat', { model: 'mine', headers: { 'cache-control': 'no-store' } });
    expect(asked.cache).toBe('miss');
    expect((await callsOf(lent))[0]).toMatchObject({ model: 'two/echo', plan: [{ model: 'two/echo' }, { model: 'one/echo' }] });
  });
});

test.each([false, true])('returns 403 for a cached response that a content rule now blocks (streamed: %s)', async (stream) => {
  const lent = await lendProject();
  const options: ChatOptions = { model: `one/say-${Buffer.from('Write to ada@example.com').toString('base64url')}`, stream };
  expect(caches([await ask(lent, 'chat', options), await ask(lent, 'chat', options)])).toEqual(['miss', 'hit']);
  const rules = [{ class: 'email', place: 'output', action: 'block' }];
  expect((await lent.admin('PUT', `/provision/teams/${lent.project}/rules`, { rules })).status).toBe(200);
  const refused = await ask(lent, 'chat', options);
  expect([refused.status, refused.text.includes('ada@')]).toEqual([403, false]);
  expect((await callsOf(lent))[0]).toMatchObject({ cache: 'hit', outcome: 'refused', code: 'guardrail_blocked', cost: 0, attempts: [] });
});

describe("a request that the cache can't serve", () => {
  const missesTwice = async (lent: TestGateway, first: ChatOptions, second: ChatOptions, caller: Dialect = 'chat'): Promise<void> => {
    const asked = [await ask(lent, caller, first), await ask(lent, caller, second)];
    expect(caches(asked)).toEqual(['miss', 'miss']);
  };

  test.each<[string, ChatOptions, ChatOptions]>([
    ['if a body field differs', {}, { more: { temperature: 0 } }],
    ['if another model is requested', {}, { model: 'two/echo' }],
    ['if a forwarded header differs', {}, { headers: { 'openai-beta': 'x' } }],
    ['with cache-control: no-cache', {}, { headers: { 'cache-control': 'No-Cache' } }],
    ['with cache-control: max-age=0', {}, { headers: { 'cache-control': 'max-age=0' } }],
    ['with cache-control: no-store', {}, { headers: { 'cache-control': 'max-age=0, no-store' } }],
    ['after a no-store response', { headers: { 'cache-control': 'NO-STORE,x' } }, {}],
  ])('calls the vendor instead of using the cache %s', async (_when, first, second) => {
    await missesTwice(await lendProject(), first, second);
  });

  test.each<[string, object]>([
    ['a temperature above 0', { temperature: 1 }],
    ['a temperature that is text', { temperature: '0.7' }],
    ['several choices', { n: 2 }],
  ])('calls the vendor for every request with %s', async (_what, more) => {
    const lent = await lendProject();
    const count = await vendorCallsOf(lent, async () => {
      await missesTwice(lent, { more }, { more });
      // A response that was not stored isn't found when the project turns the cache on either.
      await lent.admin('PUT', `/provision/teams/${lent.project}`, { cache_sampled: true });
      expect(caches([await ask(lent, 'chat', { more }), await ask(lent, 'chat', { more })])).toEqual(['miss', 'hit']);
    });
    expect(count).toBe(3);
  });

  test.each<[string, object]>([
    ['no temperature', {}],
    ['a temperature of 0', { temperature: 0.0 }],
    ['null', { temperature: null, n: null }],
    ['one choice', { n: 1 }],
  ])('calls the vendor only once for identical requests with %s', async (_what, more) => {
    const lent = await lendProject();
    expect(caches([await ask(lent, 'chat', { more }), await ask(lent, 'chat', { more })])).toEqual(['miss', 'hit']);
  });

  test('caches the response to a request with cache-control: no-cache', async () => {
    const lent = await lendProject();
    const asked = [await ask(lent, 'chat', { headers: { 'cache-control': 'no-cache' } }), await ask(lent, 'chat')];
    expect(caches(asked)).toEqual(['miss', 'hit']);
  });

  test("doesn't serve cached responses to another project", async () => {
    const [one, two] = [await lendProject(), await lendProject()];
    const count = await vendorCallsOf(one, async () => {
      expect(caches([await ask(one, 'chat'), await ask(two, 'chat'), await ask(one, 'chat')])).toEqual(['miss', 'miss', 'hit']);
    });
    expect(count).toBe(2);
  });

  test("calls the vendor if the key may not use the cached response's model", async () => {
    const lent = await lendProject();
    await lent.admin('PUT', `/provision/teams/${lent.project}`, { tiers: { mine: ['one/echo', 'two/echo'] } });
    await ask(lent, 'chat', { model: 'mine' });
    const { key } = await jsonOf<{ key: string }>(
      lent.admin('POST', `/provision/teams/${lent.project}/keys`, { name: 'narrow', models: ['two/echo'] }),
    );
    const answer = await ask(lent, 'chat', { model: 'mine', headers: { authorization: `Bearer ${key}` } });
    expect(answer.cache).toBe('miss');
    expect((await callsOf(lent))[0]).toMatchObject({ model: 'two/echo', cache: 'miss' });
  });

  test("calls the vendor if the cached response's model has been retired", async () => {
    const lent = await lendProject();
    const path = `/provision/teams/${lent.project}`;
    await lent.admin('PUT', path, { tiers: { mine: ['one/echo', 'two/echo'] } });
    await ask(lent, 'chat', { model: 'mine' });
    await lent.admin('PUT', path, { retired: ['one/echo'] });
    expect((await ask(lent, 'chat', { model: 'mine' })).cache).toBe('miss');
    expect((await callsOf(lent))[0]).toMatchObject({ model: 'two/echo' });
  });

  test("calls the vendor while the project's cache is off", async () => {
    const lent = await lendProject();
    const path = `/provision/teams/${lent.project}`;
    await ask(lent, 'chat');
    await lent.admin('PUT', path, { cache: { enabled: false } });
    expect((await ask(lent, 'chat')).cache).toBe('miss');
    await lent.admin('PUT', path, { cache: { enabled: true } });
    expect((await ask(lent, 'chat')).cache).toBe('hit');
  });

  test.each<[string, Dialect, string]>([
    ['a broken stream', 'chat', 'one/break-after-1'],
    ['a stream with an error event', 'chat', 'one/error-after-1'],
    ['a broken messages stream', 'messages', 'three/break-after-1'],
    ['a broken translated stream', 'chat', 'three/break-after-1'],
  ])('calls the vendor again after %s', async (_what, caller, model) => {
    await missesTwice(await lendProject(), { model, stream: true }, { model, stream: true }, caller);
  });

  test.each<[number, string]>([
    [502, 'one/fail-500'],
    [400, 'one/refuse-400'],
  ])("doesn't cache a %i error", async (status, model) => {
    const lent = await lendProject();
    const count = await vendorCallsOf(lent, async () => {
      for (let n = 0; n < 2; n += 1) expect((await ask(lent, 'chat', { model })).status).toBe(status);
    });
    expect(count).toBe(2);
    expect(await vendorCallsOf(lent, () => ask(lent, 'chat', { model: 'one/echo' }))).toBe(1);
  });

  test("doesn't cache a response if its caller disconnected", async () => {
    const lent = await lendProject();
    const options = { model: 'one/long-200+pace-20', messages: question, stream: true };
    const leaving = new AbortController();
    const answer = await fetch(`${lent.url}${paths.chat}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${lent.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(options),
      signal: leaving.signal,
    });
    await answer.body?.getReader().read();
    leaving.abort();
    await eventually(async () => expect((await callsOf(lent))[0]).toMatchObject({ outcome: 'client_left' }));
    expect((await ask(lent, 'chat', { model: options.model, stream: true })).cache).toBe('miss');
  });

  test("doesn't cache a response larger than 1 MiB", async () => {
    await missesTwice(await lendProject(), { model: 'one/big-1100' }, { model: 'one/big-1100' });
  });

  test.each(['embeddings', 'responses'])("doesn't cache responses on the %s route", async (route) => {
    const lent = await lendProject();
    const count = await vendorCallsOf(lent, async () => {
      for (let n = 0; n < 2; n += 1) {
        const answer = await lent.call(`/v1/${route}`, { model: 'one/echo', input: 'Hi' });
        expect([answer.status, answer.headers.get('x-gateway-cache')]).toEqual([200, null]);
        await answer.text();
      }
    });
    expect(count).toBe(2);
  });
});

test('delivers a complete cached stream to a slow reader', async () => {
  const lent = await lendProject();
  const options: ChatOptions = { model: 'one/big-700', stream: true };
  const { text } = await ask(lent, 'chat', options);
  expect((await readSlowly(lent, options)) === text).toBe(true);
  expect((await callsOf(lent))[0]).toMatchObject({ cache: 'hit', outcome: 'ok' });
});

test("doesn't serve a cached response after it expires", async () => {
  let now = Date.parse('2026-11-21T12:00:00Z');
  const clock = { now: () => now };
  await withGateway({ database: 'any', cache: true, clock }, async (lent) => {
    expect(caches([await ask(lent, 'chat'), await ask(lent, 'chat')])).toEqual(['miss', 'hit']);
    now += 599_000;
    expect((await ask(lent, 'chat')).cache).toBe('hit');
    now += 2_000;
    expect(caches([await ask(lent, 'chat'), await ask(lent, 'chat')])).toEqual(['miss', 'hit']);
    const env = { GATEWAY_TEMPORAL: 'off', GATEWAY_DATA_DIR: lent.dataDir };
    lent.app.reload(loadConfig({ env, fileText: defaultYaml(lent.vendor.url, await unusedUrl()), fileName: 'gateway.yaml' }));
    expect(caches([await ask(lent, 'chat'), await ask(lent, 'chat')])).toEqual(['miss', 'hit']);
    expect(lent.app.responseCache.state()).toMatchObject({ hits: 4, misses: 3, stored: 3 });
  });
});

/** Returns the response as the SDK of the dialect reads it, without details that only one format has. */
const hearers: Record<Dialect, (lent: TestGateway, body: { model: string; tools?: unknown }, stream: boolean) => Promise<unknown>> = {
  async chat(lent, { model, tools }, stream) {
    const openai = openaiOf(lent);
    const body = { model, messages: question, ...(tools ? { tools: chatTools } : {}) };
    const answer = stream
      ? await openai.chat.completions.stream({ ...body, stream_options: { include_usage: true } }).finalChatCompletion()
      : await openai.chat.completions.create(body);
    const { id, created, choices, usage } = answer;
    return {
      id,
      created,
      model: answer.model,
      usage,
      choices: choices.map(({ index, message, finish_reason }) => ({
        index,
        finish_reason,
        // With tool calls, a missing text is null in one format and empty in the other.
        content: message.content || null,
        calls: message.tool_calls?.map((call) =>
          call.type === 'function' ? [call.id, call.function.name, call.function.arguments] : null,
        ),
      })),
    };
  },
  async messages(lent, { model, tools }, stream) {
    const anthropic = anthropicOf(lent);
    const body = { model, messages: question, max_tokens: 100, ...(tools ? { tools: messagesTools } : {}) };
    const answer = stream ? await anthropic.messages.stream(body).finalMessage() : await anthropic.messages.create(body);
    const { id, role, content, stop_reason, stop_sequence, usage } = JSON.parse(JSON.stringify(answer)) as Record<string, unknown>;
    return { id, role, content, stop_reason, stop_sequence, usage };
  },
};

function cacheOf(call: object): unknown {
  return 'cache' in call ? call.cache : null;
}

/** Reads a response slowly over a separate socket. */
async function readSlowly({ url, key }: TestGateway, { model, stream }: ChatOptions): Promise<string> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const request = openRequest(`${url}${paths.chat}`, { method: 'POST', headers });
    request.once('response', resolve).once('error', reject);
    request.end(JSON.stringify({ model, messages: question, stream }));
  });
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) {
    text += chunk;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return text;
}
