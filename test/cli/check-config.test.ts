import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { checkConfig } from '../../src/cli/check-config-command.ts';
import { ConfigError } from '../../src/config/config.ts';

const folder = mkdtempSync(join(tmpdir(), 'gateway-check-'));
afterAll(() => rmSync(folder, { recursive: true }));

const yaml = `providers:
  one: { base_url: "http://169.254.169.254/v1", api_key: "\${VENDOR_KEY}", dialect: chat }
tiers:
  standard: [one/unpriced]
`;

const secrets = { VENDOR_KEY: 'key-of-the-vendor', GATEWAY_ADMIN_TOKEN: 'token-of-the-admin' };
const database = 'postgres://gateway:password-of-gateway@db.example.com:5433/calls';

function check(fileText: string, env: Record<string, string>, ...args: string[]) {
  const file = join(folder, 'gateway.yaml');
  writeFileSync(file, fileText);
  const written: string[] = [];
  const warned: string[] = [];
  const output = { write: (text: string) => void written.push(text), writeError: (text: string) => void warned.push(text) };
  const run = () => {
    try {
      return { status: checkConfig(args, { GATEWAY_CONFIG: file, ...env }, output), errors: [] };
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      return { status: 1, errors: error.errors };
    }
  };
  return { ...run(), written: written.join(''), warned };
}

test('a valid configuration: a summary without secrets, warnings, and exit status 0', () => {
  const { status, written, warned } = check(yaml, { ...secrets, DATABASE_URL: database, GATEWAY_TEMPORAL: 'off' });
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

test('every mistake is reported, of the environment and of the file', () => {
  const { status, written, errors } = check(`${yaml}colour: red\n`, { PORT: 'x', DATABASE_URL: database }, 'serve');
  expect([status, written]).toEqual([1, '']);
  expect(errors.map((error) => error.replace(/^\S+gateway\.yaml/, 'gateway.yaml'))).toEqual([
    'TEMPORAL_ADDRESS: gateway serve needs it; without durable work set GATEWAY_TEMPORAL=off',
    'PORT: must be a whole number from 0 to 65535',
    'gateway.yaml:2 providers.one.api_key: the environment variable VENDOR_KEY is not set',
    'gateway.yaml:5 colour: there is no such setting',
    expect.stringContaining('GATEWAY_ADMIN_TOKEN: gateway serve needs it'),
  ]);
});

test('a certificate that cannot be read, and an unknown command, are mistakes', () => {
  const tls = { TEMPORAL_ADDRESS: 'temporal:7233', TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(folder, 'none.pem') };
  expect(check(yaml, { ...secrets, ...tls }).errors).toEqual([expect.stringContaining('none.pem: cannot be read')]);
  expect(check(yaml, {}, 'run').errors).toEqual(['"run": gateway check-config checks one of start, serve, worker, migrate']);
});

test('without a file and a database it checks start', () => {
  const { status, written } = check('', {});
  expect([status, written]).toEqual([0, expect.stringMatching(/for gateway start\.\n[\s\S]*providers +demo vendor/)]);
});
