/**
 * Tests canaries of tiers in a running service, i.e. which conversations try them, what happens if they fail, and what
 * is recorded.
 */
import { expect, it, test } from '@jest/globals';
import { formatUsd } from '../../src/console/frame/values.ts';
import { signIn } from '../support/console.ts';
import { callsOf, defaultYaml, eventually, shareGateway, type TestGateway } from '../support/gateway.ts';
import { textOf } from '../support/page-text.ts';
import { paths } from './dialects-gateway.ts';
import { projectLender } from './inference-routes.ts';
import { expectJson, saveItem, send } from './memory-routes.ts';

const say = (word: string): string => `say-${Buffer.from(word).toString('base64url')}`;

const lent = shareGateway({
  database: 'any',
  cache: false,
  yaml: (
    vendorUrl,
    deadUrl,
  ) => `${defaultYaml(vendorUrl, deadUrl).replace('tiers:', `tiers:\n  wide: [one/echo]\n  strong: [one/big]\n  trivial: [one/${say('strong')}]\n  broken: [one/echo]`)}
canaries:
  wide: { model: four/echo, share: 0.5 }
  standard: { model: two/new, share: 1 }
  strong: { model: two/new, share: 1 }
  broken: { model: dead/new, share: 1 }
auto: { classifier: model }
`,
});
const lend = projectLender(lent, 'canary');

type Message = { readonly role: string; readonly content: unknown };
const user = (content: unknown): Message => ({ role: 'user', content });

async function modelFor(gateway: TestGateway, messages: readonly Message[], members: object = {}): Promise<string | null> {
  const answer = await gateway.call(paths.chat, { model: 'wide', messages, ...members });
  expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)]);
  return answer.headers.get('x-gateway-model');
}

it('sends the configured share of conversations to the canary', async () => {
  const gateway = await lend();
  const counts = { 'one/echo': 0, 'four/echo': 0 };
  for (let index = 0; index < 60; index += 1) {
    const opening = [{ role: 'system', content: `It is turn ${index}.` }, user(`Question ${index}`)];
    const later = [
      user([{ type: 'text', text: `Question ${index}`, cache_control: { type: 'ephemeral' } }]),
      { role: 'assistant', content: 'Yes.' },
      user('And?'),
    ];
    const models = await Promise.all([modelFor(gateway, opening), modelFor(gateway, later), modelFor(gateway, later, { temperature: 1 })]);
    expect(new Set(models).size).toBe(1);
    const [model] = models;
    if (model === 'one/echo' || model === 'four/echo') counts[model] += 1;
  }
  // The texts are always the same, so the shares don't vary between runs.
  expect(Math.min(...Object.values(counts))).toBeGreaterThan(15);
  const plans = (await callsOf(gateway, '?limit=200')).map(({ plan }) => plan[0]);
  const canary = plans.filter((entry) => entry?.model === 'four/echo');
  expect(canary).toHaveLength(counts['four/echo'] * 3);
  expect(canary).toEqual(canary.map(() => ({ model: 'four/echo', skipped: null, canary: 'wide' })));
  const control = plans.filter((entry) => entry?.model === 'one/echo');
  expect(control).toEqual(control.map(() => ({ model: 'one/echo', skipped: null, control: 'wide' })));
});

it('tries the canary of the tier that auto resolves to', async () => {
  const gateway = await lend();
  expect(await modelFor(gateway, [user('Prove it.')], { model: 'auto' })).toBe('two/new');
  await eventually(async () => {
    const calls = await callsOf(gateway);
    expect(calls.map(({ plan }) => plan)).toContainEqual([
      { model: 'two/new', skipped: null, canary: 'strong' },
      { model: 'one/big', skipped: null },
    ]);
  });
});

it("falls back to the tier's models when the canary fails", async () => {
  const gateway = await lend();
  expect(await modelFor(gateway, [user('Hello')], { model: 'broken' })).toBe('one/echo');
  await eventually(async () => {
    const [call] = await callsOf(gateway);
    expect(call).toMatchObject({
      outcome: 'ok',
      plan: [{ model: 'dead/new', canary: 'broken' }, { model: 'one/echo' }],
      attempts: [
        { n: 1, status: null },
        { n: 2, status: 200 },
      ],
    });
  });
});

