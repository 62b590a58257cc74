/** Calls providers with cloud identities while their credentials are replaced, expire, or can't be replaced. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AnthropicAws } from '@anthropic-ai/aws-sdk';
import { AnthropicBedrock } from '@anthropic-ai/bedrock-sdk';
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { checkProviders } from '../../src/app/check-providers.ts';
import { loadConfig } from '../../src/config/load.ts';
import { readSignature } from '../support/aws-signature.ts';
import { type CloudIdentities, setVariables, startCloudIdentities, staticKey, xmlError } from '../support/cloud-identities.ts';
import { type CloudVendor, type RecordedRequest, startCloudVendor } from '../support/cloud-vendor.ts';
import { adminToken, shareGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';

let clouds: CloudIdentities;
let vendor: CloudVendor;
let folder: string;
let restoreVariables: () => void;

beforeAll(async () => {
  clouds = await startCloudIdentities();
  clouds.lifetimeMs = 20_000;
  vendor = await startCloudVendor();
  vendor.check = (request) => (accepts(request) ? 200 : 401);
  folder = await mkdtemp(join(tmpdir(), 'cloud-identities-'));
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  await writeFile(
    join(folder, 'google.json'),
    JSON.stringify({
      type: 'service_account',
      private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
      client_email: 'gateway@my-project.iam.gserviceaccount.com',
    }),
  );
  restoreVariables = setVariables({
    AWS_ENDPOINT_URL_STS: clouds.url,
    AWS_ACCESS_KEY_ID: staticKey.accessKeyId,
    AWS_SECRET_ACCESS_KEY: staticKey.secretAccessKey,
    AWS_MAX_ATTEMPTS: '1',
    AZURE_TENANT_ID: '11111111-2222-3333-4444-555555555555',
    AZURE_CLIENT_ID: 'client',
    AZURE_CLIENT_SECRET: 'secret',
    HTTPS_PROXY: clouds.url,
    NO_PROXY: '127.0.0.1',
  });
});
afterAll(async () => {
  restoreVariables();
  await Promise.all([clouds.close(), vendor.close(), rm(folder, { recursive: true })]);
});

/** Identifies the credential of a request, which is an access key of AWS or a token. */
function credentialOf({ headers, ...request }: RecordedRequest): string | null {
  const { authorization = '' } = headers;
  const [, presigned] = /^Bearer bedrock-api-key-(.*)$/.exec(authorization) ?? [];
  if (presigned !== undefined) return /X-Amz-Credential=([^%]+)/.exec(Buffer.from(presigned, 'base64').toString())?.[1] ?? null;
  const signature = readSignature({ ...request, headers, body: request.bytes }, clouds.secretOf);
  if (signature) return signature.isValid ? signature.accessKeyId : null;
  return authorization.replace('Bearer ', '');
}

/** Decides like a vendor whether the credential is valid at this moment. */
function accepts(request: RecordedRequest): boolean {
  const credential = credentialOf(request);
  return credential !== null && (credential === 'backup-key' || clouds.isValid(credential));
}

const aws = { type: 'aws', region: 'eu-west-1', role_arn: 'arn:aws:iam::123456789012:role/gateway', allow_hosts: ['127.0.0.1'] };
const lent = shareGateway({
  database: 'any',
  yaml: () =>
    JSON.stringify({
      providers: {
        bedrock: { vendor: 'bedrock-claude', base_url: vendor.url, auth: { ...aws, scheme: 'sigv4' } },
        'bedrock-chat': { vendor: 'bedrock-openai', base_url: `${vendor.url}/openai/v1`, auth: aws },
        'aws-claude': {
          ...{ vendor: 'claude-on-aws', base_url: `${vendor.url}/v1`, auth: aws },
          headers: { 'anthropic-workspace-id': 'my-workspace' },
        },
        vertex: {
          vendor: 'vertex-claude',
          base_url: `${vendor.url}/v1/projects/p/locations/l/publishers/anthropic`,
          auth: { type: 'google', credentials_file: join(folder, 'google.json'), allow_hosts: ['127.0.0.1'] },
        },
        azure: { vendor: 'azure-openai', base_url: `${vendor.url}/openai/v1`, auth: { type: 'azure', allow_hosts: ['127.0.0.1'] } },
        backup: { dialect: 'chat', base_url: `${vendor.url}/v1`, api_key: 'backup-key' },
      },
      tiers: { standard: ['azure/gpt-4o', 'backup/gpt-4o'] },
    }),
});

