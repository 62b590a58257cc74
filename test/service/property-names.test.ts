/**
 * Sends names that every JavaScript object inherits, such as `constructor`, in all fields that the gateway reads from
 * requests and responses. Whatever it makes of them, each call has to be recorded, and nothing may stay reserved.
 */
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { asObject } from '../../src/core/json/narrow.ts';
import { eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

/** The vendor uses this name in all of its responses. */
let name = '';
let received = 0;
let vendor: LocalServer;

/** Builds an object with `name` as a key. In a literal, `__proto__` would set the prototype. */
const named = (key: string, value: unknown): object => Object.fromEntries([[key, value]]);

const chatUsage = () => ({
  ...{ prompt_tokens: 10, completion_tokens: 5, service_tier: name, speed: name, inference_geo: name },
  prompt_tokens_details: named(name, 1),
  server_tool_use: named(`${name}_requests`, 1),
  server_side_tool_usage_details: named(`${name}_calls`, 1),
});
const usage = () => ({
  ...chatUsage(),
  input_tokens: 10,
  output_tokens: 5,
  iterations: [{ type: name, input_tokens: 1, output_tokens: 1 }],
});
const part = () => ({ type: name, text: 'hi', ...named(name, name) });

const plainResponses: Readonly<Record<string, () => object>> = {
  completions: () => ({
    ...{ id: 'c', object: name, service_tier: name, usage: chatUsage() },
    choices: [{ index: 0, message: { role: name, content: 'hi', ...named(name, name) }, finish_reason: name }],
  }),
  messages: () => ({
    ...{ id: 'm', type: 'message', role: name, model: 'm', stop_reason: name, stop_sequence: null, usage: usage() },
    content: [{ type: 'text', text: 'hi' }, part()],
  }),
  responses: () => ({
    ...{ id: 'r', object: 'response', status: name, service_tier: name, usage: usage(), incomplete_details: { reason: name } },
    output: [{ type: `${name}_call`, action: { type: name } }, { type: 'message', role: name, content: [part()] }, part()],
  }),
  generations: () => ({ created: 1, data: [{ b64_json: 'aGk=', ...named(name, name) }], usage: usage() }),
};

const events: Readonly<Record<string, () => object[]>> = {
  completions: () => [
    { ...plainResponses.completions?.(), choices: [{ index: 0, delta: { role: name, content: 'hi', ...named(name, name) } }] },
    { choices: [{ index: 0, delta: {}, finish_reason: name }], service_tier: name },
    { choices: [], usage: chatUsage() },
  ],
  messages: () => [
    { type: 'message_start', message: { ...plainResponses.messages?.(), content: [] } },
    { type: name, index: 0 },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'hi' } },
    { type: 'content_block_delta', index: 0, delta: part() },
    { type: 'content_block_stop', index: 0 },
    { type: 'content_block_start', index: 1, content_block: part() },
    { type: 'content_block_stop', index: 1 },
    { type: 'message_delta', delta: { stop_reason: name }, usage: usage() },
    { type: 'message_stop' },
  ],
  responses: () => [
    { type: 'response.created', response: { id: 'r' } },
    { type: name, item: part() },
    { type: 'response.output_item.added', output_index: 0, item: part() },
    { type: 'response.output_text.delta', output_index: 0, delta: 'hi' },
    { type: 'response.completed', response: plainResponses.responses?.() },
  ],
};

beforeAll(async () => {
  vendor = await startLocalServer(async (request, response) => {
    const { stream, user, metadata } = asObject(await json(request));
    received += 1;
    const route = request.url?.split('/').at(-1) ?? '';
    if (user === 'fails' || asObject(metadata).user_id === 'fails') {
      response.writeHead(400, { 'content-type': 'application/json' });
      return void response.end(JSON.stringify({ type: 'error', error: { type: name, code: name, param: name, message: name } }));
    }
    if (route === 'speech') return void response.writeHead(200, { 'content-type': 'audio/mpeg' }).end('sound');
    response.writeHead(200, { 'content-type': stream === true ? 'text/event-stream' : 'application/json' });
    if (stream !== true) return void response.end(JSON.stringify(plainResponses[route]?.()));
    const type = (event: object): string => (route === 'completions' ? '' : `event: ${asObject(event).type}\n`);
    const text = events[route]?.().map((event) => `${type(event)}data: ${JSON.stringify(event)}\n\n`) ?? [];
    response.end(`${text.join('')}${route === 'completions' ? 'data: [DONE]\n\n' : ''}`);
  });
});
afterAll(() => vendor.close());

const gateway = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: k, dialect: chat }
  two: { base_url: ${vendor.url}/v1, api_key: k, dialect: chat, serves: [chat, responses] }
  three: { base_url: ${vendor.url}/v1, api_key: k, dialect: messages }
models:
  one/m: { input: 1, output: 10, service_tiers: { priority: 2 }, per_tool_use: { web_search: 0.01 } }
  two/m: { input: 1, output: 10, service_tiers: { priority: 2 }, per_tool_use: { web_search: 0.01 } }
  three/m: { input: 1, output: 10, service_tiers: { fast: 6 }, per_tool_use: { web_search: 0.01 } }
  one/picture: { per_image: 0.04 }
  one/voice: { per_million_characters: 15 }
