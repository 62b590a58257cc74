import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AnthropicAws } from '@anthropic-ai/aws-sdk';
import { AnthropicBedrock } from '@anthropic-ai/bedrock-sdk';
import { getToken } from '@aws/bedrock-token-generator';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { AwsIdentitySettings } from '../../../src/core/cloud-identity.ts';
import { systemClock } from '../../../src/core/time.ts';
import { createAwsLoader } from '../../../src/vendors/identity/aws.ts';
import type { Credential } from '../../../src/vendors/identity/credential.ts';
import { createServerClock } from '../../../src/vendors/identity/server-clock.ts';
import { createSigner, mintBedrockToken } from '../../../src/vendors/identity/sign-request.ts';
import { readSignature } from '../../support/aws-signature.ts';
import { type CloudIdentities, startCloudIdentities, staticKey, withVariables, xmlError } from '../../support/cloud-identities.ts';
import { withVendor } from '../fake-vendor.ts';

let clouds: CloudIdentities;
let folder: string;
beforeAll(async () => {
  clouds = await startCloudIdentities();
  folder = await mkdtemp(join(tmpdir(), 'aws-identity-'));
});
beforeEach(() => {
  clouds.requests.splice(0);
  Object.assign(clouds, { lifetimeMs: 3_600_000, aheadMs: 0, failure: null });
});
afterAll(async () => {
  await clouds.close();
  await rm(folder, { recursive: true });
});

const settings: AwsIdentitySettings = {
  ...{ type: 'aws', region: 'eu-west-1', profile: null, roleArn: null, externalId: null, sessionName: null },
  ...{ scheme: 'sigv4', service: 'bedrock' },
};
const inEnvironment = { AWS_ACCESS_KEY_ID: staticKey.accessKeyId, AWS_SECRET_ACCESS_KEY: staticKey.secretAccessKey };
const role = 'arn:aws:iam::123456789012:role/gateway';

function load(more: Partial<AwsIdentitySettings>, variables: Readonly<Record<string, string>>): Promise<Credential> {
  const all = { AWS_ENDPOINT_URL_STS: clouds.url, ...variables };
  return withVariables(all, createAwsLoader({ ...settings, ...more }, createServerClock(systemClock)));
}

const request = {
  url: { origin: 'https://bedrock-runtime.eu-west-1.amazonaws.com', pathname: '/model/anthropic.claude-v1%3A0/invoke', search: '' },
  method: 'POST' as const,
  headers: { 'content-type': 'application/json', 'user-agent': 'changed-by-proxies' },
  body: Buffer.from('{"max_tokens":1}'),
  ...{ connectTimeoutMs: 5_000, firstByteTimeoutMs: 5_000, idleTimeoutMs: 5_000 },
};

/** Signs the request and checks the signature. */
async function signatureOf(credential: Credential) {
  const signed = await credential.authorize(request);
  const headers = { ...signed.headers, host: new URL(signed.url.origin).host };
  return readSignature({ ...signed, headers, path: signed.url.pathname + signed.url.search, body: request.body }, clouds.secretOf);
}

