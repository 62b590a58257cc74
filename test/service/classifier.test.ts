/** Tests `auto` with a classifier model at a running vendor, including everything that can go wrong with it. */
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { timeoutSteps } from '../../src/core/time-limit.ts';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, shareGateway } from '../support/gateway.ts';
import { createSlowClock } from '../support/slow-clock.ts';
import { dialects, providersYaml, vendors } from './dialects-gateway.ts';
import { ask, routeOf } from './inference-routes.ts';

const chains = {
  standard: ['one/echo+standard', 'three/echo+standard'],
  strong: ['one/echo+strong', 'three/echo+strong'],
  embed: ['one/echo+embed'],
};
const yaml = (vendorUrl: string, deadUrl: string): string =>
  `${providersYaml(vendorUrl, deadUrl)}auto: { classifier: model }\ntiers: ${JSON.stringify(chains)}\n`;

const lent = shareGateway({ database: 'any', yaml, clock: createSlowClock() });
let project: TestGateway;
let projects = 0;

beforeEach(async () => {
  projects += 1;
  project = await lent().withProject(`asks-${projects}`);
  project.vendor.clear();
});

afterEach(() => {
  jest.restoreAllMocks();
});

/**
 * The gateway waits 1.5 s for the choice, in several steps. The tests of the choice itself allow minutes because of
 * slow machines.
 */
function waitLong(): void {
  const wait = globalThis.setTimeout;
  jest
    .spyOn(globalThis, 'setTimeout')
    .mockImplementation(((run: () => void, ms = 0) => wait(run, ms === 1_500 / timeoutSteps ? 60_000 : ms)) as typeof setTimeout);
}

const say = (word: string): string => `say-${Buffer.from(word).toString('base64url')}`;

/** Sets the project's `trivial` tier, which makes the choice. */
async function askOf(model: string): Promise<void> {
  const { status } = await project.admin('PUT', `/provision/teams/${project.project}`, { tiers: { trivial: [model] } });
  expect(status).toBe(200);
}

const modelsAsked = (): string[] =>
  project.vendor.requests().map(({ body }) => (JSON.parse(body.toString('utf8')) as { model: string }).model);

describe.each(dialects)('auto on %s', (dialect) => {
  const route = routeOf(dialect);

  it.each(dialects)('sends a call with model auto to the tier picked by a classifier on %s', async (asked) => {
    waitLong();
    await askOf(`${vendors[asked]}/${say(' Strong.')}`);
    const answer = await ask(project, route, 'auto', { headers: { 'x-gateway-task-id': 't-1' } });
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'one/echo+strong']);
    expect(modelsAsked()).toEqual([say(' Strong.'), 'echo+strong']);
    const rows = await callsOf(project, '?task_id=t-1');
    expect(rows.map(({ outcome }) => outcome)).toEqual(['ok', 'ok']);
    // They may be in any order, because both may have started in the same millisecond.
    expect(rows).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ route: 'chat', model_asked: 'trivial' }),
        expect.objectContaining({ route: dialect, model_asked: 'auto' }),
      ]),
    );
  });

  it('picks a tier for streamed requests too', async () => {
    waitLong();
    await askOf(`one/${say('strong')}`);
    const answer = await ask(project, route, dialect === 'chat' ? undefined : 'auto', { more: { stream: true } });
    expect(answer.headers.get('x-gateway-model')).toBe('one/echo+strong');
    expect(await answer.text()).toContain('said: ');
  });

  it.each([
    ['a response without a tier', say('banana'), {}],
    ['an empty response', 'empty', {}],
    ['a vendor that fails', 'fail-500', {}],
    ['a vendor that refuses', 'refuse-400', {}],
    ['a rate-limited vendor', 'rate-limited-30', {}],
    ['a vendor that is too slow', `held+silent+${say('strong')}`, {}],
    ["a vendor too slow for the caller's deadline", `held+${say('strong')}`, { 'x-gateway-timeout-ms': '12000' }],
  ])('falls back to the standard tier after %s', async (_what, model, headers) => {
    const isTooSlow = model.startsWith('held');
    if (!isTooSlow) waitLong();
    // We use a separate provider, because the cooldown after a 429 would move the tier's first model back.
    await askOf(`two/${model}`);
    const answer = await ask(project, route, 'auto', { headers });
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'one/echo+standard']);
    // A call that timed out may not have reached its vendor.
    if (isTooSlow) expect(modelsAsked()).toContain('echo+standard');
    else expect(modelsAsked()).toEqual([model, 'echo+standard']);
  });

  it("never picks a tier if the key can't use any of its models", async () => {
    await askOf(`one/${say('strong')}`);
    const { key } = (await (
      await project.admin('POST', `/provision/teams/${project.project}/keys`, {
        name: 'narrow',
        models: ['trivial', 'standard'],
      })
    ).json()) as { key: string };
    const answer = await ask(project, route, 'auto', { headers: { authorization: `Bearer ${key}` } });
    expect(answer.headers.get('x-gateway-model')).toBe('one/echo+standard');
  });

  it("uses the classifier's tier even if the key may not use the default tier", async () => {
    waitLong();
    await askOf(`one/${say('strong')}`);
    const issued = await project.admin('POST', `/provision/teams/${project.project}/keys`, { name: 'odd', models: ['trivial', 'strong'] });
    const { key } = (await issued.json()) as { key: string };
    const answer = await ask(project, route, 'auto', { headers: { authorization: `Bearer ${key}` } });
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'one/echo+strong']);
  });
});

