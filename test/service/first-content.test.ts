/**
 * Tests a vendor that hangs. We limit the wait for the first content, the next model serves the call, and the breaker
 * counts the failure.
 */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type CallRow, callsOf, eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { metricsOf, sumOf } from '../support/metrics.ts';
import { unusedPort } from '../support/unused-port.ts';

const header = 'x-gateway-first-content-timeout-ms';
const eventOf = (data: Readonly<Record<string, unknown>>): string => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
/** What a working vendor may send repeatedly while it has no content. */
const emptyEvents: Readonly<Record<string, string>> = {
  '/v1/chat/completions':
    ': thinking\n\ndata: {"id":"a","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
  '/v1/messages': `${eventOf({
    type: 'message_start',
    message: { id: 'm', role: 'assistant', content: [], usage: { input_tokens: 1 } },
  })}${eventOf({ type: 'ping' })}`,
  '/v1/responses': `${eventOf({ type: 'response.created', response: { id: 'r' } })}${eventOf({ type: 'keepalive' })}`,
};

/** Never sends content, but keeps sending other events. */
const chatty = createServer((request, response) => {
  const text = emptyEvents[request.url ?? ''];
  if (text === undefined) return response.writeHead(404).end();
  return keepTalking(response.writeHead(200, { 'content-type': 'text/event-stream' }), text);
});
async function keepTalking(response: ServerResponse, text: string): Promise<void> {
  while (!response.destroyed) {
    response.write(text);
    await sleep(50);
  }
}
const chattyPort = await unusedPort();
beforeAll(async () => {
  await once(chatty.listen(chattyPort, '127.0.0.1'), 'listening');
});
afterAll(() => {
  chatty.closeAllConnections();
  chatty.close();
});

const limitMs = 250;
const yamlFor = (vendorUrl: string): string => {
  const row = (name: string, dialect: string, more = '', url = vendorUrl): string =>
    `  ${name}: { base_url: ${url}/v1, api_key: key-${name}, dialect: ${dialect}${more} }`;
  const limited = `, first_content_timeout_ms: ${limitMs}`;
  const chattyUrl = `http://127.0.0.1:${chattyPort}`;
  const faults = ['hang', 'stall-before-first', 'stall-after-0', 'stall-after-1'];
  const tiers = ['one', 'three'].flatMap((first) =>
    ['two', 'four'].flatMap((second) => faults.map((fault) => `  ${first}-${fault}-${second}: [${first}/${fault}, ${second}/echo]`)),
  );
  return [
    'providers:',
    row('one', 'chat', limited),
    row('three', 'messages', limited),
    row('two', 'chat'),
    row('four', 'messages'),
    row('talks', 'chat', limited, chattyUrl),
    row('talks-messages', 'messages', limited, chattyUrl),
    'models:',
    ...['one', 'three'].flatMap((name) => faults.map((fault) => `  ${name}/${fault}: { input: 1, output: 1000 }`)),
    '  one/hang+hasty: { input: 1, output: 1000, first_content_timeout_ms: 100 }',
    '  one/echo+slow-1500: { input: 1, output: 1, first_content_timeout_ms: 60000 }',
    '  two/echo: { input: 3, output: 15 }',
    '  four/echo: { input: 1, output: 5 }',
    'tiers:',
    ...tiers,
    '  talks: [talks/any, two/echo]',
    '  talks-messages: [talks-messages/any, four/echo]',
    '  patient: [two/hang, two/echo]',
    '  hangs: [two/hang+slowly, four/echo]',
    '  both: [one/hang, three/hang]',
    '  hasty: [one/hang+hasty]',
    '  slow: [one/echo+slow-1500]',
    '',
  ].join('\n');
};

const lent = shareGateway({ database: 'any', yaml: yamlFor, contentWaitTickMs: 50 });
let projects = 0;
/** Each test has its own project and therefore its own breakers. */
const lend = (): Promise<TestGateway> => {
  projects += 1;
  return lent().withProject(`content-${projects}`);
};

const routes = [
  { path: '/v1/chat/completions', opening: '"role":"assistant"', end: '[DONE]' },
  { path: '/v1/messages', opening: 'event: message_start', end: 'event: message_stop' },
  { path: '/v1/responses', opening: 'event: response.created', end: 'event: response.completed' },
];
const bodyOf = (path: string, model: string, stream: boolean) =>
  path === '/v1/responses'
    ? { model, stream, max_output_tokens: 20, input: 'hi' }
    : { model, stream, max_tokens: 20, messages: [{ role: 'user', content: 'hi' }] };
const chat = '/v1/chat/completions';
const ask = (gateway: TestGateway, model: string, { stream = true, path = chat, headers = {} } = {}): Promise<Response> =>
  gateway.call(path, bodyOf(path, model, stream), headers);
