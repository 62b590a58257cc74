/**
 * Tests that if a call doesn't set an output limit, the gateway sends the key's `default_max_output_tokens` to the
 * vendor, and reserves that many tokens.
 */
import { expect, it } from '@jest/globals';
import { eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import { lastRequest } from './dialects-gateway.ts';

const lent = shareGateway({
  database: 'any',
  cache: true,
  yaml: (vendorUrl) => `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: key-one, dialect: chat, serves: [chat, responses] }
  plain: { base_url: ${vendorUrl}/v1, api_key: key-plain, dialect: chat, serves: [chat] }
  three: { base_url: ${vendorUrl}/v1, api_key: key-three, dialect: messages }
models:
  one/echo: { input: 0, output: 10, max_output_tokens: 100000 }
  one/bounded: { input: 0, output: 10, max_output_tokens: 77 }
  one/hang: { input: 0, output: 10, max_output_tokens: 100000 }
  plain/echo: { input: 0, output: 10 }
  three/echo: { input: 0, output: 10, max_output_tokens: 64000 }
`,
});

const issue = async (settings: object): Promise<string> => {
  const { key } = await jsonOf<{ key: string }>(
    lent().admin('POST', `/provision/teams/${lent().project}/keys`, { name: 'limited', ...settings }),
  );
  return key;
};
const post = (key: string, path: string, body: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  lent().call(path, body, { authorization: `Bearer ${key}`, 'cache-control': 'no-store', ...headers });

const chat = '/v1/chat/completions';
const messages = '"messages":[{"role":"user","content":"hi"}]';

it.each([
  ['chat', chat, `{"model":"one/echo","x":1.0,${messages}}`, { max_tokens: 500 }],
  ['a chat stream', chat, `{"model":"one/echo","stream":true,${messages}}`, { max_tokens: 500, stream_options: { include_usage: true } }],
  ['chat with null limits', chat, `{"model":"one/echo","max_tokens":null,${messages}}`, { max_tokens: 500 }],
  ['chat for a model with a lower limit', chat, `{"model":"one/bounded",${messages}}`, { max_tokens: 77 }],
  ['chat on a messages vendor', chat, `{"model":"three/echo",${messages}}`, { max_tokens: 500 }],
  ['responses', '/v1/responses', '{"model":"one/echo","input":"hi"}', { max_output_tokens: 500, input: 'hi' }],
  ['responses on a chat vendor', '/v1/responses', '{"model":"plain/echo","input":"hi"}', { max_tokens: 500 }],
  ['responses on a messages vendor', '/v1/responses', '{"model":"three/echo","input":"hi"}', { max_tokens: 500 }],
  ['legacy completions', '/v1/completions', '{"model":"one/echo","prompt":"hi"}', { max_tokens: 500 }],
])('applies the default output limit to %s', async (_name, path, body, expected) => {
  const key = await issue({ default_max_output_tokens: 500 });
  const answer = await post(key, path, body);
  await answer.text();
  expect(answer.status).toBe(200);
  expect(lastRequest(lent()).json).toMatchObject(expected);
});

it.each([
  [chat, `{"model":"one/echo","max_tokens":9,${messages}}`],
  [chat, `{"model":"one/echo","max_completion_tokens":9000,${messages}}`],
  ['/v1/responses', '{"model":"one/echo","max_output_tokens":9000,"input":"hi"}'],
  ['/v1/messages', `{"model":"three/echo","max_tokens":9000,${messages}}`],
])("keeps the caller's output limit: %s %s", async (path, body) => {
  const key = await issue({ default_max_output_tokens: 500 });
  expect((await post(key, path, body)).status).toBe(200);
  expect(lastRequest(lent()).text).toBe(body.replace(/"(?:one|three)\//, '"'));
});

it('inserts the default output limit without changing other bytes', async () => {
  const body = `{"model":"one/echo","x":1.0,${messages}}`;
  await post(await issue({}), chat, body);
  const sent = lastRequest(lent()).text;
  expect(sent).not.toContain('max_tokens');
  await post(await issue({ default_max_output_tokens: 500 }), chat, body);
  expect(lastRequest(lent()).text).toBe(sent.replace('{', '{"max_tokens":500,'));
});

it("reserves the default output limit instead of the model's limit", async () => {
  const reservedFor = async (settings: object): Promise<number> => {
    const key = await issue({ ceilings: { cost: 5 }, ...settings });
    const hanging = new AbortController();
    const answer = fetch(`${lent().url}${chat}`, {
      ...{ method: 'POST', body: `{"model":"one/hang","stream":true,${messages}}`, signal: hanging.signal },
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    }).catch(() => null);
    type Status = { key: { ceilings: { cost: { reserved: number } } } };
    const reserved = await eventually(async () => {
      const status = await jsonOf<Status>(lent().call('/status/peek', undefined, { authorization: `Bearer ${key}` }));
      expect(status.key.ceilings.cost.reserved).toBeGreaterThan(0);
      return status.key.ceilings.cost.reserved;
    });
    hanging.abort();
    await answer;
    return reserved;
  };
  expect(await reservedFor({ default_max_output_tokens: 500 })).toBe(0.005);
  expect(await reservedFor({})).toBeGreaterThan(0.005);
});

it('caches responses separately for each default output limit', async () => {
  const keys = [await issue({}), await issue({ default_max_output_tokens: 500 }), await issue({ default_max_output_tokens: 600 })];
  const cached = { 'cache-control': 'max-age=600' };
  const body = `{"model":"one/echo","messages":[{"role":"user","content":"cached"}]}`;
  const hits: (string | null)[] = [];
  for (const key of [...keys, ...keys]) {
    const answer = await post(key, chat, body, cached);
    await answer.text();
    hits.push(answer.headers.get('x-gateway-cache'));
  }
  expect(hits).toEqual(['miss', 'miss', 'miss', 'hit', 'hit', 'hit']);
});
