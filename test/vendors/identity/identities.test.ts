import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { isCloudHost } from '../../../src/config/vendors/cloud-hosts.ts';
import type { AwsIdentitySettings } from '../../../src/core/cloud-identity.ts';
import { metadataHosts } from '../../../src/core/internal-hosts.ts';
import { systemClock } from '../../../src/core/time.ts';
import { sendAuthorized } from '../../../src/vendors/identity/credential.ts';
import { describeIdentityError } from '../../../src/vendors/identity/describe-identity-error.ts';
import { createIdentities, type Identities } from '../../../src/vendors/identity/identities.ts';
import { exceptMetadataHosts } from '../../../src/vendors/identity/metadata-hosts.ts';
import { secretsOf } from '../../../src/vendors/strip-secrets.ts';
import { type CloudIdentities, startCloudIdentities, staticKey, withVariables, xmlError } from '../../support/cloud-identities.ts';
import { until } from '../../support/until.ts';
import { withVendor } from '../fake-vendor.ts';

let clouds: CloudIdentities;
let identities: Identities;
let logs: { readonly fields: object; readonly message: string }[];
beforeAll(async () => {
  clouds = await startCloudIdentities();
});
beforeEach(() => {
  clouds.requests.splice(0);
  Object.assign(clouds, { lifetimeMs: 3_600_000, aheadMs: 0, failure: null });
  logs = [];
  const log = (fields: object, message: string): void => void logs.push({ fields, message });
  identities = createIdentities({ clock: systemClock, logger: { warn: log, info: log } });
});
afterEach(() => identities.close());
afterAll(() => clouds.close());

const role: AwsIdentitySettings = {
  ...{ type: 'aws', region: 'eu-west-1', profile: null, externalId: null, sessionName: null },
  ...{ roleArn: 'arn:aws:iam::123456789012:role/gateway', scheme: 'bearer', service: 'bedrock' },
};
const inAws = <Result>(work: () => Promise<Result>): Promise<Result> =>
  withVariables(
    {
      AWS_ENDPOINT_URL_STS: clouds.url,
      AWS_ACCESS_KEY_ID: staticKey.accessKeyId,
      AWS_SECRET_ACCESS_KEY: staticKey.secretAccessKey,
      AWS_MAX_ATTEMPTS: '1',
    },
    work,
  );

describe('providers with the same settings', () => {
  test('shares one identity between providers with the same settings, even after a reload', () =>
    inAws(async () => {
      const sources = ['one', 'two'].map((name) => ({ name, identity: { ...role } }));
      identities.replace([...sources, { name: 'three', identity: null }]);
      await identities.firstAttempts(10_000);
      const before = identities.find('one');
      expect([identities.find('two') === before, identities.find('three')]).toEqual([true, null]);

      identities.replace([{ name: 'one', identity: { ...role } }]);
      expect(identities.find('one')).toBe(before);
      expect(identities.find('two')).toBeNull();
      expect(clouds.requests).toHaveLength(1);
      expect(identities.states()).toMatchObject([{ provider: 'one', type: 'aws', isValid: true, failures: 0 }]);
    }));

  test('creates a new identity when the settings change', () =>
    inAws(async () => {
      clouds.lifetimeMs = 3_000;
      identities.replace([{ name: 'one', identity: role }]);
      await identities.firstAttempts(10_000);
      const other = 'arn:aws:iam::123456789012:role/other';
      identities.replace([{ name: 'one', identity: { ...role, roleArn: other } }]);
      await identities.firstAttempts(10_000);
      await until('a refresh', () => clouds.requests.length > 3);
      expect(clouds.requests.slice(1).map(({ form }) => form.RoleArn)).not.toContain(role.roleArn);
    }));
});

test('loads the credentials of a new identity while the current one is in use', () =>
  inAws(async () => {
    identities.replace([{ name: 'one', identity: role }]);
    const before = identities.find('one');
    const next = [{ name: 'one', identity: { ...role, roleArn: 'arn:aws:iam::123456789012:role/other' } }];
    await identities.prepare(next, 10_000);
    await before?.authorize({
      ...{ url: new URL('https://bedrock.eu-west-1.amazonaws.com'), method: 'GET', headers: {}, body: null },
      ...{ connectTimeoutMs: 1, firstByteTimeoutMs: 1, idleTimeoutMs: 1 },
    });
    identities.replace(next);
    expect(identities.states()).toMatchObject([{ provider: 'one', isValid: true }]);
    expect(identities.prepare(next, 10_000)).toBeNull();
  }));

test('logs only once that an identity fails, without secrets', () =>
  inAws(async () => {
    clouds.lifetimeMs = 4_000;
    identities.replace([{ name: 'one', identity: role }]);
    await identities.firstAttempts(10_000);
    clouds.failure = { status: 400, body: xmlError('Throttling', `Rate exceeded for ${'A'.repeat(60)}`) };
    await until('a second line', () => logs.length === 2);
    clouds.failure = null;
    await until('a third line', () => logs.length === 3);
    const fields = { providers: ['one'], identity: 'aws' };
    expect(logs).toMatchObject([
      {
        fields: { ...fields, problem: 'Throttling: Rate exceeded for [token]' },
        message: 'failed to refresh the cloud identity; retrying',
      },
      { fields, message: 'cloud identity has no valid credential; calls fail over' },
      { fields, message: 'cloud identity refresh recovered' },
    ]);
  }));