const count = (text: string, part: string): number => text.split(part).length - 1;

interface ChargedCall extends Omit<CallRow, 'attempts'> {
  readonly estimated: boolean;
  readonly attempts: readonly { readonly cost: number; readonly outcome: string; readonly model: string }[];
}
async function findCall(gateway: TestGateway, answer: Response): Promise<ChargedCall> {
  const id = answer.headers.get('x-gateway-call-id');
  const call = (await callsOf(gateway)).find((row) => row.id === id);
  if (!call) throw new Error('the call was not recorded');
  return call as unknown as ChargedCall;
}

describe.each(routes)('$path', ({ path, opening, end }) => {
  const streams = ['hang', 'stall-before-first', 'stall-after-0'].map((fault) => ({ fault, stream: true }));
  const plain = ['hang', 'stall-before-first', 'stall-after-1'].map((fault) => ({ fault, stream: false }));

  it.each(['one', 'three'])('fails over to the next model if %s hangs', async (first) => {
    // There are too few failures in each project to open a breaker, which would change the order of the models.
    const groups = ['two', 'four'].flatMap((second) => [streams, plain].map((group) => ({ second, group })));
    for (const { second, group } of groups) {
      const gateway = await lend();
      await Promise.all(
        group.map(async ({ fault, stream }) => {
          const answer = await ask(gateway, `${first}-${fault}-${second}`, { stream, path });
          const text = await answer.text();
          expect([fault, answer.status, answer.headers.get('x-gateway-model')]).toEqual([fault, 200, `${second}/echo`]);
          expect(text).toContain('hi');
          if (stream) expect([count(text, opening), count(text, end)]).toEqual([1, 1]);
          const call = await findCall(gateway, answer);
          expect(call).toMatchObject({ outcome: 'ok', estimated: true });
          expect(call.attempts.map(({ outcome }) => outcome)).toEqual(['failed', 'ok']);
          const [abandoned, served] = call.attempts.map(({ cost }) => cost);
          // This is the cost of all 20 tokens that the call allows, at $1,000 per million. The vendor may have
          // generated 25 in that time.
          expect(abandoned).toBeGreaterThanOrEqual(0.02);
          expect(served).toBeGreaterThan(0);
          expect(call.cost).toBeCloseTo((abandoned ?? 0) + (served ?? 0), 9);
        }),
      );
    }
  });
});

it.each([
  [chat, 'talks', 'two/echo'],
  ['/v1/messages', 'talks-messages', 'four/echo'],
  ['/v1/responses', 'talks', 'two/echo'],
  ['/v1/responses', 'talks-messages', 'four/echo'],
])('fails over on %s if a vendor sends only empty events and comments', async (path, tier, second) => {
  const gateway = await lend();
  const answer = await ask(gateway, tier, { path });
  expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, second]);
  expect(await answer.text()).not.toMatch(/thinking|"id":"[amr]"/);
});

it.each([true, false])('charges for all abandoned attempts, even if no model is left (stream: %s)', async (stream) => {
  const gateway = await lend();
  const answer = await ask(gateway, 'both', { stream });
  expect([answer.status, await answer.json()]).toMatchObject([
    502,
    { error: { code: 'upstream_failed', message: expect.stringContaining('timed out waiting for the first content of the response') } },
  ]);
  const call = await findCall(gateway, answer);
  expect(call).toMatchObject({ outcome: 'failed', estimated: true, attempts: [{ outcome: 'failed' }, { outcome: 'failed' }] });
  expect(call.cost).toBeCloseTo((call.attempts[0]?.cost ?? 0) + (call.attempts[1]?.cost ?? 0), 9);
  expect(call.attempts[1]?.cost).toBeGreaterThanOrEqual(0.02);
});

it('returns 502 if the only model starts its response and then hangs', async () => {
  const gateway = await lend();
  for (const model of ['one/stall-after-0', 'three/stall-after-0']) expect((await ask(gateway, model)).status).toBe(502);
});

it("prefers the model's time limit over the provider's", async () => {
  const gateway = await lend();
  const served = await ask(gateway, 'slow');
  expect([served.status, await served.text()]).toEqual([200, expect.stringContaining('[DONE]')]);
  expect((await ask(gateway, 'slow', { headers: { [header]: '300' } })).status).toBe(502);
  expect((await ask(gateway, 'hasty')).status).toBe(502);
  // This limit also applies to the second model, which has to respond in time even on a busy machine.
  const moved = await ask(gateway, 'patient', { headers: { [header]: '3000' } });
  expect([moved.status, moved.headers.get('x-gateway-model')]).toEqual([200, 'two/echo']);
});