test("doesn't try the canary for a response that the vendor stores", async () => {
  const gateway = await lend();
  const modelOf = async (members: object) =>
    (await gateway.call('/v1/responses', { model: 'standard', input: 'Hello', ...members })).headers.get('x-gateway-model');
  expect([await modelOf({}), await modelOf({ store: true }), await modelOf({ store: false })]).toEqual(['one/echo', 'one/echo', 'two/new']);
});

test("doesn't use the canary for a project that overrides the tier", async () => {
  const gateway = await lend();
  await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers: { broken: ['two/echo'] } });
  expect(await modelFor(gateway, [user('Hello')], { model: 'broken' })).toBe('two/echo');
});

test('compares the canary with the rest of the tier in the console', async () => {
  const gateway = lent();
  const models = [];
  for (let index = 0; index < 12; index += 1) models.push(await modelFor(gateway, [user(`Question ${index}`)]));
  models.push(await modelFor(gateway, [user('Hello')], { model: 'broken' }));
  await eventually(async () => expect(await callsOf(gateway, '?limit=50')).toHaveLength(13));
  const member = await signIn(gateway, 'member');
  const pageText = (path: string) => textOf(member.get(`/console/p/acme${path}`));
  const page = await pageText('/explore/canaries?range=24h');
  const tried = models.filter((model) => model === 'four/echo').length;
  const [, wide = ''] = /Tier wide(.*?)Tier /.exec(page) ?? [];
  expect(wide).toContain('four/echo is tried first in 50% of the conversations.');
  expect(wide).toContain(`Calls ${tried} ${12 - tried} Error rate 0% 0% Calls with a failover 0% 0%`);
  const costs = (await callsOf(gateway, '?limit=50')).filter(({ plan }) => plan[0]?.model === 'four/echo').map(({ cost }) => cost);
  expect(wide).toContain(`Cost per call ${formatUsd((costs.reduce((sum, cost) => sum + cost, 0) * 1e9) / costs.length)} `);
  expect(wide).toMatch(/Latency, median [\d.]+ m?s [\d.]+ m?s Latency, 95th percentile [\d.]+ m?s [\d.]+ m?s/);
  expect(page).toMatch(/Tier broken dead\/new is tried .* Calls 1 0 Error rate 0% – Calls with a failover 100% –/);
  expect(await pageText('/calls?range=24h&canary=wide')).toContain('Canary of tier: wide');
  expect((await pageText('/calls.csv?range=24h&canary=wide')).match(/four\/echo/g)).toHaveLength(tried);
  expect((await pageText('/calls.csv?range=24h&control=wide')).match(/one\/echo/g)).toHaveLength(12 - tried);
  expect(await pageText('/routing')).toContain('In 50% of the conversations, the canary four/echo is tried first.');
  expect(await pageText('/routing/dry-run?route=chat&model=wide')).toContain(
    'In 50% of the conversations, its canary four/echo is tried first.',
  );
});

test("counts how the memories that the canary's calls recalled were rated", async () => {
  const gateway = await lend();
  await gateway.admin('PUT', `/provision/teams/${gateway.project}/memory`, { enabled: true });
  const item = await saveItem(gateway, { text: 'Oolong tea is served in the morning' });
  const question = { model: 'strong', messages: [user('Which tea is served in the morning?')] };
  const rateCall = async (rating: string): Promise<void> => {
    const response = await gateway.call(paths.chat, question, { 'x-gateway-memory': 'recall' });
    await response.arrayBuffer();
    const callId = response.headers.get('x-gateway-call-id');
    await expectJson(send(gateway, 'POST', `/items/${item.id}/rating`, { rating, call_id: callId }), 200);
  };
  await rateCall('wrong');
  const admin = await signIn(gateway, 'admin');
  const pageText = () => textOf(admin.get(`/console/p/${gateway.project}/explore/canaries?range=24h`));
  await eventually(async () => expect(await pageText()).toContain('Ratings of recalled memories 0 useful, 1 wrong – '));
  await rateCall('useful');
  await eventually(async () => expect(await pageText()).toContain('Ratings of recalled memories 1 useful, 0 wrong – '));
});
