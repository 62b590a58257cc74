import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { checkProviders } from '../../src/app/check-providers.ts';
import { checkConfig } from '../../src/cli/check-config-command.ts';
import { ConfigError } from '../../src/config/config.ts';
import { type Responder, withVendor } from '../vendors/fake-vendor.ts';

const folder = mkdtempSync(join(tmpdir(), 'gateway-check-'));
afterAll(() => rmSync(folder, { recursive: true }));

const yaml = `providers:
  one: { base_url: "http://169.254.169.254/v1", api_key: "\${VENDOR_KEY}", dialect: chat }
tiers:
  standard: [one/unpriced]
`;

const secrets = { VENDOR_KEY: 'key-of-the-vendor', GATEWAY_ADMIN_TOKEN: 'token-of-the-admin' };
const database = 'postgres://gateway:password-of-gateway@db.example.com:5433/calls';

async function check(fileText: string, env: Record<string, string>, ...args: string[]) {
  const file = join(folder, 'gateway.yaml');
  writeFileSync(file, fileText);
  const written: string[] = [];
  const warned: string[] = [];
  const output = { write: (text: string) => void written.push(text), writeError: (text: string) => void warned.push(text) };
  const run = async () => {
    try {
      return { status: await checkConfig(args, { GATEWAY_CONFIG: file, ...env }, output, checkProviders), errors: [] };
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      return { status: 1, errors: error.errors };
    }
  };
  return { ...(await run()), written: written.join(''), warned };
}

test('check-config prints a summary of a valid configuration without secrets', async () => {
  const { status, written, warned } = await check(yaml, { ...secrets, DATABASE_URL: database, GATEWAY_TEMPORAL: 'off' });
  expect([status, written]).toEqual([0, expect.stringMatching(/^The configuration is valid for gateway serve\.\n\n/)]);
  expect(Object.fromEntries(written.split('\n').flatMap((line) => [line.split(/ {2,}/)]))).toMatchObject({
    database: 'db.example.com:5433/calls',
    temporal: 'off',
    providers: 'one',
    tiers: 'standard',
    'admin token': 'configured',
  });
  expect(warned).toEqual([
    expect.stringMatching(/^warning: \S+gateway\.yaml:2 providers\.one\.base_url: is a link-local address/),
    expect.stringMatching(/^warning: \S+gateway\.yaml:4 tiers\.standard\.0: one\/unpriced has no price/),
  ]);
  for (const secret of [...Object.values(secrets), 'password-of-gateway']) expect(written + warned.join()).not.toContain(secret);
});

test('reports all mistakes in environment variables and gateway.yaml', async () => {
  const { status, written, errors } = await check(`${yaml}colour: red\n`, { PORT: 'x', DATABASE_URL: database }, 'serve');
  expect([status, written]).toEqual([1, '']);
  expect(errors.map((error) => error.replace(/^\S+gateway\.yaml/, 'gateway.yaml'))).toEqual([
    'TEMPORAL_ADDRESS: is required for gateway serve; to run without durable work, set GATEWAY_TEMPORAL=off',
    'PORT: must be a whole number from 0 to 65535',
    'gateway.yaml:2 providers.one.api_key: the environment variable VENDOR_KEY is not set',
    'gateway.yaml:5 colour: there is no such setting',
    expect.stringContaining('GATEWAY_ADMIN_TOKEN: is required for gateway serve'),
  ]);
});

test("reports a certificate file that can't be read", async () => {
  const tls = { TEMPORAL_ADDRESS: 'temporal:7233', TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(folder, 'none.pem') };
  expect((await check(yaml, { ...secrets, ...tls })).errors).toEqual([expect.stringContaining('none.pem: cannot be read')]);
  expect((await check(yaml, {}, 'run')).errors).toEqual([
    '"run" is not a command that gateway check-config can check; use one of start, serve, worker, migrate',
  ]);
});

test('checks the configuration of `gateway start` without gateway.yaml or a database', async () => {
  const { status, written } = await check('', {});
  expect([status, written]).toEqual([0, expect.stringMatching(/for gateway start\.\n[\s\S]*providers +demo vendor/)]);
});

