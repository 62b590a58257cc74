/** Tests additional routes that clients of OpenAI and Anthropic call, using their SDKs and raw sockets. */
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, it } from '@jest/globals';
import OpenAI from 'openai';
import { callsOf, defaultYaml, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { readUntilCut } from '../support/read-until-cut.ts';
import { expectChatError } from './inference-routes.ts';

const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) =>
    defaultYaml(vendorUrl, deadUrl).replace(
      'tiers:',
      `tiers:
  counted: [one/echo, three/not-found, four/fail-500, three/echo]
  dead: [dead-messages/echo, one/echo]
  refusing: [one/echo, three/refuse-422, four/refuse-400]
  mixed: [three/refuse-422, dead-messages/echo]`,
    ),
});
const messages = [{ role: 'user' as const, content: 'Where is Oslo?' }];
const openaiOf = ({ url, key }: TestGateway) => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const anthropicOf = ({ url, key }: TestGateway) => new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const listed = [...['one/echo', 'two/echo', 'three/echo', 'four/echo'], ...['counted', 'dead', 'refusing', 'mixed', 'standard', 'auto']];

describe('/', () => {
  it('returns the service name without a key', async () => {
    const { url } = lent();
    const answer = await fetch(url);
    expect([answer.status, await answer.json()]).toEqual([
      200,
      { name: 'model-gateway', version: '0.1.0', links: expect.objectContaining({ models: '/v1/models' }) },
    ]);
    const head = await fetch(url, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });
});

describe('/v1/models', () => {
  it('lists and retrieves models with the openai SDK', async () => {
    const { models } = openaiOf(lent());
    const ids: string[] = [];
    for await (const { id } of models.list()) ids.push(id);
    expect(ids).toEqual(listed);
    expect(await models.retrieve('three/echo')).toEqual({
      id: 'three/echo',
      object: 'model',
      created: expect.any(Number),
      owned_by: 'three',
    });
    expect(await models.retrieve('standard')).toMatchObject({ id: 'standard', owned_by: 'gateway' });
    expect(await jsonOf(lent().call('/v1/models/three%2Fecho'))).toEqual(await jsonOf(lent().call('/v1/models/three/echo')));
    await expect(models.retrieve('three/nothing')).rejects.toMatchObject({
      status: 404,
      code: 'not_found',
      message: expect.stringContaining('unknown model "three/nothing"'),
    });
  });

  it('pages through the models with the anthropic SDK', async () => {
    const { models } = anthropicOf(lent());
    const found: Anthropic.ModelInfo[] = [];
    for await (const model of models.list({ limit: 2 })) found.push(model);
    expect(found.map(({ id }) => id)).toEqual(listed);
    expect(found[0]).toEqual({ type: 'model', id: 'one/echo', display_name: 'one/echo', created_at: expect.stringMatching(/Z$/) });
    const last = await models.list({ limit: 3, before_id: 'auto' });
    expect([last.data.map(({ id }) => id), last.has_more, last.first_id]).toEqual([['refusing', 'mixed', 'standard'], true, 'refusing']);
    expect(await models.retrieve('one/echo')).toEqual(found[0]);
    // A name without a provider stands for the first model with that name.
    expect(await models.retrieve('echo')).toEqual(found[0]);
    await expect(models.retrieve('claude')).rejects.toMatchObject({
      status: 404,
      error: { type: 'error', error: { type: 'not_found_error' } },
    });
  });

  it("returns errors in the caller's format", async () => {
    const { url, call } = lent();
    const version = { 'anthropic-version': '2023-06-01' };
    await expectChatError(await fetch(`${url}/v1/models/echo`, { headers: { 'x-api-key': 'sk-gw-none' } }), 401, 'invalid_key');
    const refused = await fetch(`${url}/v1/models`, { headers: version });
    expect([refused.status, await refused.json()]).toEqual([
      401,
      { type: 'error', error: { type: 'authentication_error', message: expect.any(String) } },
    ]);
    for (const query of ['limit=0', 'limit=1001', 'limit=two', 'limit=', 'limit=1&limit=2', 'after_id=gone', 'before_id=']) {
      await expectChatError(await call(`/v1/models?${query}`), 400, 'bad_request');
      const answer = await call(`/v1/models?${query}`, undefined, version);
      expect([answer.status, await answer.json()]).toMatchObject([400, { error: { type: 'invalid_request_error' } }]);
    }
  });
});

describe('/v1/messages/count_tokens', () => {
  const path = '/v1/messages/count_tokens';

  it('counts tokens with the first vendor that supports it', async () => {
    const gateway = await lent().withProject('counting');
    const { vendor, call } = gateway;
    const body = `{ "model" : "counted","system":"\\u00e9", "messages":[{"role":"user","content":"Oslo?"}],"top_k":1.0}`;
    const answer = await call(path, body, { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'context-1m' });
    expect([answer.status, answer.headers.get('x-gateway-model'), answer.headers.get('x-gateway-token-count')]).toEqual([
      200,
      'three/echo',
      null,
    ]);
    const sent = vendor.requests().slice(-3);
    expect(sent.map(({ path: to, body: bytes }) => [to, JSON.parse(bytes.toString()).model])).toEqual([
      [path, 'not-found'],
      [path, 'fail-500'],
      [path, 'echo'],
    ]);
    expect(sent[2]?.body.toString()).toBe(body.replace('counted', 'echo'));
    expect(sent[2]?.headers).toMatchObject({ 'anthropic-beta': 'context-1m', 'x-api-key': 'key-three' });
    const direct = await fetch(vendor.url + path, {
      method: 'POST',
      headers: { 'x-api-key': 'any', 'anthropic-version': '2023-06-01', 'content-type': 'application/json' },
      body: body.replace('counted', 'echo'),
    });
    expect(await answer.text()).toBe(await direct.text());
    expect(await callsOf(gateway)).toEqual([]);
    const { breakers } = await jsonOf<{ breakers: unknown }>(call('/status/peek'));
    expect(breakers).toContainEqual(expect.objectContaining({ provider: 'four', failures: 0 }));
  });

  it('counts tokens for the anthropic SDK, including its beta client', async () => {
    const { messages: stable, beta } = anthropicOf(lent());
    const { input_tokens: count } = await stable.countTokens({ model: 'three/echo', messages, system: 'Answer in a word.' });
    expect(count).toBeGreaterThan(0);
    const asked = { model: 'three/echo', messages, betas: ['context-1m-2025-08-07'] };
    expect((await beta.messages.countTokens(asked)).input_tokens).toBeGreaterThan(0);
    expect(lent().vendor.requests().at(-1)?.headers['anthropic-beta']).toContain('context-1m-2025-08-07');
  });

  it.each(['one/echo', 'dead', 'mixed'])('estimates the number of tokens if no vendor of %s can count them', async (model) => {
    const gateway = await lent().withProject(`estimated-${model.replace('/', '-')}`);
    const count = async (content: unknown): Promise<number> => {
      const answer = await gateway.call(path, { model, messages: [{ role: 'user', content }] });
      expect([answer.status, answer.headers.get('x-gateway-token-count'), answer.headers.get('x-gateway-model')]).toEqual([
        200,
        'estimated',
        null,
      ]);
      return (await jsonOf<{ input_tokens: number }>(answer)).input_tokens;
    };
    const short = await count('Oslo');
    expect(short).toBeLessThan(10);
    expect(await count('Oslo '.repeat(1_000))).toBeGreaterThan(1_000);
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'A'.repeat(400_000) } };
    expect(await count([{ type: 'tool_result', tool_use_id: 't', content: [image] }])).toBeLessThan(3_000);
  });

  it('counts tokens without using up the calls ceiling, but only until the ceiling is reached', async () => {
    const gateway = await lent().withProject('free');
    const issued = await gateway.admin('POST', '/provision/teams/free/keys', { name: 'k', models: ['three/echo'], ceilings: { calls: 1 } });
    const { key } = await jsonOf<{ key: string }>(issued);
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    const count = (model: string, text = 'hi') =>
      fetch(gateway.url + path, {
        method: 'POST',
        headers,
        body: JSON.stringify({ model, messages: [{ role: 'user', content: text }] }),
      });
    for (let n = 0; n < 3; n += 1) expect((await count('three/echo')).status).toBe(200);
    const denied = await count('four/echo');
    expect([denied.status, await denied.json()]).toMatchObject([
      400,
      {
        type: 'error',
        error: { type: 'invalid_request_error', message: expect.stringMatching(/^model not permitted for this key: four\/echo/) },
      },
    ]);
    await gateway.admin('PUT', '/provision/teams/free/rules', {
      rules: [{ class: 'expression', place: 'input', action: 'block', expression: 'forbidden' }],
    });
    const before = gateway.vendor.requests().length;
    const blocked = await count('three/echo', 'forbidden');
    expect([blocked.status, gateway.vendor.requests().length]).toEqual([403, before]);
    const used = await gateway.call('/v1/messages', { model: 'three/echo', max_tokens: 5, messages }, { authorization: `Bearer ${key}` });
    expect(used.status).toBe(200);
    const capped = await count('three/echo');
    expect([capped.status, capped.headers.get('retry-after'), await capped.json()]).toEqual([
      429,
      '60',
      { type: 'error', error: { type: 'rate_limit_error', message: 'key budget exceeded (calls)' } },
    ]);
    expect(gateway.vendor.requests()).toHaveLength(before + 1);
  });

  it("returns the first vendor's 4xx if every vendor refuses to count tokens", async () => {
    const { call } = lent();
    const refused = await call(path, { model: 'refusing', messages });
    expect([refused.status, await refused.json()]).toMatchObject([
      422,
      { type: 'error', error: { message: expect.stringContaining('refuse-422') } },
    ]);
    for (const [body, message] of [
      [{ model: 'three/echo' }, 'messages: Field required'],
      [{ model: 3, messages }, 'model: Input should be a valid string'],
      ['{', expect.stringContaining('not valid JSON')],
    ] as const) {
      const answer = await call(path, body);
      expect([answer.status, await answer.json()]).toEqual([400, { type: 'error', error: { type: 'invalid_request_error', message } }]);
    }
  });
});

