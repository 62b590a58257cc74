/**
 * Tests when content rules are checked and for which calls, and which ambiguous bodies are rejected because of them.
 */
import { describe, expect, test } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, jsonOf, shareGateway } from '../support/gateway.ts';
import { createRandom } from '../support/random.ts';
import { expectRouteError, projectLender, routeOf, routes } from './inference-routes.ts';

const lend = projectLender(shareGateway({ database: 'any', cache: true }), 'rules-work');

const emailRule = { class: 'email', place: 'input', action: 'block' };
/** RE2 needs a good part of a second to match this rule against a `slowText`. */
const slowRule = { class: 'expression', place: 'input', action: 'block', expression: '[ab]*a[ab]{300}[^ab]' };
const random = createRandom(34);
const slowText = (): string => Array.from({ length: 40_000 }, () => random.pick(['a', 'b'])).join('');

const path = '/v1/chat/completions';
const prompt = (content: string) => ({ model: 'one/echo', messages: [{ role: 'user', content }] });

async function setRules(gateway: TestGateway, ...rules: object[]): Promise<void> {
  expect((await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, { rules })).status).toBe(200);
}

/** Creates a key of the project with a ceiling of `calls` calls, and returns the header for it. */
async function keyWith(gateway: TestGateway, calls: number): Promise<{ authorization: string }> {
  const { key } = await jsonOf<{ key: string }>(
    gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'limited', ceilings: { calls } }),
  );
  return { authorization: `Bearer ${key}` };
}

const statusOf = async (answer: Promise<Response>): Promise<number> => {
  const response = await answer;
  await response.arrayBuffer();
  return response.status;
};

describe('content rules for requests', () => {
  test.each(['chat', 'responses', 'embeddings'] as const)(
    "doesn't evaluate content rules on %s for a call that a ceiling rejects",
    async (name) => {
      const gateway = await lend();
      await setRules(gateway, emailRule);
      const { path: routePath, first, body } = routeOf(name);
      const answer = await gateway.call(routePath, { ...body, model: `${first}/echo`, user: 'ada@example.com' }, await keyWith(gateway, 0));
      await expectRouteError(answer, routeOf(name), { status: 429, code: 'tenant_capped', message: /budget exceeded \(calls\)/ });
    },
  );

  test("doesn't record a call or count it towards ceilings if a content rule blocks it", async () => {
    const gateway = await lend();
    await setRules(gateway, emailRule);
    const key = await keyWith(gateway, 1);
    const statuses = [];
    for (const text of ['ada@example.com', 'ada@example.com', 'hello', 'hello again'])
      statuses.push(await statusOf(gateway.call(path, prompt(text), key)));
    expect(statuses).toEqual([403, 403, 200, 429]);
    expect(await callsOf(gateway)).toMatchObject([{ outcome: 'ok' }]);
  });

  test("doesn't serve a blocked prompt from the cache", async () => {
    const gateway = await lend();
    for (const text of ['write to ada@example.com', 'hello']) expect(await statusOf(gateway.call(path, prompt(text)))).toBe(200);
    await setRules(gateway, emailRule);
    const key = await keyWith(gateway, 0);
    const before = gateway.vendor.requests().length;
    expect(await statusOf(gateway.call(path, prompt('write to ada@example.com')))).toBe(403);
    expect(await statusOf(gateway.call(path, prompt('write to ada@example.com'), key))).toBe(403);
    expect(await statusOf(gateway.call(path, prompt('hello'), key))).toBe(200);
    expect(gateway.vendor.requests().length).toBe(before);
  });

  test('returns upstream_failed if the deadline passes before content rules are evaluated', async () => {
    const gateway = await lend();
    await setRules(gateway, slowRule);
    const before = gateway.vendor.requests().length;
    const answer = await gateway.call(path, prompt(slowText()), { 'x-gateway-timeout-ms': '40' });
    await expectRouteError(answer, routeOf('chat'), { status: [502, 503], code: 'upstream_failed', message: /^client deadline exceeded/ });
    expect(gateway.vendor.requests().length).toBe(before);
    expect(await callsOf(gateway)).toEqual([]);
  });

  test.each([false, true])("doesn't evaluate content rules for callers who have disconnected (streamed: %s)", async (stream) => {
    const gateway = await lend();
    await setRules(gateway, slowRule);
    const before = gateway.vendor.requests().length;
    const abandoned = Array.from({ length: 4 }, () => {
      const controller = new AbortController();
      const request = fetch(`${gateway.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ ...prompt(slowText()), stream }),
        signal: controller.signal,
      });
      return { controller, request };
    });
    // This call comes last in the queue, so it would have to wait for any abandoned calls that are still evaluated.
    const last = gateway.call(path, prompt(slowText()));
    await gateway.call(path, prompt('hi'));
    for (const { controller, request } of abandoned) {
      controller.abort();
      await expect(request).rejects.toThrow('aborted');
    }
    expect(await statusOf(last)).toBe(200);
    expect(gateway.vendor.requests().length).toBe(before + 2);
  });

  test("evaluates one project's content rules without delaying another project", async () => {
    const [slow, other] = [await lend(), await lend()];
    await setRules(slow, slowRule);
    await setRules(other, emailRule);
    let ended = 0;
    const calls = Array.from({ length: 6 }, () =>
      slow.call(path, prompt(slowText())).then(({ status }) => {
        ended += 1;
        return status;
      }),
    );
    // This text is long enough to be evaluated on the thread instead of the event loop.
    expect(await statusOf(other.call(path, prompt(`hello ${'there '.repeat(5_000)}`)))).toBe(200);
    expect(ended).toBeLessThan(calls.length - 1);
    expect(await Promise.all(calls)).toEqual(calls.map(() => 200));
  });
});

const ambiguous = [
  ['a member of a message', (body: string) => body.replace('"hi"', '"hi","x":{"y":[{"z":1,"z":2}]}')],
  ['tools', (body: string) => body.replace('{', '{"tools":[],"tools":[],')],
  ['an escaped key', (body: string) => body.replace('{', '{"metadata":{"a":1,"\\u0061":2},')],
] as const;

test.each(routes.flatMap((route) => ambiguous.map(([what, change]) => [route.name, what, change] as const)))(
  'returns 400 on %s for a body that contains %s twice',
  async (name, _what, change) => {
    const route = routeOf(name);
    const gateway = await lend();
    const members =
      name === 'rerank' || name === 'embeddings' || name === 'moderations' ? { ...route.body, more: 'hi' } : { ...route.body };
    const text = JSON.stringify({ model: `${route.first}/echo`, ...members });
    const body = change(name === 'responses' ? text.replace('"hi"', '[{"role":"user","content":"hi"}]') : text);
    await setRules(gateway, emailRule);
    const before = gateway.vendor.requests().length;
    const answer = await gateway.call(route.path, body);
    const read = await answer.text();
    expect([answer.status, read]).toEqual([400, expect.stringContaining('duplicate key')]);
    if (name !== 'chat' && name !== 'messages') expect(answer.headers.get('content-type')).toMatch('text/plain');
    else expect(JSON.parse(read)).toMatchObject({ error: { type: name === 'chat' ? 'bad_json' : 'invalid_request_error' } });
    expect(gateway.vendor.requests().length).toBe(before);
  },
);
