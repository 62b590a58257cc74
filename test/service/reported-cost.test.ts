/** Tests that if a vendor reports a cost, we store it next to our own cost, but only charge our own. */
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { asObject } from '../../src/core/json/narrow.ts';
import { eventually, shareGateway } from '../support/gateway.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';

const usage = {
  prompt_tokens: 100,
  completion_tokens: 10,
  prompt_tokens_details: { cached_tokens: 20, cache_write_tokens: 60 },
  cost: 0.00123,
};
let vendor: LocalServer;
beforeAll(async () => {
  vendor = await startLocalServer(async (request, response) => {
    const { stream, user } = asObject(await json(request));
    response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' });
    const choice = { index: 0, finish_reason: 'stop' };
    const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: 'no JSON' } };
    if (user === 'broken') return void response.end(JSON.stringify({ choices: [{ ...choice, message: { tool_calls: [call] } }], usage }));
    if (!stream) return void response.end(JSON.stringify({ choices: [{ ...choice, message: { content: 'Hi' } }], usage }));
    const chunks = [{ choices: [{ ...choice, delta: { content: 'Hi' } }] }, { choices: [], usage }];
    response.end(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
  });
});
afterAll(() => vendor.close());

const gateway = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: key-one, dialect: chat }
models:
  one/model: { input: 1, output: 10, cached_input: 0.1, cache_write: 1.25 }
tiers: { standard: [one/model] }
`,
});

test.each([
  ['chat', false],
  ['chat', true],
  ['messages', false],
  ['messages', true],
])('stores the cost that the vendor reports on %s (streamed: %p)', async (route, stream) => {
  const lent = await gateway().withProject(`cost-${route}-${stream}`);
  const path = route === 'chat' ? '/v1/chat/completions' : '/v1/messages';
  const body = { model: 'one/model', max_tokens: 50, stream, messages: [{ role: 'user', content: 'Hi' }] };
  const response = await lent.call(path, body);
  expect(response.status).toBe(200);
  const text = await response.text();
  // In the Messages dialect, the response also reports how many tokens were written to the cache.
  if (route === 'messages') expect(text).toContain('"cache_creation_input_tokens":60');
  const calls = await eventually(async () => {
    const rows = await lent.database.query<object>(
      `select units, tokens_input as input, tokens_cached_input as cached, tokens_cache_write as written, cost_nanos as "costNanos"
         from calls join projects on projects.id = project_id where slug = $1`,
      [lent.project],
    );
    expect(rows).toHaveLength(1);
    return rows;
  });
  const costNanos = 20 * 1_000 + 20 * 100 + 60 * 1_250 + 10 * 10_000;
  expect(calls[0]).toEqual({ units: { reportedCostNanos: 1_230_000 }, input: 20, cached: 20, written: 60, costNanos });
});

test("charges the reported cost even if the response can't be translated", async () => {
  const lent = await gateway().withProject('cost-untranslatable');
  const body = { model: 'one/model', max_tokens: 50, metadata: { user_id: 'broken' }, messages: [{ role: 'user', content: 'Hi' }] };
  expect((await lent.call('/v1/messages', body)).status).toBe(502);
  const calls = await eventually(async () => {
    const rows = await lent.database.query<object>(
      `select outcome, model, tokens_input as input, tokens_output as output, cost_nanos as "costNanos"
         from calls join projects on projects.id = project_id where slug = $1`,
      [lent.project],
    );
    expect(rows).toHaveLength(1);
    return rows;
  });
  const costNanos = 20 * 1_000 + 20 * 100 + 60 * 1_250 + 10 * 10_000;
  expect(calls[0]).toEqual({ outcome: 'failed', model: 'one/model', input: 20, output: 10, costNanos });
});
