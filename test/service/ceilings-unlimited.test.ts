/**
 * Tests that ceilings hold even if callers set no output limit, contradictory limits or expensive options, and the
 * vendor bills the maximum.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

/** USD per million output tokens. */
const usdPerMillion = 10;
const mostOutput = 128_000;

let vendor: LocalServer;
let billedTokens = 0;

/**
 * The vendor bills each choice at the larger of the request's output limits. If the request sets none, it bills the
 * maximum that the model can produce.
 */
beforeAll(async () => {
  vendor = await startLocalServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
      const isMessages = request.url?.endsWith('/messages') === true;
      const limits = [body.max_tokens, body.max_completion_tokens].map(Number).filter((limit) => limit >= 1);
      const output = (limits.length === 0 ? mostOutput : Math.min(mostOutput, Math.max(...limits))) * (body.n ?? 1);
      billedTokens += output * (body.speed === 'fast' ? 6 : 1);
      const completion = {
        choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'length' }],
        usage: { prompt_tokens: 1, completion_tokens: output },
      };
      const message = {
        ...{ type: 'message', role: 'assistant', content: [{ type: 'text', text: 'hi' }], stop_reason: 'max_tokens' },
        usage: { input_tokens: 1, output_tokens: output },
      };
      response.setHeader('content-type', 'application/json').end(JSON.stringify(isMessages ? message : completion));
    });
  });
});

afterAll(() => vendor.close());

const gateway = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: k, dialect: chat, tags: [eu] }
  three: { base_url: ${vendor.url}/v1, api_key: k, dialect: messages }
models:
  one/m: { input: 0, output: ${usdPerMillion}, max_output_tokens: ${mostOutput} }
  three/m: { input: 0, output: ${usdPerMillion}, max_output_tokens: ${mostOutput}, service_tiers: { fast: 6 } }
