/** Tests the passthrough routes from the perspective of an application. */
import { describe, expect, it } from '@jest/globals';
import OpenAI from 'openai';
import { callsOf, defaultYaml, jsonOf, shareGateway } from '../support/gateway.ts';

const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) =>
    `${defaultYaml(vendorUrl, deadUrl).replace('tiers:', 'tiers:\n  embed: [one/not-found, two/embed]\n  flaky: [one/fail-500, two/echo]\n  refusing: [one/refuse-422, two/refuse-400]')}`.replace(
      'models:',
      'models:\n  two/embed: { kind: embeddings, input: 0.02 }\n  two/rank: { kind: rerank, per_search: 0.002 }\n  one/mod: { kind: moderations, input: 0 }',
    ),
});

const routes = [
  { path: '/v1/embeddings', body: { input: 'hi' } },
  { path: '/v1/moderations', body: { input: 'hi' } },
  { path: '/v1/rerank', body: { query: 'hi', documents: ['hi', 'ho'] } },
  { path: '/v1/responses', body: { input: 'hi' } },
] as const;

describe.each(routes)('$path', ({ path, body }) => {
  it('uses the second model of the tier when the first one fails', async () => {
    const gateway = await lent().withProject(`project${path.replaceAll('/', '-')}`);
    const answer = await gateway.call(path, { ...body, model: 'flaky' });
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'two/echo']);
    const refused = await gateway.call(path, { ...body, model: 'refusing' });
    expect(refused.status).toBe(422);
    expect(await jsonOf(refused)).toMatchObject({ error: { code: 'upstream_refused' } });
    expect(await callsOf(gateway)).toMatchObject([{ outcome: 'refused' }, { attempts: [{ status: 500 }, { status: 200 }] }]);
  });
});

it("uses the next model when a vendor doesn't support the route", async () => {
  const gateway = await lent().withProject('path');
  const answer = await gateway.call('/v1/embeddings', { model: 'embed', input: 'hi' });
  expect(answer.headers.get('x-gateway-model')).toBe('two/embed');
  expect(await callsOf(gateway)).toMatchObject([{ attempts: [{ status: 404, outcome: 'failed' }, { status: 200 }], cost: 0.00000002 }]);
});

it('serves embeddings, moderations and responses to the openai SDK', async () => {
  const { url, key } = lent();
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
  const { data } = await openai.embeddings.create({ model: 'two/embed', input: ['a', 'b'] });
  expect(data).toHaveLength(2);
  expect((await openai.moderations.create({ model: 'one/mod', input: 'hi' })).results).toHaveLength(1);
  const plain = await openai.responses.create({ model: 'standard', input: 'Where is Oslo?' });
  expect(plain.output_text).toContain('Oslo');
  const streamed = await openai.responses.stream({ model: 'standard', input: 'Where is Oslo?' }).finalResponse();
  expect(streamed.output_text).toBe(plain.output_text);
});

it("doesn't charge for moderations", async () => {
  const gateway = await lent().withProject('priced');
  await gateway.call('/v1/moderations', { model: 'one/mod', input: 'hi' });
  expect(await callsOf(gateway)).toMatchObject([{ cost: 0, estimated: false, tokens: { input: 0, output: 0 } }]);
});

it('charges a rerank call by its documents if the vendor reports no searches', async () => {
  const gateway = await lent().withProject('searched');
  for (const [count, cost] of [
    [1, 0.002],
    [100, 0.002],
    [101, 0.004],
  ]) {
    await gateway.call('/v1/rerank', { model: 'two/rank', query: 'hi', documents: Array.from({ length: count ?? 0 }, () => 'ho') });
    expect(await callsOf(gateway, '?limit=1')).toMatchObject([{ cost, estimated: true, attempts: [{ cost }] }]);
  }
});

it("doesn't add a closing event to a broken responses stream", async () => {
  const gateway = await lent().withProject('broken');
  const answer = await gateway.call('/v1/responses', { model: 'one/break-after-3+long-20', input: 'hi', stream: true });
  const text = await answer.text();
  expect(answer.headers.get('content-type')).toBe('text/event-stream');
  expect(text).toContain('response.created');
  expect(text).not.toContain('response.completed');
  expect(await callsOf(gateway)).toMatchObject([{ outcome: 'interrupted', estimated: true }]);
});