tiers: { standard: [one/m] }
`,
});

/** All fields whose values the gateway may look up somewhere, for a request to `model`. */
const fields = (model: string) => ({
  ...{ model, max_tokens: 50, service_tier: name, speed: name, inference_geo: name, tool_choice: { type: name, name } },
  tools: [{ type: name, name, function: { name, parameters: named(name, { type: name }) } }],
  ...{ response_format: { type: name }, reasoning_effort: name, stream_options: named(name, true), include: [name] },
  ...named(name, name),
});
const turn = () => ({ role: 'user', content: [{ type: 'text', text: 'hi' }, part()] });
const turns = () => [{ role: 'user', content: 'hi' }, turn(), { role: name, content: 'hi', ...named(name, name) }];

const requests: Readonly<Record<string, (model: string) => { readonly path: string; readonly body: object }>> = {
  chat: (model) => ({ path: '/v1/chat/completions', body: { ...fields(model), messages: turns() } }),
  messages: (model) => ({ path: '/v1/messages', body: { ...fields(model), messages: turns(), thinking: { type: name } } }),
  responses: (model) => ({
    path: '/v1/responses',
    body: {
      ...fields(model),
      input: [
        { type: name, id: name },
        { type: 'message', role: name, content: [part()] },
      ],
      text: { format: { type: name } },
    },
  }),
};
/** A chat request that other dialects can express, so that the response gets translated. */
const simple = (model: string) => ({ model, max_tokens: 50, messages: [{ role: 'user', content: 'hi' }], service_tier: name, speed: name });

async function send({ call }: TestGateway, path: string, body: object): Promise<string> {
  const response = await call(path, body);
  return `${response.status} ${await response.text()}`;
}

async function expectNothingReserved({ call, database, project, logs }: TestGateway, firstLog: number): Promise<void> {
  await eventually(async () => {
    // Calls that can't be translated are recorded as well, but don't reach the vendor.
    const rows = await database.query(
      `select 1 from attempts join calls on calls.id = call_id join projects on projects.id = project_id
        where slug = $1 and attempts.status is not null`,
      [project],
    );
    expect(rows).toHaveLength(received);
  }, 20_000);
  const status = await jsonOf<{ key: { ceilings: Record<string, { reserved: number }> } }>(call('/status/peek'));
  expect(status.key.ceilings).toMatchObject({ cost: { reserved: 0 }, calls: { reserved: 0 } });
  expect(logs.slice(firstLog).filter((line) => line.includes('"level":50') || line.includes('"level":"error"'))).toEqual([]);
}

describe.each(['constructor', '__proto__', 'toString', 'hasOwnProperty'])('%s', (each) => {
  /** Lends a project with a key that has ceilings. */
  async function lend(slug: string): Promise<TestGateway> {
    name = each;
    received = 0;
    const lent = await gateway().withProject(`${slug}-${each.replaceAll('_', '').toLowerCase()}`);
    const { key } = await jsonOf<{ key: string }>(
      lent.admin('POST', `/provision/teams/${lent.project}/keys`, { name: 'limited', ceilings: { cost: 100, calls: 1_000 } }),
    );
    return { ...lent, key, call: (path, body, headers) => lent.call(path, body, { authorization: `Bearer ${key}`, ...headers }) };
  }

  test.each([false, true])('records text calls with it in every field (streamed: %p)', async (stream) => {
    const lent = await lend(`text-${stream ? 'streamed' : 'plain'}`);
    const firstLog = lent.logs.length;
    const answers: string[] = [];
    for (const toRequest of Object.values(requests)) {
      for (const model of ['one/m', 'two/m', 'three/m']) {
        const { path, body } = toRequest(model);
        answers.push(await send(lent, path, { ...body, stream }));
        const isMessages = path.endsWith('/messages');
        answers.push(await send(lent, path, { ...body, stream, ...(isMessages ? { metadata: { user_id: 'fails' } } : { user: 'fails' }) }));
      }
    }
    for (const path of ['/v1/chat/completions', '/v1/messages'])
      for (const model of ['one/m', 'three/m']) answers.push(await send(lent, path, { ...simple(model), stream }));
    answers.push(await send(lent, '/v1/responses', { model: 'three/m', input: 'hi', service_tier: name, stream }));
    expect(answers.filter((answer) => answer.includes('internal_error'))).toEqual([]);
    expect(answers.filter((answer) => answer.startsWith('200')).length).toBeGreaterThan(8);
    await expectNothingReserved(lent, firstLog);
  });

  test('records media calls with it in every field', async () => {
    const lent = await lend('media');
    const firstLog = lent.logs.length;
    const options = { response_format: name, size: name, quality: name, style: name, output_format: name, background: name, user: 'me' };
    const picture = await send(lent, '/v1/images/generations', { model: 'one/picture', prompt: 'a fox', ...options });
    expect(picture).toMatch(/^200 .*aGk=/);
    const { size: _size, ...spoken } = options;
    const response = await lent.call('/v1/audio/speech', { model: 'one/voice', input: 'hi', voice: name, ...spoken });
    expect([response.status, response.headers.get('content-type'), await response.text()]).toEqual([200, 'audio/mpeg', 'sound']);
    await expectNothingReserved(lent, firstLog);
  });
});
