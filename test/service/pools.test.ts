/**
 * Tests a provider with several keys, from the perspective of its vendor and of operators. See
 * docs/architecture/routing-and-failover.md#pools.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { asArray, asObject, asString } from '../../src/core/json/narrow.ts';
import { parseJson } from '../../src/core/json/parse.ts';
import { adminToken, callsOf, eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';
import { unusedUrl } from '../support/unused-port.ts';

interface Received {
  readonly member: string;
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
}

type Behaviour = (request: Received, response: ServerResponse) => void;

const received: Received[] = [];
/** What the vendor does with the requests of a key, whose name is that of the member. Answers by default. */
const behaviours = new Map<string, Behaviour>();
let vendor: LocalServer;
let deadUrl: string;

beforeAll(async () => {
  deadUrl = await unusedUrl();
  vendor = await startLocalServer(async (request, response) => {
    response.on('error', () => undefined);
    const member = keyOf(request).replace('key-', '');
    const body = asObject(parseJson((await buffer(request)).toString('utf8')));
    const one = { member, path: request.url ?? '', body };
    received.push(one);
    (behaviours.get(member) ?? answer)(one, response);
  });
});
afterAll(() => vendor.close());
beforeEach(() => {
  received.length = 0;
  behaviours.clear();
});

function keyOf({ headers }: IncomingMessage): string {
  return asString(headers['x-api-key'] ?? headers['x-goog-api-key']) ?? headers.authorization?.replace('Bearer ', '') ?? '';
}

const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110, prompt_tokens_details: { cached_tokens: 80 } };
const responses: Readonly<Record<string, (member: string) => object>> = {
  '/v1/chat/completions': () => ({
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
    usage,
  }),
  '/v1/embeddings': () => ({ object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0.5] }], usage }),
  '/v1/images/generations': () => ({ created: 1, data: [{ b64_json: 'aGk=' }] }),
  '/v1/messages/count_tokens': () => ({ input_tokens: 7 }),
  '/v1/responses': (member) => ({ id: `resp_${member}_${received.length}`, object: 'response', status: 'completed', output: [] }),
  '/v1beta/models/clip:predictLongRunning': (member) => ({ name: `models/clip/operations/${member}` }),
};

function answer({ member, path }: Received, response: ServerResponse): void {
  const body = responses[path]?.(member) ?? { name: 'models/clip/operations/x', done: false };
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function refuse(status: number, headers: Record<string, string> = {}, message = 'no'): Behaviour {
  return (_request, response) =>
    void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify({ error: { message } }));
}

const members = (rows: readonly string[]): string => rows.map((row) => `      - ${row}\n`).join('');
const keyed = (name: string, rest = ''): string => `{ name: ${name}, api_key: key-${name}${rest} }`;

const yaml = (pool = [keyed('east'), keyed('west')]): string => `
providers:
  pool:
    base_url: ${vendor.url}/v1
    dialect: chat
    members:
${members(pool)}
  accounts:
    base_url: ${vendor.url}/v1
    dialect: chat
    members:
${members([keyed('a', ', account: shared'), keyed('b', ', account: shared'), keyed('c', ', weight: 2')])}
  lame:
    base_url: ${vendor.url}/v1
    dialect: chat
    members:
${members([keyed('dead', `, base_url: "${deadUrl}/v1", weight: 1000`), keyed('alive')])}
  native:
    base_url: ${vendor.url}/v1
    dialect: chat
    serves: [responses]
    members:
${members([keyed('one'), keyed('two'), keyed('three')])}
  claude:
    base_url: ${vendor.url}/v1
    dialect: messages
    members:
${members([keyed('first', ', model_names: { m: first-deployment }'), keyed('second', ', model_names: { m: second-deployment }')])}
  film:
    base_url: ${vendor.url}/v1beta
    dialect: gemini
    members:
${members([keyed('tape'), keyed('disk')])}
  other: { base_url: ${vendor.url}/v1, api_key: key-other, dialect: chat }
models:
  pool/m: { input: 1, output: 10, cached_input: 0.1 }
  pool/image: { per_image: 0.01 }
  accounts/m: { input: 1, output: 10 }
  lame/m: { input: 1, output: 10 }
  native/m: { input: 1, output: 10 }
  claude/m: { input: 1, output: 10 }
  film/clip: { per_second: 0.05 }
  other/m: { input: 1, output: 10 }
tiers:
  standard: [pool/m]
  both: [pool/m, other/m]
  accounts: [accounts/m]
  accountsAndOther: [accounts/m, other/m]
  lame: [lame/m]
defaults: { video_provider: film, video_model: clip }
`;