const chat = { max_tokens: 10, messages: [{ role: 'user' as const, content: 'Norway?' }] };
const models = [
  'bedrock/claude-haiku-4-5',
  'bedrock-chat/gpt-oss',
  'aws-claude/claude-haiku-4-5',
  'vertex/claude-haiku-4-5',
  'azure/gpt-4o',
];

async function call(model: string, stream = false): Promise<{ readonly status: number; readonly text: string }> {
  const response = await lent().call('/v1/chat/completions', { ...chat, model, stream });
  return { status: response.status, text: await response.text() };
}

function lastRequest(): RecordedRequest {
  const request = vendor.requests.at(-1);
  if (!request) throw new Error('the vendor got no request');
  return request;
}

describe.each(models)('calls to %s', (model) => {
  test.each([false, true])('sends a valid cloud credential to the vendor (stream: %s)', async (stream) => {
    const { status, text } = await call(model, stream);
    expect([status, text]).toEqual([200, expect.stringContaining('Oslo')]);
  });
});

describe('signed requests', () => {
  const model = 'anthropic.claude-haiku-4-5-20251001-v1:0';
  const keys = { awsAccessKey: staticKey.accessKeyId, awsRegion: 'eu-west-1' };
  const sdks: Readonly<Record<string, () => Pick<Anthropic, 'messages'>>> = {
    bedrock: () =>
      new AnthropicBedrock({ ...keys, awsSecretKey: staticKey.secretAccessKey, baseURL: vendor.url }) as unknown as Pick<
        Anthropic,
        'messages'
      >,
    'aws-claude': () =>
      new AnthropicAws({ ...keys, awsSecretAccessKey: staticKey.secretAccessKey, baseURL: vendor.url, workspaceId: 'my-workspace' }),
  };
  const essence = (request: RecordedRequest) => {
    const { method, path, body, headers, bytes } = request;
    const { service, region, isValid } = readSignature({ method, path, headers, body: bytes }, clouds.secretOf) ?? {};
    const named = ['content-type', 'anthropic-version', 'anthropic-workspace-id'].map((name) => [name, headers[name]]);
    // AWS accepts the colon of a model's name in both forms. Its own SDK encodes it too.
    return {
      method,
      path: path.replace('?beta=true', '').replace('%3A', ':'),
      body,
      signature: { service, region, isValid },
      headers: Object.fromEntries(named),
    };
  };

  test.each(Object.keys(sdks).flatMap((name) => [false, true].map((stream) => [name, stream] as const)))(
    'signs requests in the same way as the SDK of %s (stream: %s)',
    async (name, stream) => {
      const request = { ...chat, model, stream };
      await drain(await sdks[name]?.().messages.create(request));
      const expected = essence(lastRequest());
      const gateway = new Anthropic({ baseURL: lent().url, apiKey: lent().key, maxRetries: 0 });
      expect(await drain(await gateway.messages.create({ ...request, model: `${name}/${model}` }))).toContain('Oslo');
      expect(essence(lastRequest())).toEqual(expected);
      expect(expected.signature.isValid).toBe(true);
    },
  );

  test('signs token count requests too', async () => {
    const gateway = new Anthropic({ baseURL: lent().url, apiKey: lent().key, maxRetries: 0 });
    const { input_tokens: counted } = await gateway.messages.countTokens({ model: `aws-claude/${model}`, messages: chat.messages });
    expect([counted, essence(lastRequest()).signature]).toEqual([
      7,
      { service: 'aws-external-anthropic', region: 'eu-west-1', isValid: true },
    ]);
  });
});