it.each(['0', '-1', '1.5', '5s', '3600001', '1, 2'])('returns 400 bad_request for the header %j', async (value) => {
  const gateway = await lend();
  for (const { path } of routes) {
    const answer = await ask(gateway, 'two/echo', { path, headers: { [header]: value } });
    expect(answer.status).toBe(400);
    expect(await answer.text()).toContain(`${header} must be an integer from 1 to 3600000`);
  }
});

it('returns `client deadline exceeded` if the deadline comes before the time limit for content', async () => {
  const gateway = await lend();
  const answer = await ask(gateway, 'patient', { headers: { 'x-gateway-timeout-ms': '2000', [header]: '60000' } });
  expect((await jsonOf<{ error: { message: string } }>(answer)).error.message).toMatch(/^client deadline exceeded/);
  expect((await findCall(gateway, answer)).attempts).toMatchObject([{ outcome: 'deadline' }]);
});

it('counts an abandoned attempt towards the cost ceiling', async () => {
  const gateway = await lend();
  const spend = async (limit: number) => {
    const keys = `/provision/teams/${gateway.project}/keys`;
    const { key } = await jsonOf<{ key: string }>(gateway.admin('POST', keys, { name: `limit ${limit}`, ceilings: { cost: limit } }));
    const headers = { authorization: `Bearer ${key}` };
    const answer = await ask(gateway, 'one-hang-two', { headers });
    const status = await jsonOf<{ key: { ceilings: { cost: { used: number } } } }>(gateway.call('/status/peek', undefined, headers));
    return { answer, call: await findCall(gateway, answer), used: status.key.ceilings.cost.used };
  };
  const enough = await spend(1);
  expect(enough.answer.status).toBe(200);
  expect(enough.used).toBeCloseTo(enough.call.cost, 9);
  expect(enough.call.attempts).toHaveLength(2);
  // One attempt reserves 20 tokens, which cost $0.02, and some input.
  const short = await spend(0.03);
  expect(short.answer.status).toBe(502);
  expect(short.call.attempts).toHaveLength(1);
  expect(short.used).toBeCloseTo(short.call.cost, 9);
});

describe('the circuit breaker', () => {
  const stateOf = async (gateway: TestGateway, provider: string): Promise<string | undefined> => {
    const { breakers } = await jsonOf<{ breakers: { provider: string; state: string }[] }>(gateway.call('/status/peek'));
    return breakers.find((row) => row.provider === provider)?.state;
  };
  const slowAttempts = async (gateway: TestGateway, provider: string): Promise<number> =>
    sumOf(await metricsOf(gateway), 'gateway_slow_attempts_total', { provider });

  it('opens the breaker while five slow attempts are still waiting', async () => {
    const gateway = await lend();
    const before = await slowAttempts(gateway, 'two');
    const caller = new AbortController();
    const waiting = Array.from({ length: 5 }, () =>
      fetch(gateway.url + chat, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(bodyOf(chat, 'hangs', true)),
        signal: caller.signal,
      }).catch(() => null),
    );
    await eventually(async () => expect(await stateOf(gateway, 'two')).toBe('open'));
    expect(await slowAttempts(gateway, 'two')).toBe(before + 5);
    expect(sumOf(await metricsOf(gateway), 'gateway_breakers', { provider: 'two', state: 'open' })).toBe(1);
    expect(
      gateway.logs.filter((line) => /"provider":"two","msg":"vendor unusually slow; counting it as a provider failure"/.test(line)).length,
    ).toBeGreaterThanOrEqual(5);
    const answer = await ask(gateway, 'hangs');
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'four/echo']);
    expect((await findCall(gateway, answer)).attempts).toHaveLength(1);
    caller.abort();
    await Promise.all(waiting);
  });

  it('opens the breaker for streams that hang after their first event', async () => {
    const gateway = await lend();
    const model = 'four/stall-after-0';
    const answers = await Promise.all(Array.from({ length: 5 }, () => ask(gateway, model)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    await eventually(async () => expect(await stateOf(gateway, 'four')).toBe('open'));
    for (const answer of answers) await answer.body?.cancel();
  });

  it("doesn't open the breaker for attempts that exceed only the caller's time limit", async () => {
    const gateway = await lend();
    for (let n = 0; n < 5; n += 1) await ask(gateway, 'two/hang', { headers: { [header]: '30' } });
    expect(await stateOf(gateway, 'two')).toBe('closed');
    for (let n = 0; n < 5; n += 1) await ask(gateway, 'hasty');
    expect(await stateOf(gateway, 'one')).toBe('open');
    for (let n = 0; n < 2; n += 1) await (await ask(gateway, 'slow')).text();
    expect(await stateOf(gateway, 'one')).toBe('closed');
  });
});
