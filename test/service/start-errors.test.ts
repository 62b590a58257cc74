/** Tests which errors the service prints if it can't start. */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Role } from '../../src/app/app.ts';
import { withFaultProxy } from '../support/fault-proxy.ts';
import { eventually } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess, root, shortLived } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres, runAsAdmin } from '../support/postgres.ts';
import { errorLinesOf } from '../support/run-service.ts';
import { unusedPort } from '../support/unused-port.ts';

const processes = createProcesses();
afterAll(() => processes.stopAll());

/** Expects that the process printed one line with the error and exited with 1. */
async function expectComplaint(gateway: GatewayProcess, complaint: RegExp): Promise<void> {
  expect({ ended: await gateway.exited, said: gateway.stderr().trimEnd().split('\n'), listens: gateway.url }).toEqual({
    ended: 1,
    said: [expect.stringMatching(complaint)],
    listens: '',
  });
}

describe('errors when the gateway starts', () => {
  let home = '';
  beforeAll(async () => {
    home = await processes.home('empty');
    await writeFile(join(home, 'file'), '');
    await writeFile(join(home, 'gateway.yaml'), '');
    await mkdir(join(home, 'closed'), { mode: 0 });
    await mkdir(join(home, 'not-mine', 'db'), { recursive: true });
    await chmod(join(home, 'not-mine', 'db'), 0);
  });

  /** Root ignores file permissions unless it drops its privileges. */
  const asUser: readonly string[] = process.getuid?.() === 0 ? ['setpriv', '--inh-caps=-all', '--bounding-set=-all'] : [];
  const main = join(root, 'src', 'main.ts');

  it.each<[string, Record<string, string>, RegExp]>([
    ['a data directory without read permission', { GATEWAY_DATA_DIR: 'closed' }, /^gateway: cannot use the data directory \S+\/closed: /],
    ['an unreadable database folder', { GATEWAY_DATA_DIR: 'not-mine' }, /^gateway: cannot write to the data directory \S+\/not-mine\/db: /],
  ])('prints one line and exits with 1 for %s', async (_title, env, complaint) => {
    const program = [...asUser, process.execPath, ...shortLived, main, 'start'];
    await expectComplaint(await processes.start('start', { home, env, program }), complaint);
  });

  it.each<[string, Role, Record<string, string>, RegExp]>([
    [
      'a data directory that is a file',
      'start',
      { GATEWAY_DATA_DIR: 'file' },
      /^cannot use the data directory \S+\/file: it is not a directory$/,
    ],
    [
      'a data directory that nobody can create',
      'start',
      { GATEWAY_DATA_DIR: '/proc/x/data' },
      /^cannot use the data directory \/proc\/x\/data: ENOENT/,
    ],
    ['a data directory below a file', 'start', { GATEWAY_DATA_DIR: 'file/data' }, /^cannot use the data directory \S+\/file\/data: /],
    ['a missing configuration file', 'start', { GATEWAY_CONFIG: 'nowhere.yaml' }, /^\S*nowhere\.yaml: cannot be read: /],
    ['serve without DATABASE_URL', 'serve', { OPENAI_API_KEY: 'any' }, /^DATABASE_URL: is required for gateway serve; /],
    ['worker without DATABASE_URL', 'worker', {}, /^DATABASE_URL: is required for gateway worker; /],
  ])('reports %s in a single error line', async (_title, role, { GATEWAY_DATA_DIR: dataDir = 'data', ...env }, complaint) => {
    const files = { GATEWAY_CONFIG: join(home, env.GATEWAY_CONFIG ?? 'gateway.yaml'), GATEWAY_DATA_DIR: resolve(home, dataDir) };
    expect(await errorLinesOf(role, { ...env, ...files })).toEqual([expect.stringMatching(complaint)]);
  });

  it.each([
    ['db.lock', 'folder', /^cannot open the embedded database: cannot lock \S+: .+$/],
    ['admin-token', 'folder', /^cannot read the admin token of \S+: EISDIR.+$/],
    ['admin-token', 'file', /^cannot read the admin token of \S+: the admin token in \S+ must have at least 16 characters.+$/],
    ['addresses', 'file', /^cannot write \S+: EEXIST.+$/],
    ['journal', 'file', /^cannot use the data directory .+ENOTDIR.+$/],
  ])('reports a single error line if %s in the data directory is a %s', async (name, kind, complaint) => {
    // Only a service with an embedded database has a token file, which it reads if the environment has no token.
    const { home: otherHome, env } =
      name === 'admin-token' || name === 'db.lock'
        ? { home: await processes.home('migrated'), env: { GATEWAY_ADMIN_TOKEN: '' } }
        : await processes.homeWithAnyDatabase();
    const dataDir = join(otherHome, 'data');
    await mkdir(dataDir, { recursive: true });
    await (kind === 'file' ? writeFile(join(dataDir, name), '') : mkdir(join(dataDir, name)));
    expect(await errorLinesOf('start', { ...env, GATEWAY_DATA_DIR: dataDir })).toEqual([expect.stringMatching(complaint)]);
  });

  const unreachable = async (host: string): Promise<string> => `postgres://gateway@${host}:${await unusedPort()}/gateway`;

  it("reports a single error line if start can't reach the database", async () => {
    const env = { DATABASE_URL: await unreachable('127.0.0.1'), GATEWAY_DATA_DIR: join(home, 'data') };
    expect(await errorLinesOf('start', env)).toEqual([expect.stringMatching(/^cannot reach the database: .*ECONNREFUSED/)]);
  });

  it("reports a single error line if migrate can't reach the database", async () => {
    const env = { DATABASE_URL: await unreachable('localhost') };
    expect(await errorLinesOf('migrate', env)).toEqual([expect.stringMatching(/^cannot reach the database: .*ECONNREFUSED/)]);
  });

  it('prints one line with the position of each mistake in gateway.yaml', async () => {
    const file = join(home, 'mistakes.yaml');
    await writeFile(
      file,
      `providers:
  one: { base_url: ftp://one, dialect: chat }
  two: { base_url: https://two/v1, dialect: chat, api_key: "\${TWO_KEY}" }
models:
  two/echo: { input: free, output: 1 }
tiers:
  standard: [two/echo, three/echo]
colour: red
`,
    );
    const gateway = await processes.start('start', { home, env: { GATEWAY_CONFIG: 'mistakes.yaml' } });
    expect(await gateway.exited).toBe(1);
    expect(gateway.stderr().trimEnd().split('\n').sort()).toEqual([
      'gateway: mistakes.yaml:2 providers.one.base_url: must be an address with http:// or https://',
      'gateway: mistakes.yaml:3 providers.two.api_key: the environment variable TWO_KEY is not set',
      'gateway: mistakes.yaml:5 models.two/echo.input: must be an amount in USD, written as a decimal number such as 0.15',
      'gateway: mistakes.yaml:7 tiers.standard.1: there is no provider three',
      'gateway: mistakes.yaml:8 colour: there is no such setting',
    ]);
    expect(gateway.stdout()).toBe('');
  });
});