const lent = shareGateway({ database: 'any', yaml: () => yaml() });
let projects = 0;
/** Each test has its own breakers. */
const lend = (): Promise<TestGateway> => {
  projects += 1;
  return lent().withProject(`pools-${projects}`);
};

function reload(pool?: readonly string[]): void {
  const env = { GATEWAY_TEMPORAL: 'off', GATEWAY_LOCAL_EMBEDDER: 'off', GATEWAY_DATA_DIR: lent().dataDir, GATEWAY_ADMIN_TOKEN: adminToken };
  lent().app.reload(loadConfig({ env, fileText: yaml(pool && [...pool]), fileName: 'gateway.yaml' }));
}

const systemPrompt = { role: 'system', content: 'You help the customers of ACME.' };
const chatOf = (model: string, first: string, turns = 1) => ({
  model,
  max_tokens: 50,
  messages: [
    systemPrompt,
    { role: 'user', content: first },
    ...Array.from({ length: turns - 1 }, (_, turn) => [
      { role: 'assistant', content: `answer ${turn}` },
      { role: 'user', content: `question ${turn}` },
    ]).flat(),
  ],
});
const chat = ({ call }: TestGateway, model: string, first = 'hi', turns = 1): Promise<Response> =>
  call('/v1/chat/completions', chatOf(model, first, turns));
const membersOf = (): string[] => received.map(({ member }) => member);

/** Finds a conversation that belongs to a member. */
async function conversationAt(gateway: TestGateway, model: string, member: string): Promise<string> {
  for (let index = 0; ; index += 1) {
    await chat(gateway, model, `conversation ${index}`);
    if (received.at(-1)?.member === member) {
      received.length = 0;
      return `conversation ${index}`;
    }
  }
}

test('tries another vendor before the next pool member after a 429', async () => {
  const gateway = await lend();
  const atEast = await conversationAt(gateway, 'standard', 'east');
  behaviours.set('east', refuse(429, { 'retry-after': '0.2' }));
  expect((await chat(gateway, 'both', atEast)).status).toBe(200);
  expect(membersOf()).toEqual(['east', 'other']);

  const single = await lend();
  received.length = 0;
  expect((await chat(single, 'standard', atEast)).status).toBe(200);
  expect(membersOf()).toEqual(['east', 'west']);

  const limited = await lend();
  received.length = 0;
  behaviours.set('west', refuse(429, { 'retry-after': '30' }));
  expect((await chat(limited, 'standard', atEast)).status).toBe(503);
  expect(membersOf()).toEqual(['east', 'west', 'east']);
  await eventually(async () =>
    expect((await callsOf(limited))[0]?.attempts).toMatchObject([
      { provider: 'pool', model: 'm', member: 'east', status: 429, wait_ms: 0 },
      { provider: 'pool', model: 'm', member: 'west', status: 429, wait_ms: 0 },
      { provider: 'pool', model: 'm', member: 'east', status: 429, wait_ms: 200 },
    ]),
  );
});

test('puts all pool members of the same account into cooldown after a 429', async () => {
  const gateway = await lend();
  const atA = await conversationAt(gateway, 'accounts', 'a');
  const atB = await conversationAt(gateway, 'accounts', 'b');
  behaviours.set('a', refuse(429, { 'retry-after': '60' }));
  expect((await chat(gateway, 'accounts', atA)).status).toBe(200);
  expect((await chat(gateway, 'accounts', atB)).status).toBe(200);
  expect(membersOf()).toEqual(['a', 'c', 'c']);

  const { breakers } = await jsonOf<{ breakers: { provider: string; cooling_until?: string }[] }>(gateway.call('/status/peek'));
  const cooling = breakers.filter(({ cooling_until: until }) => until !== undefined).map(({ provider }) => provider);
  expect(cooling).toEqual(['accounts/a', 'accounts/b']);
  const metrics = await (await fetch(`${gateway.url}/metrics`, { headers: { authorization: `Bearer ${adminToken}` } })).text();
  expect(metrics).toMatch(/gateway_breakers\{provider="accounts",member="b",state="cooling"\} 1/);
  expect(metrics).toMatch(/gateway_breakers\{provider="accounts",member="c",state="cooling"\} 0/);
  expect(metrics).toMatch(/gateway_member_attempts_total\{provider="accounts",member="a",outcome="rate_limited"\} 1/);
  expect(metrics).toMatch(/gateway_member_input_tokens_total\{provider="accounts",member="c",cache="read"\} [1-9]/);
  expect(metrics).not.toContain('key-');
});