test('checks cloud identities with check-config --online', async () => {
  const providers = {
    azure: { vendor: 'azure-openai', base_url: `${vendor.url}/openai/v1`, auth: { type: 'azure', allow_hosts: ['127.0.0.1'] } },
  };
  const config = loadConfig({ env: {}, fileText: JSON.stringify({ providers }), fileName: 'gateway.yaml' });
  expect(await checkProviders(config)).toMatchObject([{ provider: 'azure', works: true }]);
  vendor.check = () => 401;
  expect((await checkProviders(config))[0]?.message).toMatch(
    /^the vendor rejected the credential of the azure identity: check auth, .* The vendor says: refused Bearer \[key\]$/,
  );
  vendor.check = (request) => (accepts(request) ? 200 : 401);
});

test('refreshes cloud credentials under load before they expire, without failing a call', async () => {
  vendor.requests.splice(0);
  const failed: unknown[] = [];
  let isEnough = false;
  const callAll = async (model: string): Promise<void> => {
    for (let turn = 0; !isEnough; turn += 1) {
      const { status, text } = await call(model, turn % 2 === 0);
      if (status !== 200 || !text.includes('Oslo')) failed.push({ model, status, text });
      await sleep(150);
    }
  };
  for (const model of models) await call(model);
  const first = vendor.requests.map((request) => credentialOf(request) ?? 'none');
  const load = models.map(callAll);
  await until('the end of the first credentials', () => !first.some(clouds.isValid));
  vendor.requests.splice(0);
  await until('calls with other credentials', () => vendor.requests.length >= 50);
  isEnough = true;
  await Promise.all(load);
  expect(failed).toEqual([]);
  expect(new Set(first).size).toBe(models.length);
});

test('fails over when a cloud issues no new credentials', async () => {
  const { url } = lent();
  const details = async () => (await fetch(`${url}/readyz`)).text();
  const metrics = async () => (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${adminToken}` } })).text();
  clouds.lifetimeMs = 8_000;
  const issuedBefore = clouds.issued.length;
  await until('the next credentials', () => clouds.issued.length >= issuedBefore + 5);
  clouds.failure = { status: 400, body: xmlError('Throttling', 'Rate exceeded') };
  await until('the details of readyz', async () => (await details()).includes('identity of the provider azure cannot be refreshed'));
  expect(await details()).toContain('its current credential is still valid');
  expect((await call('azure/gpt-4o')).status).toBe(200);

  await until('the end of all credentials', async () => (await details()).split('has no valid credential').length === models.length + 1);
  vendor.requests.splice(0);
  const direct = await call('azure/gpt-4o');
  expect([direct.status, vendor.requests]).toEqual([503, []]);
  const tier = await lent().call('/v1/chat/completions', { ...chat, model: 'standard' });
  expect([tier.status, tier.headers.get('x-gateway-model')]).toEqual([200, 'backup/gpt-4o']);
  expect(vendor.requests.map(credentialOf)).toEqual(['backup-key']);
  const text = await metrics();
  expect(text).toMatch(/gateway_identity_remaining_seconds\{.*provider="azure".*\} 0\n/);
  expect(text).toMatch(/gateway_identity_refresh_failures_total\{.*provider="bedrock".*\} [1-9]/);

  clouds.failure = null;
  await until('recovery', async () => !(await details()).includes('identity'));
  for (const model of models) expect((await call(model)).status).toBe(200);
});

test('keeps credentials out of logs and responses', async () => {
  vendor.check = () => 400;
  const responses = await Promise.all(models.map((model) => call(model)));
  vendor.check = (request) => (accepts(request) ? 200 : 401);
  expect(responses.map(({ status }) => status)).toEqual(models.map(() => 400));
  const output = [...lent().logs, ...responses.map(({ text }) => text)].join('\n');
  const tokens = vendor.requests.flatMap(({ headers }) => /^Bearer (.*)$/.exec(headers.authorization ?? '')?.[1] ?? []);
  const secrets = [...clouds.issued, ...tokens];
  expect(secrets.filter((secret) => output.includes(secret))).toEqual([]);
});

/** Returns the text of a response, or the joined events of a stream. */
async function drain(response: unknown): Promise<string> {
  if (typeof response !== 'object' || response === null || !(Symbol.asyncIterator in response)) return JSON.stringify(response);
  return JSON.stringify(await Array.fromAsync(response as AsyncIterable<unknown>));
}
