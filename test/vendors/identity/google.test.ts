import { generateKeyPairSync, verify } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { GoogleIdentitySettings } from '../../../src/core/cloud-identity.ts';
import type { Credential } from '../../../src/vendors/identity/credential.ts';
import { createGoogleLoader } from '../../../src/vendors/identity/google.ts';
import { type CloudIdentities, startCloudIdentities, withVariables } from '../../support/cloud-identities.ts';
import { closedPort } from '../fake-vendor.ts';

let clouds: CloudIdentities;
let folder: string;
beforeAll(async () => {
  clouds = await startCloudIdentities();
  folder = await mkdtemp(join(tmpdir(), 'google-identity-'));
});
beforeEach(() => {
  clouds.requests.splice(0);
  Object.assign(clouds, { lifetimeMs: 3_600_000, failure: null });
});
afterAll(async () => {
  await clouds.close();
  await rm(folder, { recursive: true });
});

const scope = 'https://www.googleapis.com/auth/cloud-platform';
const settings: GoogleIdentitySettings = { type: 'google', scopes: [scope], credentialsFile: null, impersonate: null };

function load(more: Partial<GoogleIdentitySettings>, variables: Readonly<Record<string, string>> = {}): Promise<Credential> {
  const proxy = { HTTPS_PROXY: clouds.url };
  return withVariables({ ...proxy, ...variables }, createGoogleLoader({ ...settings, ...more }));
}

async function writeCredentials(name: string, content: object): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, JSON.stringify(content));
  return file;
}

const keys = generateKeyPairSync('rsa', { modulusLength: 2048 });
const serviceAccount = {
  type: 'service_account',
  project_id: 'my-project',
  private_key_id: 'key-1',
  private_key: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }),
  client_email: 'gateway@my-project.iam.gserviceaccount.com',
  token_uri: 'https://oauth2.googleapis.com/token',
};

async function tokenOf(credential: Credential): Promise<string | undefined> {
  const request = {
    url: new URL('https://aiplatform.googleapis.com/'),
    method: 'GET' as const,
    headers: { accept: 'application/json' },
    body: null,
  };
  const timeouts = { connectTimeoutMs: 5_000, firstByteTimeoutMs: 5_000, idleTimeoutMs: 5_000 };
  const { headers } = await credential.authorize({ ...request, ...timeouts });
  expect(headers.accept).toBe('application/json');
  return headers.authorization;
}

test('gets a token for a Google service account through a proxy', async () => {
  const credential = await load({ credentialsFile: await writeCredentials('account.json', serviceAccount) });
  const [request] = clouds.requests;
  expect(request).toMatchObject({ host: 'oauth2.googleapis.com', path: '/token' });
  const [head = '', claims = '', signature = ''] = (request?.form.assertion ?? '').split('.');
  expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({ iss: serviceAccount.client_email, scope });
  expect(verify('sha256', Buffer.from(`${head}.${claims}`), keys.publicKey, Buffer.from(signature, 'base64url'))).toBe(true);
  expect(await tokenOf(credential)).toBe(`Bearer ${clouds.issued.at(-1)}`);
  expect(credential.secrets).toEqual([clouds.issued.at(-1)]);
  expect(Math.round(((credential.expiresAtMs ?? 0) - Date.now()) / 60_000)).toBe(60);
});

test("uses Google's application default credentials file without any settings", async () => {
  const file = await writeCredentials('default.json', serviceAccount);
  expect(await tokenOf(await load({}, { GOOGLE_APPLICATION_CREDENTIALS: file }))).toBe(`Bearer ${clouds.issued.at(-1)}`);
});

test("exchanges another provider's token for a Google token (workload identity federation)", async () => {
  const subject = join(folder, 'subject-token');
  await writeFile(subject, 'subject');
  const file = await writeCredentials('federation.json', {
    type: 'external_account',
    audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/provider',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    token_url: 'https://sts.googleapis.com/v1/token',
    credential_source: { file: subject },
  });
  const credential = await load({ credentialsFile: file });
  expect(clouds.requests).toMatchObject([{ host: 'sts.googleapis.com', path: '/v1/token', form: { subject_token: 'subject', scope } }]);
  expect(await tokenOf(credential)).toBe(`Bearer ${clouds.issued.at(-1)}`);
  expect(credential.expiresAtMs).toBeGreaterThan(Date.now() + 3_500_000);
});

test('impersonates another Google service account', async () => {
  const credentialsFile = await writeCredentials('account.json', serviceAccount);
  const credential = await load({ credentialsFile, impersonate: 'other@my-project.iam.gserviceaccount.com' });
  const [own, impersonated] = clouds.requests.slice(-2);
  expect(own).toMatchObject({ path: '/token' });
  expect(impersonated).toMatchObject({
    host: 'iamcredentials.googleapis.com',
    path: '/v1/projects/-/serviceAccounts/other@my-project.iam.gserviceaccount.com:generateAccessToken',
    headers: { authorization: `Bearer ${clouds.issued.at(-2)}` },
  });
  expect(JSON.parse(impersonated?.body ?? '')).toMatchObject({ scope: [scope], lifetime: '3600s' });
  expect(await tokenOf(credential)).toBe(`Bearer ${clouds.issued.at(-1)}`);
  expect(credential.expiresAtMs).toBeGreaterThan(Date.now() + 3_500_000);
});

describe("Google's metadata server", () => {
  const detect = { METADATA_SERVER_DETECTION: 'ping-only', NO_PROXY: '127.0.0.1' };

  test("gets a token from Google's metadata server once it becomes available", async () => {
    const closed = `127.0.0.1:${await closedPort()}`;
    await expect(load({}, { ...detect, GCE_METADATA_HOST: closed })).rejects.toThrow();
    const credential = await load({}, { ...detect, GCE_METADATA_HOST: clouds.url.replace('http://', '') });
    const tokenRequest = clouds.requests.find(({ path }) => path.includes('/token'));
    expect(tokenRequest).toMatchObject({
      path: expect.stringContaining('/service-accounts/default/token'),
      headers: { 'metadata-flavor': 'Google' },
    });
    expect(await tokenOf(credential)).toBe(`Bearer ${clouds.issued.at(-1)}`);
  });
});

test("includes the reason when Google's token endpoint rejects a request", async () => {
  clouds.failure = { status: 400, body: JSON.stringify({ error: 'invalid_grant', error_description: 'Invalid JWT Signature.' }) };
  const credentialsFile = await writeCredentials('account.json', serviceAccount);
  await expect(load({ credentialsFile })).rejects.toThrow('invalid_grant: Invalid JWT Signature.');
});
