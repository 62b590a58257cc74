/** Compares what the gateway sends to each known vendor with what the vendor's own SDK sends for the same call. */
import { AnthropicAws } from '@anthropic-ai/aws-sdk';
import { AnthropicBedrock, AnthropicBedrockMantle } from '@anthropic-ai/bedrock-sdk';
import { AnthropicFoundry } from '@anthropic-ai/foundry-sdk';
import Anthropic from '@anthropic-ai/sdk';
import { AnthropicVertex } from '@anthropic-ai/vertex-sdk';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import OpenAI, { AzureOpenAI } from 'openai';
import { knownVendors } from '../../src/config/vendors/known-vendors.ts';
import { type CloudVendor, type RecordedRequest, startCloudVendor } from '../support/cloud-vendor.ts';
import { shareGateway } from '../support/gateway.ts';

let vendor: CloudVendor;
beforeAll(async () => {
  vendor = await startCloudVendor();
});
afterAll(() => vendor.close());
beforeEach(() => void vendor.requests.splice(0));

/** Returns the path of each vendor example's base URL on the recording server. */
function pathOf(baseUrl: string): string {
  const { pathname } = new URL(baseUrl.replaceAll(/\{(\w+)\}/g, 'my-$1'));
  return pathname === '/' ? '' : pathname;
}

const described = knownVendors.filter(
  ({ serves, dialect }) => serves === undefined || serves.includes(dialect === 'messages' ? 'messages' : 'chat'),
);
const key = 'key-of-the-vendor';

const lent = shareGateway({
  database: 'any',
  yaml: () =>
    JSON.stringify({
      providers: Object.fromEntries(
        described.map(({ name, baseUrl, headers }) => [
          name,
          {
            vendor: name,
            base_url: vendor.url + pathOf(baseUrl),
            api_key: key,
            ...(headers && { headers: { 'anthropic-workspace-id': 'my-workspace' } }),
          },
        ]),
      ),
    }),
});

type Messages = Pick<Anthropic, 'messages'>;

/** The vendors' own clients for Claude. */
const claudeSdks: Readonly<Record<string, () => unknown>> = {
  anthropic: () => new Anthropic({ baseURL: vendor.url, apiKey: key }),
  'foundry-claude': () => new AnthropicFoundry({ baseURL: `${vendor.url}/anthropic/`, apiKey: key }),
  'bedrock-claude': () => new AnthropicBedrock({ baseURL: vendor.url, apiKey: key, awsRegion: 'us-east-1' }),
  'bedrock-mantle-claude': () => new AnthropicBedrockMantle({ baseURL: `${vendor.url}/anthropic`, apiKey: key, awsRegion: 'us-east-1' }),
  'claude-on-aws': () => new AnthropicAws({ baseURL: vendor.url, apiKey: key, awsRegion: 'us-east-1', workspaceId: 'my-workspace' }),
  'vertex-claude': () =>
    new AnthropicVertex({
      ...{ baseURL: `${vendor.url}/v1`, region: 'my-location', projectId: 'my-project' },
      // The SDK only asks this client for the headers of a request.
      authClient: Object.assign(Object.create(null), { getRequestHeaders: async () => new Headers({ authorization: `Bearer ${key}` }) }),
    }),
};

/**
 * The vendors' own clients for the chat dialect. Where a vendor has none, its documentation tells you to use that of
 * OpenAI.
 */
function chatSdk(name: string, baseUrl: string): OpenAI {
  if (name === 'azure-openai-deployments') return new AzureOpenAI({ endpoint: vendor.url, apiKey: key, apiVersion: '2024-10-21' });
  return new OpenAI({ baseURL: vendor.url + pathOf(baseUrl), apiKey: key });
}

/** Returns what matters to the vendor, without what every client says about itself. */
function essence({ method, path, headers, body }: RecordedRequest): object {
  const names = Object.keys(headers).filter((name) => /^(?:anthropic-|x-api-key|api-key|authorization|content-type|openai-)/.test(name));
  // This header protects the key in browsers.
  const sent = names.filter((name) => name !== 'anthropic-dangerous-direct-browser-access').map((name) => [name, headers[name]]);
  return { method, path: path.replace('?beta=true', ''), headers: Object.fromEntries(sent), body };
}

/** Anthropic accepts a key in either header. Its SDK changed from one to the other. */
function withOneCredential(request: object): object {
  const { headers, ...rest } = request as { headers: Record<string, string> };
  const { authorization, ...others } = headers;
  return { ...rest, headers: authorization === undefined ? headers : { ...others, 'x-api-key': authorization.replace('Bearer ', '') } };
}

function lastRequest(): object {
  const request = vendor.requests.at(-1);
  if (!request) throw new Error('the vendor got no request');
  return essence(request);
}

const model = 'claude-haiku-4-5@20251001';
const messagesBody = { model, max_tokens: 100, messages: [{ role: 'user' as const, content: 'Norway?' }], system: 'Be brief.' };
const chatBody = { model: 'gpt-4o', messages: [{ role: 'user' as const, content: 'Norway?' }] };