test("doesn't try other pool members of the same account after a 429", async () => {
  const gateway = await lend();
  const atA = await conversationAt(gateway, 'accounts', 'a');
  behaviours.set('a', refuse(429, { 'retry-after': '30' }));
  behaviours.set('other', refuse(500));
  expect((await chat(gateway, 'accountsAndOther', atA)).status).toBe(200);
  expect(membersOf()).toEqual(['a', 'other', 'c']);

  const single = await lend();
  received.length = 0;
  for (const member of ['b', 'c']) behaviours.set(member, refuse(429, { 'retry-after': '30' }));
  behaviours.set('a', refuse(429, { 'retry-after': '0.1' }));
  expect((await chat(single, 'accounts', atA)).status).toBe(503);
  expect(membersOf()).toEqual(['a', 'c', 'a']);
});

test('opens the breaker of a pool member that is down', async () => {
  const gateway = await lend();
  for (let index = 0; index < 8; index += 1) expect((await chat(gateway, 'lame', `conversation ${index}`)).status).toBe(200);
  expect(new Set(membersOf())).toEqual(new Set(['alive']));
  const { breakers } = await jsonOf<{ breakers: object[] }>(gateway.call('/status/peek'));
  expect(breakers).toContainEqual(expect.objectContaining({ provider: 'lame/dead', state: 'open' }));
  expect(breakers).toContainEqual(expect.objectContaining({ provider: 'lame/alive', state: 'closed' }));
  await eventually(async () => expect((await callsOf(gateway))[0]?.attempts).toMatchObject([{ member: 'alive' }]));
});

test('retries a pool member only once a minute after its key is rejected', async () => {
  const gateway = await lend();
  const atEast = await conversationAt(gateway, 'standard', 'east');
  behaviours.set('east', refuse(401));
  for (let turn = 1; turn <= 4; turn += 1) expect((await chat(gateway, 'standard', atEast, turn)).status).toBe(200);
  expect(membersOf()).toEqual(['east', 'west', 'west', 'west', 'west']);
});

test('distributes conversations with the same system prompt across pool members by weight', async () => {
  const gateway = await lend();
  reload([keyed('east', ', weight: 3'), keyed('west', ', weight: 2'), keyed('north', ', weight: 0')]);
  let next = 0;
  const work = async (): Promise<void> => {
    for (next += 1; next <= 1_000; next += 1) await (await chat(gateway, 'standard', `order ${next}`)).arrayBuffer();
  };
  await Promise.all(Array.from({ length: 16 }, work));
  reload();
  const { east = 0, west = 0, ...others } = countEach(membersOf());
  expect([east + west, others]).toEqual([1_000, {}]);
  expect(Math.abs(east - 600)).toBeLessThan(60);
  expect(Math.abs(west - 400)).toBeLessThan(40);
});

test('keeps a conversation on its pool member when other members are added or removed', async () => {
  const gateway = await lend();
  const conversations = Array.from({ length: 40 }, (_, index) => `customer ${index}`);
  const byConversation = new Map<string, string[]>();
  const phases: readonly [number, readonly string[]][] = [
    [8, [keyed('east'), keyed('west')]],
    [1, [keyed('east'), keyed('west'), keyed('north')]],
    [1, [keyed('east')]],
    [10, [keyed('west'), keyed('east')]],
  ];
  let turn = 0;
  for (const [turns, pool] of phases) {
    reload(pool);
    for (const last = turn + turns; turn < last; turn += 1) {
      received.length = 0;
      await Promise.all(conversations.map((first) => chat(gateway, 'standard', first, turn + 1)));
      for (const { member, body } of received) {
        const first = asString(asObject(asArray(body.messages)[1]).content) ?? '';
        byConversation.set(first, [...(byConversation.get(first) ?? []), member]);
      }
    }
  }
  reload();
  expect(byConversation.size).toBe(conversations.length);
  for (const chosen of byConversation.values()) expect(Math.max(...Object.values(countEach(chosen)))).toBeGreaterThanOrEqual(18);
  expect(new Set([...byConversation.values()].flat())).toEqual(new Set(['east', 'west', 'north']));
});

