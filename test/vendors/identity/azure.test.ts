import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { AzureIdentitySettings } from '../../../src/core/cloud-identity.ts';
import { createAzureLoader } from '../../../src/vendors/identity/azure.ts';
import type { Credential } from '../../../src/vendors/identity/credential.ts';
import { createCertificate } from '../../support/certificate.ts';
import { type CloudIdentities, startCloudIdentities, withVariables } from '../../support/cloud-identities.ts';

let clouds: CloudIdentities;
let folder: string;
beforeAll(async () => {
  clouds = await startCloudIdentities();
  folder = await mkdtemp(join(tmpdir(), 'azure-identity-'));
});
beforeEach(() => {
  clouds.requests.splice(0);
  clouds.failure = null;
});
afterAll(async () => {
  await clouds.close();
  await rm(folder, { recursive: true });
});

const scope = 'https://cognitiveservices.azure.com/.default';
const settings: AzureIdentitySettings = { type: 'azure', tenantId: null, clientId: null, scope };
const tenant = '11111111-2222-3333-4444-555555555555';
const application = { AZURE_TENANT_ID: tenant, AZURE_CLIENT_ID: 'client' };

function load(more: Partial<AzureIdentitySettings>, variables: Readonly<Record<string, string>>): Promise<Credential> {
  return withVariables({ HTTPS_PROXY: clouds.url, NO_PROXY: '127.0.0.1', ...variables }, createAzureLoader({ ...settings, ...more }));
}

async function tokenOf(credential: Credential): Promise<string | undefined> {
  const request = { url: new URL('https://my.openai.azure.com/'), method: 'GET' as const, headers: {}, body: null };
  const { headers } = await credential.authorize({ ...request, connectTimeoutMs: 1, firstByteTimeoutMs: 1, idleTimeoutMs: 1 });
  return headers.authorization;
}

function tokenRequest() {
  return clouds.requests.find(({ path }) => path.includes('/token'));
}

test('signs in to Azure as an application with a secret', async () => {
  const credential = await load({}, { ...application, AZURE_CLIENT_SECRET: 'secret' });
  expect(tokenRequest()).toMatchObject({
    host: 'login.microsoftonline.com',
    path: expect.stringContaining(`/${tenant}/oauth2/v2.0/token`),
    form: expect.objectContaining({ client_id: 'client', client_secret: 'secret', scope: expect.stringContaining(scope) }),
  });
  expect(await tokenOf(credential)).toBe(`Bearer ${clouds.issued.at(-1)}`);
  expect(credential.secrets).toEqual([clouds.issued.at(-1)]);
  expect(Math.round(((credential.expiresAtMs ?? 0) - Date.now()) / 60_000)).toBe(60);
});

test('prefers Azure settings in gateway.yaml to environment variables', async () => {
  const other = '99999999-2222-3333-4444-555555555555';
  await load({ tenantId: other, clientId: 'other' }, { ...application, AZURE_CLIENT_SECRET: 'secret' });
  expect(tokenRequest()).toMatchObject({
    path: expect.stringContaining(`/${other}/`),
    form: expect.objectContaining({ client_id: 'other' }),
  });
});

test('signs in to Azure as an application with a certificate', async () => {
  const { cert, key } = createCertificate(['client']);
  const file = join(folder, 'certificate.pem');
  await writeFile(file, `${key}${cert}`);
  const credential = await load({}, { ...application, AZURE_CLIENT_CERTIFICATE_PATH: file });
  expect(tokenRequest()?.form).toMatchObject({ client_assertion: expect.stringMatching(/^\S+\.\S+\.\S+$/) });
  expect(await tokenOf(credential)).toBe(`Bearer ${clouds.issued.at(-1)}`);
});

test("exchanges a pod's Kubernetes token for an Azure token (workload identity)", async () => {
  const file = join(folder, 'kubernetes-token');
  await writeFile(file, 'kubernetes-token');
  const credential = await load({}, { ...application, AZURE_FEDERATED_TOKEN_FILE: file });
  expect(tokenRequest()?.form).toMatchObject({ client_assertion: 'kubernetes-token' });
  expect(await tokenOf(credential)).toBe(`Bearer ${clouds.issued.at(-1)}`);
});

test("gets a token from Azure's metadata service (managed identity)", async () => {
  const credential = await load({ clientId: 'user-assigned' }, { AZURE_POD_IDENTITY_AUTHORITY_HOST: clouds.url });
  const request = tokenRequest();
  expect(request).toMatchObject({ headers: { metadata: 'true' } });
  expect(request?.path).toContain(`resource=${encodeURIComponent('https://cognitiveservices.azure.com')}`);
  expect(request?.path).toContain('client_id=user-assigned');
  expect(await tokenOf(credential)).toBe(`Bearer ${clouds.issued.at(-1)}`);
});

test('includes the reason when Entra ID rejects a request', async () => {
  clouds.failure = {
    status: 401,
    body: JSON.stringify({ error: 'invalid_client', error_description: 'AADSTS7000215: Invalid client secret provided.' }),
  };
  await expect(load({}, { ...application, AZURE_CLIENT_SECRET: 'wrong' })).rejects.toThrow('AADSTS7000215');
});
