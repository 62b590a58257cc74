/** Tests how the official SDKs handle the gateway's errors, i.e. when they retry, and which code they show. */
import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, it } from '@jest/globals';
import OpenAI from 'openai';
import type { TestGateway } from '../support/gateway.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';
import { createSlowClock } from '../support/slow-clock.ts';
import type { Dialect } from './dialects-gateway.ts';
import { dialects, paths } from './dialects-gateway.ts';
import { projectLender } from './inference-routes.ts';

const lent = shareGateway({
  database: 'any',
  clock: createSlowClock(),
  yaml: (vendorUrl) => `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: key-one, dialect: chat }
  three: { base_url: ${vendorUrl}/v1, api_key: key-three, dialect: messages }
models:
  one/echo: { input: 1, output: 1 }
  one/echo+held: { input: 1, output: 1 }
  three/echo: { input: 1, output: 1 }
`,
});
const lend = projectLender(lent, 'sdk-errors');

const model = { chat: 'one/echo', messages: 'three/echo' } as const;
const question = [{ role: 'user' as const, content: 'hi' }];

async function withKey(gateway: TestGateway, settings: object): Promise<TestGateway> {
  const { key } = await jsonOf<{ key: string }>(
    gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'own', ...settings }),
  );
  return { ...gateway, key, call: (path, body, headers) => gateway.call(path, body, { authorization: `Bearer ${key}`, ...headers }) };
}

/** Calls with the dialect's SDK and its default retries. Returns the status of the error and of each response. */
async function callWithSdk(
  caller: Dialect,
  { url, key }: TestGateway,
  asked: string = model[caller],
): Promise<{ status: unknown; responses: number[] }> {
  const responses: number[] = [];
  const countingFetch: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    responses.push(response.status);
    return response;
  };
  const sdk = { apiKey: key, fetch: countingFetch };
  const call =
    caller === 'chat'
      ? new OpenAI({ ...sdk, baseURL: `${url}/v1` }).chat.completions.create({ model: asked, messages: question })
      : new Anthropic({ ...sdk, baseURL: url }).messages.create({ model: asked, max_tokens: 10, messages: question });
  const error: unknown = await call.catch((cause: unknown) => cause);
  return { status: error instanceof OpenAI.APIError || error instanceof Anthropic.APIError ? error.status : error, responses };
}