function countEach(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

test('sends no new calls to a pool member whose weight is 0', async () => {
  const gateway = await lend();
  const atEast = await conversationAt(gateway, 'standard', 'east');
  let release = (): void => undefined;
  behaviours.set('east', (request, response) => {
    release = () => answer(request, response);
  });
  const running = chat(gateway, 'standard', atEast);
  await eventually(async () => expect(membersOf()).toEqual(['east']));
  reload([keyed('east', ', weight: 0'), keyed('west')]);
  expect((await chat(gateway, 'standard', atEast)).status).toBe(200);
  expect(membersOf()).toEqual(['east', 'west']);
  release();
  expect((await running).status).toBe(200);
  reload();
});

test("reloads a pool's configuration under load without failing any calls", async () => {
  const gateway = await lend();
  const { project } = gateway;
  const { key } = await jsonOf<{ key: string }>(
    gateway.admin('POST', `/provision/teams/${project}/keys`, { name: 'limited', ceilings: { calls: 120, cost: 1 } }),
  );
  const headers = { authorization: `Bearer ${key}` };
  let refused = 0;
  const busy: Behaviour = (request, response) => {
    if (received.length % 20 === 0) reload(received.length % 40 === 0 ? undefined : [keyed('east'), keyed('west'), keyed('north')]);
    if (request.member === 'east' && received.length % 3 === 0) {
      refused += 1;
      refuse(429, { 'retry-after': '0.01' })(request, response);
    } else setTimeout(() => answer(request, response), 5);
  };
  for (const member of ['east', 'west', 'north']) behaviours.set(member, busy);
  const statuses: number[] = [];
  let started = 0;
  const work = async (): Promise<void> => {
    for (started += 1; started <= 240; started += 1) {
      const response = await gateway.call('/v1/chat/completions', chatOf('standard', `customer ${started}`), headers);
      await response.arrayBuffer();
      statuses.push(response.status);
    }
  };
  await Promise.all(Array.from({ length: 24 }, work));
  reload();
  expect(countEach(statuses.map(String))).toMatchObject({ 200: 120 });
  expect(new Set(statuses)).toEqual(new Set([200, 429]));
  expect(refused).toBeGreaterThan(5);
  expect(received).toHaveLength(120 + refused);
  expect(new Set(membersOf())).toEqual(new Set(['east', 'west', 'north']));
  // Each call has 20 tokens of input, 80 that are cached, and 10 of output.
  const cost = (120 * (20 * 1 + 80 * 0.1 + 10 * 10)) / 1_000_000;
  await eventually(async () => {
    const { key: status } = await jsonOf<{ key: { ceilings: object } }>(gateway.call('/status/peek', undefined, headers));
    expect(status.ceilings).toMatchObject({
      calls: { used: 120, reserved: 0, remaining: 0 },
      cost: { used: expect.closeTo(cost, 9), reserved: 0 },
    });
  });
});

test('continues a stored response on the pool member that created it', async () => {
  const gateway = await lend();
  const respond = async (body: object): Promise<string> =>
    (await jsonOf<{ id: string }>(gateway.call('/v1/responses', { model: 'native/m', ...body }))).id;
  for (let index = 0; index < 12; index += 1) {
    received.length = 0;
    const first = await respond({ input: `question ${index}` });
    const second = await respond({ input: 'why?', previous_response_id: first });
    await respond({ input: 'really?', previous_response_id: second });
    expect(new Set(membersOf()).size).toBe(1);
    expect(received).toHaveLength(3);
  }
});

test('continues a streamed response on the pool member that created it', async () => {
  const gateway = await lend();
  for (const member of ['one', 'two', 'three'])
    behaviours.set(member, (request, response) => {
      if (request.body.stream !== true) return answer(request, response);
      const stored = { id: `streamed_${member}`, object: 'response', status: 'completed', output: [] };
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of [
        { type: 'response.created', response: { ...stored, status: 'in_progress' } },
        { type: 'response.output_text.delta', item_id: 'item', output_index: 0, content_index: 0, delta: 'yes' },
        { type: 'response.completed', response: stored },
      ])
        response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      response.end();
    });
  for (let index = 0; index < 12; index += 1) {
    received.length = 0;
    await (await gateway.call('/v1/responses', { model: 'native/m', stream: true, input: `streamed question ${index}` })).text();
    await gateway.call('/v1/responses', { model: 'native/m', input: 'why?', previous_response_id: `streamed_${membersOf()[0]}` });
    expect(membersOf()).toEqual([membersOf()[0], membersOf()[0]]);
  }
});

test('tries each pool member to find a response that another process created', async () => {
  const gateway = await lend();
  for (const member of ['one', 'two', 'three'])
    behaviours.set(member, member === 'two' ? answer : refuse(400, {}, 'Previous response not found.'));
  const ask = () => gateway.call('/v1/responses', { model: 'native/m', input: 'why?', previous_response_id: 'resp_unknown' });
  expect((await ask()).status).toBe(200);
  expect(membersOf().at(-1)).toBe('two');
  // A bad request is not repeated.
  behaviours.set('two', refuse(400));
  received.length = 0;
  expect((await gateway.call('/v1/responses', { model: 'native/m', input: 'why?' })).status).toBe(400);
  expect(received).toHaveLength(1);
});