describe.each(['one/echo', 'three/echo'])('/v1/completions on %s', (model) => {
  it('completes prompts with the openai SDK, plain and streamed', async () => {
    const gateway = await lent().withProject(`legacy-${model.replace('/', '-')}`);
    const { completions } = openaiOf(gateway);
    const asked = { model, prompt: 'Where is Oslo?', max_tokens: 50, temperature: 0.5, echo: false, best_of: 1 };
    const plain = await completions.create(asked);
    const text = 'You said: Where is Oslo?';
    expect(plain).toMatchObject({
      object: 'text_completion',
      choices: [{ text, index: 0, logprobs: null, finish_reason: 'stop' }],
      usage: { prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number), total_tokens: expect.any(Number) },
    });
    expect(plain.choices[0]).not.toHaveProperty('message');
    const read = async (usage: boolean) => {
      const chunks = [];
      const options = usage ? { stream_options: { include_usage: true } } : {};
      for await (const chunk of await completions.create({ ...asked, prompt: ['Where is Oslo?'] as string[], stream: true, ...options }))
        chunks.push(chunk);
      return chunks;
    };
    const chunks = await read(false);
    expect(chunks.every(({ object, choices }) => object === 'text_completion' && choices.length === 1)).toBe(true);
    expect(chunks.map(({ choices }) => choices[0]?.text).join('')).toBe(text);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
    expect((await read(true)).at(-1)).toMatchObject({ choices: [], usage: plain.usage });
    expect(await callsOf(gateway)).toMatchObject([{ route: 'chat' }, { route: 'chat' }, { route: 'chat', model }]);
  });

  it('closes the connection when a completion stream breaks', async () => {
    const asked = { model: `${model}+long-40+break-after-3`, prompt: 'hi', stream: true };
    const answer = await lent().call('/v1/completions', asked);
    const { text, isCut } = await readUntilCut(answer);
    expect(isCut).toBe(true);
    expect(text).toContain('text_completion');
    expect(text).not.toContain('[DONE]');
  });
});