describe('check-config --online', () => {
  const models = JSON.stringify({ data: [{ id: 'small' }, { id: 'large' }] });
  const invalid = JSON.stringify({ error: { message: 'invalid key key-of-the-vendor' } });

  test.each<[string, Responder, number, string]>([
    ['lists its models', (response) => response.end(models), 0, 'works  the vendor accepted the API key and lists 2 models'],
    [
      'does not list a model of a tier',
      (response) => response.end(JSON.stringify({ data: [{ id: 'other' }] })),
      ...[1, "fails  the vendor accepted the API key, but doesn't list small; check the names of your models and model_names"],
    ],
    [
      'rejects the key',
      (response) => response.writeHead(401).end(invalid),
      1,
      'the vendor rejected the API key: check api_key and auth. The vendor says: invalid key [key]',
    ],
    ['gives no permission', (response) => response.writeHead(403).end('{}'), 1, 'the credential is valid but lacks permission'],
    [
      'has no list of models',
      (response, { method }) => response.writeHead(method === 'GET' ? 404 : 400).end('{}'),
      ...[0, 'works  the vendor accepted the API key'],
    ],
    ['has nothing at this address', (response) => response.writeHead(404).end('{}'), 1, 'check that base_url includes the version prefix'],
    ['fails', (response) => response.writeHead(503).end('down'), 1, 'the vendor failed with status 503: try again later'],
    ['closes the connection', (response) => response.destroy(), 1, 'check base_url, proxy and the network'],
  ] as [string, Responder, number, string][])('check-config --online reports a vendor that %s', async (_name, respond, status, message) => {
    await withVendor(respond, async ({ url, received }) => {
      const provider = { base_url: `${url}/v1`, dialect: 'chat', api_key: secrets.VENDOR_KEY };
      const file = JSON.stringify({ providers: { one: provider }, tiers: { standard: ['one/small'] } });
      const result = await check(file, { ...secrets, GATEWAY_TEMPORAL: 'off' }, '--online');
      expect([result.errors, result.status]).toEqual([[], status]);
      expect(result.written).toContain(message);
      expect(result.written).not.toContain(secrets.VENDOR_KEY);
      for (const { headers } of received) expect(headers.authorization).toBe(`Bearer ${secrets.VENDOR_KEY}`);
    });
  });

  test("doesn't look for Azure deployment names in the list of Azure models", async () => {
    const respond: Responder = (response, { method }) =>
      method === 'GET' ? response.end(models) : response.writeHead(400).end(JSON.stringify({ error: { message: 'messages is required' } }));
    await withVendor(respond, async ({ url, received }) => {
      const azure = {
        vendor: 'azure-openai',
        base_url: `${url}/openai/v1`,
        api_key: 'key-of-azure',
        model_names: { small: 'my-deployment' },
      };
      const canaries = { standard: { model: 'azure/next', share: 0.05 } };
      const file = JSON.stringify({ providers: { azure }, tiers: { standard: ['azure/small'] }, canaries });
      const { status, written } = await check(file, { ...secrets, GATEWAY_TEMPORAL: 'off' }, '--online');
      expect([status, written]).toEqual([0, expect.stringMatching(/azure +works +the vendor accepted the API key/)]);
      expect(received.map(({ method, path }) => `${method} ${path}`)).toEqual([
        'GET /openai/v1/models',
        'POST /openai/v1/chat/completions',
      ]);
    });
  });

  test('checks each member of a provider pool with its own key', async () => {
    const respond: Responder = (response, { headers }) =>
      headers.authorization === 'Bearer key-of-east' ? response.end(models) : response.writeHead(401).end(invalid);
    await withVendor(respond, async ({ url }) => {
      const members = [
        { name: 'east', api_key: 'key-of-east' },
        { name: 'west', api_key: 'key-of-west' },
      ];
      const pool = { base_url: `${url}/v1`, dialect: 'chat', members };
      const file = JSON.stringify({ providers: { pool }, tiers: { standard: ['pool/small'] } });
      const { status, written } = await check(file, { ...secrets, GATEWAY_TEMPORAL: 'off' }, '--online');
      expect(status).toBe(1);
      expect(written).toMatch(/pool\/east +works +the vendor accepted the API key/);
      expect(written).toMatch(/pool\/west +fails +the vendor rejected the API key/);
    });
  });
});