describe.each(described.filter(({ dialect }) => dialect === 'messages').map(({ name }) => [name]))('messages requests to %s', (name) => {
  const sdk = (): Messages => claudeSdks[name]?.() as Messages;
  const gateway = () => new Anthropic({ baseURL: lent().url, apiKey: lent().key, maxRetries: 0 });

  test.each([false, true])("sends the same request as the vendor's SDK (stream: %s)", async (stream) => {
    await drain(await sdk().messages.create({ ...messagesBody, stream }));
    const expected = lastRequest();
    expect(await drain(await gateway().messages.create({ ...messagesBody, stream, model: `${name}/${model}` }))).toContain('Oslo');
    if (name === 'anthropic') expect(withOneCredential(lastRequest())).toEqual(withOneCredential(expected));
    else expect(lastRequest()).toEqual(expected);
  });

  test("counts tokens with the same request as the vendor's SDK, or estimates them for Bedrock", async () => {
    const { messages } = sdk();
    const { max_tokens: _limit, ...countBody } = messagesBody;
    // The SDK has the method, but Bedrock's runtime doesn't have the route.
    if (name !== 'bedrock-claude') {
      await messages.countTokens(countBody);
      const expected = lastRequest();
      expect((await gateway().messages.countTokens({ ...countBody, model: `${name}/${model}` })).input_tokens).toBe(7);
      if (name === 'anthropic') expect(withOneCredential(lastRequest())).toEqual(withOneCredential(expected));
      else expect(lastRequest()).toEqual(expected);
    } else {
      const { input_tokens: estimate } = await gateway().messages.countTokens({ ...countBody, model: `${name}/${model}` });
      expect([estimate > 0, vendor.requests]).toEqual([true, []]);
    }
  });

  test.each([false, true])("calls the same URL as the vendor's SDK for a chat caller (stream: %s)", async (stream) => {
    await drain(await sdk().messages.create({ ...messagesBody, stream }));
    const expected = lastRequest();
    const openai = new OpenAI({ baseURL: `${lent().url}/v1`, apiKey: lent().key, maxRetries: 0 });
    const messages = [{ role: 'system' as const, content: 'Be brief.' }, ...messagesBody.messages];
    const body = { model: `${name}/${model}`, max_tokens: 100, messages, stream };
    expect(await drain(await openai.chat.completions.create(body))).toContain('Oslo');
    const { body: expectedBody, method, path } = expected as { body: object; method: string; path: string };
    const sent = lastRequest() as { body: object };
    expect(sent).toMatchObject({ method, path });
    // The system prompt and the content may be in the longer of their two formats.
    expect(
      Object.keys(sent.body)
        .filter((member) => member !== 'stream')
        .toSorted(),
    ).toEqual(
      Object.keys(expectedBody)
        .filter((member) => member !== 'stream')
        .toSorted(),
    );
  });
});

describe.each(described.filter(({ dialect }) => dialect === 'chat').map(({ name, baseUrl, auth }) => [name, baseUrl, auth] as const))(
  'chat requests to %s',
  (name, baseUrl, auth) => {
    test.each([false, true])("sends the same request as the vendor's SDK (stream: %s)", async (stream) => {
      const options = stream ? { stream, stream_options: { include_usage: true } } : { stream };
      await drain(await chatSdk(name, baseUrl).chat.completions.create({ ...chatBody, ...options }));
      const expected = lastRequest();
      const openai = new OpenAI({ baseURL: `${lent().url}/v1`, apiKey: lent().key, maxRetries: 0 });
      expect(await drain(await openai.chat.completions.create({ ...chatBody, ...options, model: `${name}/gpt-4o` }))).toContain('Oslo');
      // Azure accepts the key in its own header too, which is the one that its reference documents.
      const credential = auth?.header === 'api-key' ? { 'api-key': key } : { authorization: `Bearer ${key}` };
      const { headers, ...rest } = expected as { headers: Record<string, string> };
      const { authorization: _bearer, 'api-key': _key, ...others } = headers;
      expect(lastRequest()).toEqual({ ...rest, headers: { ...others, ...credential } });
    });

    test.each([false, true])("calls the same URL as the vendor's SDK for a messages caller (stream: %s)", async (stream) => {
      await drain(await chatSdk(name, baseUrl).chat.completions.create({ ...chatBody, stream }));
      const { method, path } = lastRequest() as { method: string; path: string };
      const gateway = new Anthropic({ baseURL: lent().url, apiKey: lent().key, maxRetries: 0 });
      expect(await drain(await gateway.messages.create({ ...messagesBody, stream, model: `${name}/gpt-4o` }))).toContain('Oslo');
      expect(lastRequest()).toMatchObject({ method, path, body: { model: 'gpt-4o' } });
    });
  },
);

describe('beta flags', () => {
  test("drops beta flags that Bedrock doesn't know", async () => {
    const response = await lent().call(
      '/v1/messages',
      { ...messagesBody, model: `bedrock-claude/${model}` },
      { 'anthropic-beta': 'context-1m-2025-08-07,files-api-2025-04-14' },
    );
    expect([response.status, response.headers.get('x-gateway-dropped')]).toEqual([200, 'anthropic-beta.files-api-2025-04-14']);
    expect(lastRequest()).toMatchObject({
      headers: { 'anthropic-beta': 'context-1m-2025-08-07' },
      body: { anthropic_beta: ['context-1m-2025-08-07'] },
    });
  });

  test("forwards all beta flags to a vendor that doesn't restrict them", async () => {
    const response = await lent().call('/v1/messages', { ...messagesBody, model: `anthropic/${model}` }, { 'anthropic-beta': 'one,two' });
    expect(response.headers.get('x-gateway-dropped')).toBeNull();
    expect(lastRequest()).toMatchObject({ headers: { 'anthropic-beta': 'one,two' } });
  });
});

/** Returns the text of a response, or the joined events of a stream. */
async function drain(response: unknown): Promise<string> {
  if (typeof response !== 'object' || response === null || !(Symbol.asyncIterator in response)) return JSON.stringify(response);
  const parts: string[] = [];
  for await (const event of response as AsyncIterable<unknown>) parts.push(JSON.stringify(event));
  return parts.join('');
}