describePostgres('errors on a database server without a schema', () => {
  let databaseUrl = '';
  let drop: () => Promise<void>;
  beforeAll(async () => {
    ({ url: databaseUrl, drop } = await createTestDatabase('empty'));
  });
  afterAll(() => drop());

  const newEnvironment = async () => ({ OPENAI_API_KEY: 'any', GATEWAY_DATA_DIR: join(await processes.home('empty'), 'data') });
  const lacksSchema =
    /^the database is missing migration 0001_\w+.*; run: gateway migrate \(but first, as a superuser in the database gateway_test_\w+: CREATE EXTENSION vector;\)$/;

  it('reports a single error line if serve finds a database without a schema', async () => {
    expect(await errorLinesOf('serve', { ...(await newEnvironment()), DATABASE_URL: databaseUrl })).toEqual([
      expect.stringMatching(lacksSchema),
    ]);
  });

  it('reports a single error line if serve finds no schema once the database becomes reachable', () =>
    withFaultProxy(databaseUrl, async (proxy) => {
      const port = String(await unusedPort());
      const errors = errorLinesOf('serve', { ...(await newEnvironment()), DATABASE_URL: proxy.url, PORT: port });
      await eventually(async () => expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(503));
      await proxy.connect();
      expect(await errors).toEqual([expect.stringMatching(lacksSchema)]);
    }));

  it("tells the operator what to run if migrate can't create the vector extension", async () => {
    const role = `role_of_${new URL(databaseUrl).pathname.slice(1)}`;
    await runAsAdmin(databaseUrl, `create role ${role} login`);
    try {
      await runAsAdmin(databaseUrl, `grant create on schema public to ${role}`);
      const url = new URL(databaseUrl);
      url.username = role;
      const name = url.pathname.slice(1);
      expect(await errorLinesOf('migrate', { DATABASE_URL: url.href })).toEqual([
        `the database ${name} does not have the vector extension, and the role ${role} is not allowed to create it. Connect to this database as a superuser, run CREATE EXTENSION vector; and then run gateway migrate again`,
      ]);
    } finally {
      await runAsAdmin(databaseUrl, `drop owned by ${role}`);
      await runAsAdmin(databaseUrl, `drop role ${role}`);
    }
  });
});