test("signs requests with the vendor's time after a rejection for clock skew", () =>
  inAws(() =>
    withVendor(
      (response) => response.writeHead(403, { date: new Date(Date.now() + 3_600_000).toUTCString() }).end(),
      async ({ url, httpClient, received }) => {
        const settings = { ...role, roleArn: null, scheme: 'sigv4' as const };
        identities.replace([{ name: 'one', identity: settings }]);
        await identities.firstAttempts(10_000);
        const identity = identities.find('one');
        const request = { url: new URL(url), method: 'POST' as const, headers: {}, body: Buffer.from('{}') };
        const timeouts = { connectTimeoutMs: 5_000, firstByteTimeoutMs: 5_000, idleTimeoutMs: 5_000 };
        for (let call = 0; call < 2; call += 1) await sendAuthorized(httpClient, { identity }, { ...request, ...timeouts });
        const [first = '', second = ''] = received.map(({ headers }) => String(headers['x-amz-date']));
        const hours = (stamp: string): number =>
          Date.parse(stamp.replace(/(....)(..)(..)T(..)(..)(..)Z/, '$1-$2-$3T$4:$5:$6Z')) / 3_600_000;
        expect(Math.round(hours(second) - hours(first))).toBe(1);
      },
    ),
  ));

test("removes current and previous credentials from a provider's messages", () =>
  inAws(async () => {
    clouds.lifetimeMs = 3_000;
    identities.replace([{ name: 'one', identity: { ...role, scheme: 'sigv4' } }]);
    await identities.firstAttempts(10_000);
    const first = clouds.issued.at(-1);
    // The second credential isn't replaced during the test.
    clouds.lifetimeMs = 3_600_000;
    const secrets = (): readonly string[] => secretsOf({ secrets: ['fixed'], identity: identities.find('one') });
    await until('the second credential', () => clouds.issued.at(-1) !== first && secrets().includes(clouds.issued.at(-1) ?? ''));
    expect(secrets()).toEqual(expect.arrayContaining(['fixed', first]));
  }));

test('never sends metadata requests through a proxy', () => {
  const env: NodeJS.ProcessEnv = { NO_PROXY: 'internal.test', no_proxy: '10.0.0.0/8 internal.test' };
  exceptMetadataHosts(env);
  exceptMetadataHosts(env);
  const expected = ['internal.test', '10.0.0.0/8', ...metadataHosts, 'metadata.google.internal.'].join(',');
  expect(env).toEqual({ NO_PROXY: expected, no_proxy: expected });
  const everything: NodeJS.ProcessEnv = { NO_PROXY: '*' };
  exceptMetadataHosts(everything);
  expect(everything).toEqual({ NO_PROXY: '*' });
});

describe('error descriptions', () => {
  test.each([
    [new SyntaxError('Unexpected token in {"private_key": "abc"'), 'a file or a response is not valid JSON'],
    [new Error('Command failed: /bin/cred --secret abc'), 'the credential_process of the AWS profile failed'],
    [new Error(`bad assertion eyJhbGciOi${'J9.'.repeat(20)}`), 'bad assertion [token]'],
    [new Error('-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----'), '[key]'],
    [Object.assign(new Error('Access denied'), { name: 'AccessDenied' }), 'AccessDenied: Access denied'],
    [new Error('no managed identity. Headers: {"server": "x"} Body: {}'), 'no managed identity.'],
    [new Error('', { cause: Object.assign(new Error(''), { code: 'ECONNREFUSED' }) }), 'ECONNREFUSED'],
    [Object.assign(new Error(''), { response: { status: 407 } }), 'the response has status 407'],
  ])('hides possible secrets in error descriptions (%#)', (error, text) => {
    expect(describeIdentityError(error)).toBe(text);
  });
});

test.each([
  ['aws', 'bedrock-runtime.eu-west-1.amazonaws.com', true],
  ['aws', 'bedrock-mantle.us-east-1.api.aws', true],
  ['aws', 'vpce-0a1b-2c3d.bedrock-runtime.eu-west-1.vpce.amazonaws.com', true],
  ['aws', 'aws-external-anthropic.us-east-1.api.aws', true],
  ['aws', 'bedrock-runtime-fips.us-gov-west-1.amazonaws.com', true],
  ['aws', 'bedrock-runtime.cn-north-1.amazonaws.com.cn', true],
  ['aws', 'bedrock-bucket.s3.amazonaws.com', false],
  ['aws', 'x.execute-api.eu-west-1.amazonaws.com', false],
  ['aws', 'bedrock.eu-west-1.elb.amazonaws.com', false],
  ['aws', 'bedrock-runtime.eu-west-1.amazonaws.com.evil.example', false],
  ['aws', 'amazonaws.com.evil.example', false],
  ['aws', 'evilamazonaws.com', false],
  ['google', 'europe-west1-aiplatform.googleapis.com', true],
  ['google', 'my.openai.azure.com', false],
  ['azure', 'my.openai.azure.us', true],
  ['azure', 'my.services.ai.azure.com', true],
  ['azure', 'my.azure-api.net', false],
  ['azure', 'my.westeurope.inference.ml.azure.com', false],
  ['azure', 'my.blob.core.windows.net', false],
  ['azure', 'api.openai.com', false],
] as const)('decides whether credentials of %s may be sent to %s: %s', (type, host, expected) => {
  expect(isCloudHost(type, host)).toBe(expected);
});