tiers: { standard: [one/m] }
`,
});

/**
 * Sends the calls concurrently with a new key. Returns how much the vendor billed and how much we recorded, both in
 * USD, and how many calls passed.
 */
async function spend(slug: string, { ceilings, calls, path = '/v1/chat/completions', members }: Spending) {
  const { call, admin }: TestGateway = await gateway().withProject(slug);
  const { key } = await jsonOf<{ key: string }>(admin('POST', `/provision/teams/${slug}/keys`, { name: 'limited', ceilings }));
  const authorization = { authorization: `Bearer ${key}` };
  billedTokens = 0;
  const body = { model: 'one/m', messages: [{ role: 'user', content: 'hi' }], ...members };
  const statuses = await Promise.all(
    Array.from({ length: calls }, async () => {
      const response = await call(path, body, authorization);
      await response.arrayBuffer();
      return response.status;
    }),
  );
  const status = await jsonOf<{ key: { ceilings: Record<string, { used: number }> } }>(call('/status/peek', undefined, authorization));
  return {
    billed: (billedTokens * usdPerMillion) / 1e6,
    recorded: status.key.ceilings.cost?.used,
    passed: statuses.filter((code) => code === 200).length,
  };
}

interface Spending {
  readonly ceilings: object;
  readonly calls: number;
  readonly path?: string;
  readonly members?: object;
}

test('admits only one call without max_tokens at a time under a small cost ceiling', async () => {
  const { billed, recorded, passed } = await spend('one-at-a-time', { ceilings: { cost: 1 }, calls: 100 });
  expect([billed, recorded, passed]).toEqual([1.28, 1.28, 1]);
});

test('exceeds a cost ceiling by less than one call if the requests have no max_tokens', async () => {
  const { billed, recorded } = await spend('no-limit', { ceilings: { cost: 10 }, calls: 100 });
  expect(billed).toBeGreaterThan(1);
  expect(billed).toBeLessThan(10 + 1.28);
  expect(recorded).toBeCloseTo(billed, 9);
});

test.each([
  ['max_tokens', { max_completion_tokens: 1, max_tokens: 100_000 }],
  ['max_completion_tokens', { max_completion_tokens: 100_000, max_tokens: 1 }],
  ['a limit as a string', { max_completion_tokens: 1, max_tokens: '100000' }],
])('reserves the larger of two output limits: %s', async (name, members) => {
  const { billed } = await spend(`two-limits-${name.replaceAll(/[_ ]/g, '-')}`, { ceilings: { cost: 1 }, calls: 200, members });
  expect(billed).toBeLessThanOrEqual(1.28);
});

test('reserves the cost of every choice', async () => {
  const { billed } = await spend('choices', { ceilings: { cost: 1 }, calls: 100, members: { n: 8, max_tokens: 10_000 } });
  expect(billed).toBeLessThanOrEqual(1 + 0.8);
});

test('reserves the higher price of fast mode', async () => {
  const members = { model: 'three/m', max_tokens: 10_000, speed: 'fast' };
  const { billed, recorded } = await spend('fast', { ceilings: { cost: 1 }, calls: 100, path: '/v1/messages', members });
  expect(billed).toBeGreaterThanOrEqual(0.6);
  expect(billed).toBeLessThanOrEqual(1 + 0.6);
  expect(recorded).toBeCloseTo(billed, 9);
});

test('admits only as many concurrent calls as fit into a tpm ceiling by their estimates', async () => {
  const slug = 'tokens-per-minute';
  const { call, admin } = await gateway().withProject(slug);
  const { key } = await jsonOf<{ key: string }>(
    admin('POST', `/provision/teams/${slug}/keys`, { name: 'limited', ceilings: { tpm: 50_000 } }),
  );
  billedTokens = 0;
  const body = { model: 'one/m', messages: [{ role: 'user', content: 'hi' }] };
  const statuses = await Promise.all(
    Array.from({ length: 100 }, () => call('/v1/chat/completions', body, { authorization: `Bearer ${key}` }).then(({ status }) => status)),
  );
  // Without recent calls the gateway estimates 4,096 output tokens, so several calls run at the same time, but not all.
  const passed = statuses.filter((status) => status === 200).length;
  expect(passed).toBeGreaterThan(1);
  // Twice as many can pass, because the calls may be spread over two minutes.
  expect(passed).toBeLessThanOrEqual(2 * Math.ceil(50_000 / 4_096));
  expect(billedTokens).toBe(passed * mostOutput);
});

const tool = { type: 'function', function: { name: 'choose', parameters: { type: 'object', properties: { model: { type: 'string' } } } } };

test.each<[string, string, object]>([
  ['models', 'models', { models: ['one/dear'] }],
  ['plugins', 'plugins', { plugins: [{ id: 'web' }] }],
  ['fallbacks', 'fallbacks', { fallbacks: [{ model: 'dear' }] }],
  ['an advisor', 'tools.1', { tools: [tool, { type: 'advisor_20260301', name: 'advisor', model: 'dear' }] }],
  ['an advisor without a model', 'tools.0', { tools: [{ type: 'advisor_20260301', name: 'advisor' }] }],
  ['a tool with a model', 'tools.0', { tools: [{ type: 'expert', model: 'dear' }] }],
  ['a tool of OpenRouter', 'tools.0', { tools: [{ type: 'openrouter:fusion', parameters: { analysis_models: ['dear'] } }] }],
  ['too many tools', 'tools', { tools: Array.from({ length: 1_001 }, () => tool) }],
  ['a preset', 'preset', { preset: 'mine' }],
  ['a provider', 'provider', { provider: { only: ['dear'] } }],
  ['models of compound', 'compound_custom', { compound_custom: { models: { answering_model: 'dear' } } }],
  ['a safety model', 'safety_model', { safety_model: 'dear' }],
  ['a draft model', 'draft_model', { draft_model: 'dear' }],
  ['data sources', 'data_sources', { data_sources: [{ type: 'azure_search' }] }],
  ['a deferred completion', 'deferred', { deferred: true }],
  ['another case', 'Model', { Model: 'dear' }],
  ['upper case', 'MAX_TOKENS', { MAX_TOKENS: 1_000_000 }],
  ['a long s', '\u017ftream', { '\u017ftream': true }],
  ['a Kelvin sign', 'max_to\u212aens', { 'max_to\u212aens': 1_000_000 }],
  [
    'an advisor in the conversation',
    'advisor',
    {
      messages: [
        { role: 'system', content: [{ type: 'tool_addition', tool: { definition: { type: 'advisor_20260301', model: 'dear' } } }] },
      ],
    },
  ],
])('rejects %s for keys with ceilings, allow-lists or required tags', async (what, member, members) => {
  const slug = `other-${what.replaceAll(' ', '-').toLowerCase()}`;
  const { call, admin }: TestGateway = await gateway().withProject(slug);
  const body = { model: 'one/m', messages: [{ role: 'user', content: 'hi' }], ...members };
  expect((await call('/v1/chat/completions', body)).status).toBe(200);
  for (const settings of [{ ceilings: { cost: 5 } }, { models: ['one/m'] }, { required_tags: ['eu'] }]) {
    const { key } = await jsonOf<{ key: string }>(admin('POST', `/provision/teams/${slug}/keys`, { name: 'limited', ...settings }));
    const answer = await call('/v1/chat/completions', body, { authorization: `Bearer ${key}` });
    expect([answer.status, await answer.json()]).toEqual([
      400,
      { error: expect.objectContaining({ code: 'bad_json', message: expect.stringContaining(`${member}: not allowed`) }) },
    ]);
  }
});

test.each([
  ['a tool whose parameters include a model', { tools: [tool] }],
  ['a tool that generates images with a given model', { tools: [{ type: 'image_generation', model: 'gpt-image-2' }] }],
  ['fields that are switched off', { deferred: false, provider: null, models: [], fallbacks: [], tools: [{ ...tool, model: null }] }],
])('accepts %s for keys with ceilings', async (what, members) => {
  const slug = what.replaceAll(' ', '-');
  const { call, admin } = await gateway().withProject(slug);
  const { key } = await jsonOf<{ key: string }>(admin('POST', `/provision/teams/${slug}/keys`, { name: 'limited', ceilings: { cost: 5 } }));
  const body = { model: 'one/m', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }], ...members };
  expect((await call('/v1/chat/completions', body, { authorization: `Bearer ${key}` })).status).toBe(200);
});