describe('the AWS credential chain', () => {
  test('takes AWS keys from the environment', async () => {
    const credential = await load({}, inEnvironment);
    expect(credential.expiresAtMs).toBeNull();
    expect(await signatureOf(credential)).toMatchObject({
      accessKeyId: staticKey.accessKeyId,
      region: 'eu-west-1',
      service: 'bedrock',
      isValid: true,
    });
    expect(clouds.requests).toEqual([]);
  });

  test('takes AWS keys from a profile', async () => {
    const file = join(folder, 'credentials');
    await writeFile(file, `[gateway]\naws_access_key_id=${staticKey.accessKeyId}\naws_secret_access_key=${staticKey.secretAccessKey}\n`);
    const credential = await load({ profile: 'gateway' }, { AWS_SHARED_CREDENTIALS_FILE: file, AWS_CONFIG_FILE: file });
    expect(await signatureOf(credential)).toMatchObject({ accessKeyId: staticKey.accessKeyId, isValid: true });
  });

  test('assumes an AWS role with an external id and session name', async () => {
    const credential = await load({ roleArn: role, externalId: 'ext', sessionName: 'gate' }, inEnvironment);
    expect(clouds.requests).toMatchObject([{ form: { Action: 'AssumeRole', RoleArn: role, ExternalId: 'ext', RoleSessionName: 'gate' } }]);
    expect(await signatureOf(credential)).toMatchObject({ accessKeyId: expect.stringMatching(/^ASIA/), isValid: true });
    expect(credential.expiresAtMs).toBeGreaterThan(Date.now() + 3_500_000);
    expect(credential.secrets).toContain(clouds.issued.at(-1));
  });

  test('exchanges the web identity token of a Kubernetes service account (IRSA)', async () => {
    const file = join(folder, 'token');
    await writeFile(file, 'kubernetes-token');
    const credential = await load({ sessionName: 'pod' }, { AWS_ROLE_ARN: role, AWS_WEB_IDENTITY_TOKEN_FILE: file });
    expect(clouds.requests).toMatchObject([
      { form: { Action: 'AssumeRoleWithWebIdentity', RoleArn: role, WebIdentityToken: 'kubernetes-token', RoleSessionName: 'pod' } },
    ]);
    expect(await signatureOf(credential)).toMatchObject({ isValid: true });
  });

  test('gets credentials from the container agent (ECS, EKS Pod Identity)', async () => {
    const variables = {
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${clouds.url}/ecs-credentials`,
      AWS_CONTAINER_AUTHORIZATION_TOKEN: 'ecs-token',
    };
    expect(await signatureOf(await load({}, variables))).toMatchObject({ accessKeyId: expect.stringMatching(/^ASIA/), isValid: true });
  });

  test('gets credentials from the instance metadata service', async () => {
    const credential = await load({}, { AWS_EC2_METADATA_DISABLED: 'false', AWS_EC2_METADATA_SERVICE_ENDPOINT: clouds.url });
    expect(clouds.requests.map(({ method, path }) => `${method} ${path}`)).toContain('PUT /latest/api/token');
    expect(await signatureOf(credential)).toMatchObject({ accessKeyId: expect.stringMatching(/^ASIA/), isValid: true });
  });

  test("signs with the time of AWS STS if the machine's clock is wrong", async () => {
    clouds.aheadMs = 3_600_000;
    const signature = await signatureOf(await load({ roleArn: role }, inEnvironment));
    expect(Math.abs((signature?.signedAtMs ?? 0) - Date.now() - clouds.aheadMs)).toBeLessThan(60_000);
  });

  test('fails if AWS STS rejects the request', async () => {
    clouds.failure = { status: 403, body: xmlError('AccessDenied', 'not authorized to perform sts:AssumeRole') };
    await expect(load({ roleArn: role }, inEnvironment)).rejects.toThrow('not authorized to perform sts:AssumeRole');
  });

  test('connects to AWS STS through a proxy', async () => {
    const variables = { ...inEnvironment, AWS_ENDPOINT_URL_STS: 'https://sts.googleapis.com', HTTPS_PROXY: clouds.url };
    expect(await signatureOf(await load({ roleArn: role }, variables))).toMatchObject({ isValid: true });
  });
});

describe('Bedrock bearer tokens', () => {
  const credentials = { ...staticKey, sessionToken: 'session/+=' };

  test("creates the same bearer tokens as AWS's own generator", async () => {
    const expected = await getToken({ credentials, region: 'eu-west-1', expiresInSeconds: 43_200 });
    const address = Buffer.from(expected.replace('bedrock-api-key-', ''), 'base64').toString();
    const [, date = ''] = /X-Amz-Date=(\w+)/.exec(address) ?? [];
    const signer = await createSigner({ credentials, region: 'eu-west-1', service: 'bedrock' });
    const signedAt = new Date(date.replace(/(....)(..)(..)T(..)(..)(..)Z/, '$1-$2-$3T$4:$5:$6Z'));
    expect(await mintBedrockToken(signer, 43_200, signedAt)).toBe(expected);
  });

  test('lets bearer tokens expire with the credentials that they are derived from', async () => {
    clouds.lifetimeMs = 900_000;
    const credential = await load({ scheme: 'bearer', roleArn: role }, inEnvironment);
    expect(credential.expiresAtMs).toBeLessThan(Date.now() + 900_000);
    const { headers } = await credential.authorize(request);
    expect(headers.authorization).toMatch(/^Bearer bedrock-api-key-/);
    expect(credential.secrets).toContain(headers.authorization?.replace('Bearer ', ''));
  });

  test("creates bearer tokens for twelve hours if the credentials don't expire", async () => {
    const { expiresAtMs } = await load({ scheme: 'bearer' }, inEnvironment);
    expect(Math.round(((expiresAtMs ?? 0) - Date.now()) / 60_000)).toBe(720);
  });
});

describe('how these tests check AWS signatures', () => {
  const keys = { awsAccessKey: staticKey.accessKeyId, awsRegion: 'eu-west-1' };
  const sdks = {
    bedrock: (baseURL: string) => new AnthropicBedrock({ ...keys, awsSecretKey: staticKey.secretAccessKey, baseURL }),
    'aws-external-anthropic': (baseURL: string) =>
      new AnthropicAws({ ...keys, awsSecretAccessKey: staticKey.secretAccessKey, baseURL, workspaceId: 'w' }),
  };

  test.each(Object.entries(sdks))("accepts the signature of Anthropic's SDK for %s", async (service, createSdk) => {
    await withVendor(
      (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'),
      async ({ url, received }) => {
        const body = { model: 'anthropic.claude-v1:0', max_tokens: 1, messages: [] };
        await withVariables({}, async () => createSdk(url).messages.create(body));
        const [sent] = received;
        if (!sent) throw new Error('the SDK sent nothing');
        const signature = readSignature({ ...sent, body: Buffer.from(sent.body) }, clouds.secretOf);
        expect(signature).toMatchObject({ isValid: true, region: 'eu-west-1', service });
        expect(readSignature({ ...sent, body: Buffer.from('changed') }, clouds.secretOf)).toMatchObject({ isValid: false });
      },
    );
  });
});