it("returns 400 bad_json for prompts that a chat model can't complete", async () => {
  const { call } = lent();
  for (const [members, message] of [
    [{ prompt: ['a', 'b'] }, /^prompt: /],
    [{ prompt: [1, 2] }, /^prompt: /],
    [{}, /^prompt: /],
    [{ prompt: 'a', suffix: 'b' }, /^suffix: /],
    [{ prompt: 'a', echo: true }, /^echo: /],
    [{ prompt: 'a', logprobs: 0 }, /^logprobs: /],
    [{ prompt: 'a', best_of: 3 }, /^best_of: /],
    [{ prompt: 'a', stream: 'yes' }, /^stream: /],
  ] as const)
    await expectChatError(await call('/v1/completions', { model: 'one/echo', ...members }), 400, 'bad_json', message);
  await expectChatError(await call('/v1/completions', '{"prompt":'), 400, 'bad_json', /not valid JSON/);
  await expectChatError(await call('/v1/completions', '{"prompt":"a","model":"x","model":"y"}'), 400, 'bad_json', 'model: duplicate key');
});

it('suggests a similar model in a 400 no_route', async () => {
  const gateway = await lent().withProject('nearest');
  const issued = await gateway.admin('POST', '/provision/teams/nearest/keys', { name: 'k', models: ['two/echo', 'standard'] });
  const { key } = await jsonOf<{ key: string }>(issued);
  const hintFor = async (model: string, headers = {}) => {
    const answer = await gateway.call('/v1/chat/completions', { model, messages }, headers);
    const { error } = await jsonOf<{ error: { message: string; hint: string } }>(answer);
    expect([answer.status, error.message]).toEqual([400, 'no models available for route']);
    return error.hint;
  };
  const listing = '; GET /v1/models lists the models and tiers that this key may use';
  expect(await hintFor('ecko')).toBe(`unknown model "ecko"; the closest match is "one/echo"${listing}`);
  expect(await hintFor('ecko', { authorization: `Bearer ${key}` })).toBe(`unknown model "ecko"; the closest match is "two/echo"${listing}`);
  expect(await hintFor('standart')).toBe(`unknown model "standart"; the closest match is "standard"${listing}`);
  expect(await hintFor('nobody/ecko')).toContain('"nobody/ecko" is configured; the closest match is "one/echo"');
  expect(await hintFor('claude-opus')).toBe(`unknown model "claude-opus"${listing}`);
});

describe('unusual requests', () => {
  it('accepts double and trailing slashes in the path', async () => {
    const { call } = lent();
    const body = { model: 'three/echo', max_tokens: 5, messages };
    for (const path of ['/v1/messages?beta=true', '/v1//messages', '//v1/messages', '//v1//messages?beta=true', '/v1/messages/'])
      expect([path, (await call(path, body)).status]).toEqual([path, 200]);
    for (const accept of ['*/*', 'text/event-stream', 'application/json, text/plain', 'application/xml'])
      expect((await call('/v1/messages', body, { accept })).status).toBe(200);
    await expectChatError(await call('/v1//nothing'), 404, 'not_found');
  });

  it('accepts a request that waits for 100 Continue', async () => {
    const { url, key } = lent();
    const request = httpRequest(`${url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', expect: '100-continue' },
    });
    request.flushHeaders();
    await once(request, 'continue');
    request.end(JSON.stringify({ model: 'three/echo', max_tokens: 5, messages }));
    const [response] = await once(request, 'response');
    expect(response.statusCode).toBe(200);
    response.resume();
    await once(response, 'end');
  });
});