describe.each(dialects)('the SDK of %s callers when a ceiling is exhausted', (caller) => {
  it.each([
    ['calls', 'day'],
    ['calls', 'total'],
    ['cost', 'month'],
    ['cost', 'total'],
  ])("doesn't make the SDK retry if the key's %s ceiling is exhausted (window: %s)", async (ceiling, window) => {
    const gateway = await withKey(await lend(), { ceilings: { [ceiling]: 0 }, windows: { [ceiling]: window } });
    expect(await callWithSdk(caller, gateway)).toEqual({ status: 429, responses: [429] });
  });

  it("doesn't make the SDK retry if the application's calls ceiling is exhausted", async () => {
    const gateway = await lend();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}/applications/${gateway.project}`, { ceilings: { calls: 0 } });
    expect(await callWithSdk(caller, gateway)).toEqual({ status: 429, responses: [429] });
  });

  it("doesn't make the SDK retry if the project's monthly cap is exhausted", async () => {
    const gateway = await lend();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { monthly_cap: 0 });
    expect(await callWithSdk(caller, gateway)).toEqual({ status: 429, responses: [429] });
  });
});

it.each(dialects)("doesn't make the SDK of %s callers retry if the vendor rejects the gateway's key", async (caller) => {
  expect(await callWithSdk(caller, await lend(), `${model[caller]}+fail-401`)).toEqual({ status: 502, responses: [502] });
});

describe('errors that the SDK retries', () => {
  const ask = (gateway: TestGateway, name: string = model.chat) =>
    gateway.call(paths.chat, { model: name, messages: question, max_completion_tokens: 1_000 });

  it('lets the SDK retry if the vendor fails', async () => {
    const answer = await ask(await lend(), 'one/echo+fail-500');
    expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([502, null]);
  });

  it('lets the SDK retry if an rpm ceiling is reached', async () => {
    const answer = await ask(await withKey(await lend(), { ceilings: { rpm: 0 } }));
    expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([429, null]);
  });

  it('lets the SDK retry while a running call has reserved the rest of the ceiling', async () => {
    const gateway = await withKey(await lend(), { ceilings: { cost: 0.0015 } });
    const sent = gateway.vendor.requests().length;
    const running = ask(gateway, 'one/echo+held');
    while (gateway.vendor.requests().length === sent) await new Promise((resolve) => setTimeout(resolve, 5));
    const denied = await ask(gateway);
    expect([denied.status, denied.headers.get('x-should-retry')]).toEqual([429, null]);
    gateway.vendor.release();
    expect((await running).status).toBe(200);
    expect((await ask(gateway)).status).toBe(200);
  });
});

describe('the error code for a prompt that is too long', () => {
  const long = [{ role: 'user' as const, content: 'far too long for this model '.repeat(200) }];
  const raised = async ({ url, key }: TestGateway, headers: Record<string, string> = {}) => {
    const sdk = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, defaultHeaders: headers });
    const error: unknown = await sdk.chat.completions.create({ model: 'one/window-100', messages: long }).catch((cause: unknown) => cause);
    if (!(error instanceof OpenAI.APIError)) throw new Error('the call did not fail with an APIError');
    return { status: error.status, code: error.code, type: error.type };
  };
  const ofGateway = { status: 400, code: 'upstream_refused', type: 'upstream_refused' };
  const ofVendor = { status: 400, code: 'context_length_exceeded', type: 'upstream_refused' };

  it("returns the vendor's error code if a request header asks for it", async () => {
    const gateway = await lend();
    expect(await raised(gateway)).toEqual(ofGateway);
    expect(await raised(gateway, { 'x-gateway-error-codes': 'other' })).toEqual(ofGateway);
    expect(await raised(gateway, { 'x-gateway-error-codes': 'vendor' })).toEqual(ofVendor);
  });

  it("returns the vendor's error code if the project's settings ask for it", async () => {
    const gateway = await lend();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { error_codes: 'vendor' });
    expect(await raised(gateway)).toEqual(ofVendor);
    expect(await raised(gateway, { 'x-gateway-error-codes': 'gateway' })).toEqual(ofGateway);
  });

  it("doesn't add an error code to error responses on messages", async () => {
    const headers = { 'x-gateway-error-codes': 'vendor' };
    const answer = await lent().call(paths.messages, { model: 'three/window-100', max_tokens: 10, messages: long }, headers);
    const { error } = await jsonOf<{ error: object }>(answer);
    expect(error).toMatchObject({ type: 'invalid_request_error', upstream_code: 'context_length_exceeded' });
    expect(error).not.toHaveProperty('code');
  });

  it.each([
    ['chat', 'three', / maximum$/, / maximum \(context_length_exceeded\)$/],
    ['messages', 'one', /length of the messages\.$/, /length of the messages\. \(prompt is too long\)$/],
    ['messages', 'three', / maximum$/, / maximum$/],
  ] as const)(
    "returns the %s dialect's error wording on request if the prompt is too long for the provider %s",
    async (caller, provider, byDefault, onRequest) => {
      const ask = async (headers: Record<string, string>): Promise<string> => {
        const body = { model: `${provider}/window-100`, max_tokens: 10, messages: long };
        return (await jsonOf<{ error: { message: string } }>(lent().call(paths[caller], body, headers))).error.message;
      };
      expect(await ask({})).toMatch(byDefault);
      expect(await ask({ 'x-gateway-error-codes': 'vendor' })).toMatch(onRequest);
    },
  );
});
