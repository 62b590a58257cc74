import { describe, expect, test } from '@jest/globals';
import type { ProviderConfig } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { findVendorByAddress, knownVendors } from '../../src/config/vendors/known-vendors.ts';
import type { VendorDescription } from '../../src/config/vendors/vendor-description.ts';
import { requestUrl } from '../../src/vendors/request-url.ts';

function load(row: object): ProviderConfig {
  const provider = loadConfig({ env: {}, fileText: JSON.stringify({ providers: { p: row } }), fileName: 'gateway.yaml' }).providers.p;
  if (!provider) throw new Error('there is no provider');
  return provider;
}

/** Replaces the parameters in a text with their examples. */
function fillIn(text: string, { parameters = {} }: VendorDescription): string {
  return text.replace(/\{(\w+)\}/g, (_match, name: string) => parameters[name]?.example ?? `{${name}}`);
}

function rowOf(vendor: VendorDescription): object {
  const headers = Object.entries(vendor.headers ?? {}).map(([name, value]) => [name, fillIn(value, vendor)]);
  return { vendor: vendor.name, base_url: fillIn(vendor.baseUrl, vendor), headers: Object.fromEntries(headers) };
}

describe.each(knownVendors.map((vendor) => [vendor.name, vendor] as const))('the description of %s', (_name, vendor) => {
  test('describes each vendor parameter with a valid example', () => {
    const texts = [vendor.baseUrl, ...Object.values(vendor.headers ?? {})].join(' ');
    const used = [...texts.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
    expect([...new Set(used)].toSorted()).toEqual(Object.keys(vendor.parameters ?? {}).toSorted());
    for (const { pattern, example } of Object.values(vendor.parameters ?? {})) expect(example).toMatch(pattern);
  });

  test("creates a valid provider from the vendor's description", () => {
    const provider = load(rowOf(vendor));
    expect(provider).toMatchObject({ vendor: vendor.name, dialect: vendor.dialect });
  });

  test('recognizes the vendor by its base URL', () => {
    if (vendor.hosts?.length === 0) return;
    expect(findVendorByAddress(fillIn(vendor.baseUrl, vendor))?.name).toBe(vendor.name);
  });
});

test('every known vendor has a unique name', () => {
  const names = knownVendors.map(({ name }) => name);
  expect(names).toEqual([...new Set(names)]);
});

test.each([
  ['https://api.openai.com/v1', 'openai'],
  ['https://api.openai.com.example.com/v1', null],
  ['https://acme.openai.azure.com/openai/v1', 'azure-openai'],
  ['https://acme.openai.azure.com/openai/v1/', 'azure-openai'],
  ['https://acme.openai.azure.com/openai', 'azure-openai-deployments'],
  ['https://acme.openai.azure.com/openai/deployments/mine', 'azure-openai-deployments'],
  ['https://openai.azure.com/openai/v1', null],
  ['https://bedrock-runtime.eu-central-1.amazonaws.com', 'bedrock-claude'],
  ['https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1', 'bedrock-openai'],
  ['https://bedrock-runtime.eu-central-1.amazonaws.com.example.com', null],
  ['https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic', 'vertex-claude'],
  ['https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi', 'vertex-gemini'],
  ['https://eu.api.openai.com/v1', null],
  ['nothing', null],
])('identifies the vendor at %s as %s', (address, name) => {
  expect(findVendorByAddress(address)?.name ?? null).toBe(name);
});

test.each([
  [{ base_url: 'https://ai.api.nvidia.com/v1/genai' }, { imageShape: 'artifacts', imageJobsOrigin: 'https://api.nvcf.nvidia.com' }],
  [{ vendor: 'nvidia', image_shape: 'openai' }, { imageShape: 'openai' }],
  [{ vendor: 'elevenlabs' }, { speechShape: 'voice', speech: { voiceIn: 'path', path: '/text-to-speech/{voice}' } }],
  [{ vendor: 'elevenlabs', speech: { body: { model_id: 'v2' } } }, { speech: { textField: 'text', body: { model_id: 'v2' } } }],
  [{ vendor: 'deepgram' }, { speechShape: 'voice', speech: { voiceIn: 'query', path: '/speak' } }],
  [{ vendor: 'deepgram', speech: { path: '/say' } }, { speech: { voiceIn: 'query', path: '/say' } }],
])('uses the media formats from the vendor description for %j', (row, expected) => {
  expect(load(row)).toMatchObject(expected);
});

describe('vendor addresses', () => {
  const azure = {
    base_url: 'https://acme.openai.azure.com/openai',
    model_names: { 'gpt-4o': 'my deployment' },
  };

  test.each([
    [azure, '/chat/completions', 'my deployment', false, '/openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21'],
    [azure, '/responses', 'x', false, '/openai/responses?api-version=2024-10-21'],
    [
      { ...azure, query: { 'api-version': '2025-04-01-preview' } },
      '/responses',
      'x',
      false,
      '/openai/responses?api-version=2025-04-01-preview',
    ],
    [
      { vendor: 'vertex-claude', base_url: 'https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic' },
      ...['/messages', 'claude-haiku-4-5@20251001', true],
      '/v1/projects/p/locations/global/publishers/anthropic/models/claude-haiku-4-5@20251001:streamRawPredict',
    ],
    [
      { vendor: 'bedrock-claude', base_url: 'https://bedrock-runtime.us-east-1.amazonaws.com' },
      ...['/messages', 'arn:aws:bedrock:us-east-1:1:inference-profile/x;y', false],
      '/model/arn:aws:bedrock:us-east-1:1:inference-profile%2Fx%3By/invoke',
    ],
    [
      { base_url: 'https://proxy.test/v1', dialect: 'chat', paths: { '/embeddings': '/embed/{model}' } },
      '/embeddings',
      'a/b',
      false,
      '/v1/embed/a%2Fb',
    ],
    [{ base_url: 'https://proxy.test/v1', dialect: 'chat' }, '/embeddings', 'a/b', true, '/v1/embeddings'],
  ] as const)('builds the URL path for provider %j, route %s and model %s (stream: %s)', (row, path, model, isStream, expected) => {
    const { pathname, search } = requestUrl(load(row), { path, model, isStream });
    expect(pathname + search).toBe(expected);
  });

  test.each(['.', '..'])('rejects the model name %j because it would change the path', (model) => {
    expect(() => requestUrl(load(azure), { path: '/chat/completions', model })).toThrow('a model cannot be named "." or "..');
  });
});

describe('a provider row', () => {
  test("a provider needs only the vendor's name if the vendor has a fixed address", () => {
    expect(load({ vendor: 'groq', api_key: 'k' })).toMatchObject({
      baseUrl: 'https://api.groq.com/openai/v1',
      dialect: 'chat',
      apiKey: 'k',
    });
  });

  test('settings of a provider override the description of its vendor', () => {
    const row = {
      ...{ vendor: 'azure-openai-deployments', base_url: 'https://acme.openai.azure.com/openai' },
      ...{ auth: { header: 'authorization', scheme: 'Bearer' }, serves: ['chat'] },
      ...{ query: { 'api-version': '2025-01-01' }, paths: { '/chat/completions': '/chat' }, model_names: { 'gpt-4o': 'mine' } },
    };
    expect(load(row)).toMatchObject({
      auth: { header: 'authorization', scheme: 'Bearer' },
      serves: ['chat'],
      requests: { query: { 'api-version': '2025-01-01' }, paths: { '/chat/completions': '/chat' }, modelNames: { 'gpt-4o': 'mine' } },
    });
  });

  test('ignores the vendor description if the provider uses a different dialect', () => {
    const row = { vendor: 'openrouter', dialect: 'messages', base_url: 'https://openrouter.ai/api/v1' };
    expect(load(row)).toMatchObject({ auth: { header: 'x-api-key' }, requests: { takesReasoning: 'none' } });
  });

  test.each([
    [{ base_url: 'https://a.test/v1' }, 'dialect: is required'],
    [{ dialect: 'chat' }, 'base_url: is required'],
    [{ vendor: 'azure' }, 'vendor: there is no vendor azure; did you mean azure-openai'],
    [{ vendor: 'acme' }, 'vendor: there is no vendor acme; known ones are openai, anthropic'],
    [{ vendor: 'azure-openai' }, 'base_url: is required for Azure OpenAI, such as https://{resource}.openai.azure.com/openai/v1'],
    [{ vendor: 'azure-openai', base_url: 'https://{resource}.openai.azure.com/openai/v1' }, 'base_url: contains a placeholder in braces'],
    [{ vendor: 'vllm', base_url: 'https://a.test/{model}' }, 'base_url: contains a placeholder in braces'],
    [
      { vendor: 'claude-on-aws', base_url: 'https://aws-external-anthropic.us-east-1.api.aws/v1' },
      'headers: anthropic-workspace-id is required',
    ],
    [{ base_url: 'https://a.test/v1?api-version=1', dialect: 'chat' }, 'parameters such as api-version belong in query'],
    [{ base_url: 'https://a.test/v1', dialect: 'chat', paths: { chat: '/x' } }, 'must be a path of the dialect, such as /chat/completions'],
    [{ base_url: 'https://a.test/v1', dialect: 'chat', paths: { '/embeddings': 'x?y' } }, 'must be a path that begins with /'],
  ])('rejects the provider %j with the error %j', (row, message) => {
    expect(() => load(row)).toThrow(message);
  });
});

describe('cloud identities', () => {
  const mantle = { base_url: 'https://bedrock-mantle.us-east-2.api.aws/v1' };
  const claude = {
    vendor: 'claude-on-aws',
    base_url: 'https://aws-external-anthropic.eu-west-1.api.aws/v1',
    headers: { 'anthropic-workspace-id': 'w' },
  };
  const azure = { base_url: 'https://acme.openai.azure.com/openai/v1' };
  const vertex = { base_url: 'https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi' };

  test.each(knownVendors.filter(({ identity }) => identity).map((vendor) => [vendor.name, vendor] as const))(
    'a cloud identity for %s needs only its type',
    (_name, vendor) => {
      const { identity, apiKey } = load({ ...rowOf(vendor), auth: { type: vendor.identity?.type } });
      expect([identity, apiKey]).toEqual([expect.objectContaining({ ...vendor.identity }), null]);
    },
  );

  test.each([
    [
      { ...mantle, auth: { type: 'aws' } },
      { type: 'aws', region: 'us-east-2', scheme: 'bearer', roleArn: null },
    ],
    [
      { ...claude, auth: { type: 'aws', region: 'us-west-2' } },
      { region: 'us-west-2', scheme: 'sigv4', service: 'aws-external-anthropic' },
    ],
    [
      { ...vertex, auth: { type: 'google' } },
      { scopes: ['https://www.googleapis.com/auth/cloud-platform'], credentialsFile: null },
    ],
    [
      { ...azure, auth: { type: 'azure', client_id: 'c' } },
      { clientId: 'c', scope: 'https://cognitiveservices.azure.com/.default' },
    ],
    [{ ...azure, api_key: 'k', auth: { type: 'key', header: 'X-Key', scheme: 'Bearer' } }, null],
    [{ ...azure, api_key: 'k' }, null],
  ])('reads the cloud identity of %j', (row, expected) => {
    const { identity } = load(row);
    if (expected === null) expect(identity).toBeNull();
    else expect(identity).toMatchObject(expected);
  });

  test.each([
    [{ ...azure, api_key: 'k', auth: { type: 'azure' } }, 'providers.p.api_key: cannot be combined with auth.type: azure'],
    [{ ...azure, auth: { type: 'aws', region: 'us-east-1' } }, 'providers.p.auth.type: Azure OpenAI accepts type: azure or an API key'],
    [{ base_url: 'https://api.openai.com/v1', auth: { type: 'azure' } }, 'providers.p.auth.type: OpenAI accepts only an API key'],
    [{ vendor: 'azure-openai', base_url: 'https://evil.example/v1', auth: { type: 'azure' } }, 'evil.example is not a host of azure'],
    [
      { ...azure, base_url: azure.base_url.replace('https', 'http'), auth: { type: 'azure' } },
      'providers.p.base_url: must begin with https://',
    ],
    [
      { ...claude, base_url: 'https://proxy.example/v1', auth: { type: 'aws', allow_hosts: ['proxy.example'] } },
      'providers.p.auth.region: is required',
    ],
    [{ ...mantle, auth: { type: 'aws', external_id: 'e' } }, 'providers.p.auth.external_id: requires role_arn'],
    [{ ...mantle, auth: { type: 'aws', role_arn: 'role' } }, 'providers.p.auth.role_arn: must look like arn:aws:iam::'],
    [{ ...mantle, auth: { type: 'gcp' } }, 'providers.p.auth.type: must be key, aws, google or azure'],
    [{ ...mantle, auth: { type: 'aws', tenant_id: 't' } }, 'providers.p.auth.tenant_id: there is no such setting'],
  ])('rejects the cloud identity of %j', (row, message) => {
    expect(() => load(row)).toThrow(message);
  });
});