test('distributes embeddings, images and token counts across pool members', async () => {
  const gateway = await lend();
  for (let index = 0; index < 20; index += 1) {
    await gateway.call('/v1/embeddings', { model: 'pool/m', input: 'hi' });
    await gateway.call('/v1/images/generations', { model: 'pool/image', prompt: 'a cat' });
  }
  const pathsOf = (member: string) => new Set(received.filter((one) => one.member === member).map(({ path }) => path));
  expect(pathsOf('east')).toEqual(new Set(['/v1/embeddings', '/v1/images/generations']));
  expect(pathsOf('west')).toEqual(new Set(['/v1/embeddings', '/v1/images/generations']));
  await eventually(async () => {
    const attempts = (await callsOf(gateway)).flatMap((call) => call.attempts);
    expect(new Set(attempts.map(({ member }) => member))).toEqual(new Set(['east', 'west']));
  });

  received.length = 0;
  for (let index = 0; index < 12; index += 1) {
    const counted = await gateway.call('/v1/messages/count_tokens', {
      model: 'claude/m',
      messages: [{ role: 'user', content: `${index}` }],
    });
    expect(await counted.json()).toEqual({ input_tokens: 7 });
  }
  expect(new Set(received.map(({ member, body }) => `${member} ${String(body.model)}`))).toEqual(
    new Set(['first first-deployment', 'second second-deployment']),
  );
});

test("doesn't try another pool member after one refuses to count tokens", async () => {
  const gateway = await lend();
  behaviours.set('first', refuse(400)).set('second', refuse(400));
  received.length = 0;
  const body = { model: 'claude/m', messages: [{ role: 'user', content: 'hi' }] };
  expect((await gateway.call('/v1/messages/count_tokens', body)).status).toBe(400);
  expect(received).toHaveLength(1);
});

test('sends the next image request to another pool member after a 429', async () => {
  const gateway = await lend();
  behaviours.set('east', refuse(429, { 'retry-after': '60' }));
  const statuses: number[] = [];
  for (let index = 0; index < 20; index += 1)
    statuses.push((await gateway.call('/v1/images/generations', { model: 'pool/image', prompt: 'a cat' })).status);
  expect(membersOf().filter((member) => member === 'east').length).toBeLessThanOrEqual(1);
  expect(statuses.filter((status) => status !== 200).length).toBeLessThanOrEqual(1);
});

test('polls a video only on the pool member that is generating it', async () => {
  const gateway = await lend();
  for (let index = 0; index < 8; index += 1) {
    received.length = 0;
    const { operation } = await jsonOf<{ operation: string }>(gateway.call('/v1/video/generations', { prompt: 'a cat' }));
    expect((await gateway.call('/v1/video/operations', { operation })).status).toBe(200);
    expect(membersOf()).toEqual([membersOf()[0], membersOf()[0]]);
  }
});

test("doesn't count finished requests as in flight on a pool member", async () => {
  const gateway = await lend();
  const stream = (response: ServerResponse): void => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'yes' } }] })}\n\n`);
  };
  const complete: Behaviour = (_request, response) => {
    stream(response);
    response.end(`data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\ndata: [DONE]\n\n`);
  };
  const endless: Behaviour = (_request, response) => stream(response);
  const broken: Behaviour = (_request, response) => {
    stream(response);
    setTimeout(() => response.destroy(), 20);
  };
  const everywhere = (behaviour: Behaviour): void => {
    for (const member of ['east', 'west']) behaviours.set(member, behaviour);
  };
  const inFlight = async (): Promise<number> => {
    const text = await (await fetch(`${gateway.url}/metrics`, { headers: { authorization: `Bearer ${adminToken}` } })).text();
    return [...text.matchAll(/^gateway_member_requests\{provider="pool".*\} (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const streamed = { ...chatOf('standard', 'hi'), stream: true };
  const send = (body: object, signal?: AbortSignal): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });

  everywhere(endless);
  const leaving = new AbortController();
  await send(streamed, leaving.signal);
  expect(await inFlight()).toBe(1);
  leaving.abort();
  await eventually(async () => expect(await inFlight()).toBe(0));

  for (const behaviour of [answer, complete, broken, refuse(500), refuse(400), refuse(429, { 'retry-after': '0.01' })]) {
    everywhere(behaviour);
    await (await send(behaviour === complete || behaviour === broken ? streamed : chatOf('standard', 'hi'))).text().catch(() => '');
    await gateway.call('/v1/images/generations', { model: 'pool/image', prompt: 'a cat' });
    await eventually(async () => expect(await inFlight()).toBe(0));
  }
});