it('skips the classifier if the ceiling has room for only one more call', async () => {
  waitLong();
  await askOf(`one/${say('strong')}`);
  const issued = await project.admin('POST', `/provision/teams/${project.project}/keys`, { name: 'narrow', ceilings: { calls: 3 } });
  const { key } = (await issued.json()) as { key: string };
  const asked = async (): Promise<[number, string | null]> => {
    const answer = await ask(project, routeOf('chat'), 'auto', { headers: { authorization: `Bearer ${key}` } });
    return [answer.status, answer.headers.get('x-gateway-model')];
  };
  expect([await asked(), await asked(), await asked()]).toEqual([
    [200, 'one/echo+strong'],
    [200, 'one/echo+standard'],
    [429, null],
  ]);
  expect(modelsAsked()).toEqual([say('strong'), 'echo+strong', 'echo+standard']);
});

it("doesn't send a blocked prompt to the classifier", async () => {
  waitLong();
  await askOf(`one/${say('strong')}`);
  const rules = { rules: [{ class: 'card_number', action: 'block', place: 'input' }] };
  expect((await project.admin('PUT', `/provision/teams/${project.project}/rules`, rules)).status).toBe(200);
  const send = (earlier: string) =>
    project.call('/v1/chat/completions', {
      model: 'auto',
      messages: [
        { role: 'system', content: earlier },
        { role: 'user', content: 'Is this number valid?' },
      ],
    });
  // The classifier gets only the last message, in which there is no card number.
  const blocked = await send('4111 1111 1111 1111');
  expect([blocked.status, await blocked.json()]).toMatchObject([403, { error: { code: 'guardrail_blocked' } }]);
  expect(modelsAsked()).toEqual([]);
  expect((await send('a number')).status).toBe(200);
  expect(modelsAsked()).toEqual([say('strong'), 'echo+strong']);
});

describe('auto on routes without a classifier', () => {
  it.each([
    ['responses', 'one/echo+standard'],
    ['moderations', 'one/echo+standard'],
    ['rerank', 'one/echo+standard'],
    ['embeddings', 'one/echo+embed'],
  ] as const)('serves model auto on %s with %s', async (name, model) => {
    await askOf(`one/${say('strong')}`);
    const answer = await ask(project, routeOf(name), 'auto');
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, model]);
    expect(modelsAsked()).toEqual([model.slice('one/'.length)]);
  });
});
