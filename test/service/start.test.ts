/** Tests how the service starts. */
import { writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { compareVersions } from '../../scripts/versions.js';
import { findAddress } from '../../src/cli/addresses.ts';
import { lockGlobal } from '../../src/db/locks.ts';
import { withFaultProxy } from '../support/fault-proxy.ts';
import { copyTestBundle, eventually, jsonOf } from '../support/gateway.ts';
import { activeModel, createProcesses, firstKeyOf, type GatewayProcess, processesOf, root } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { run } from '../support/run.ts';
import { errorLinesOf, runInProcess } from '../support/run-service.ts';
import type { ScriptedVendor } from '../support/scripted-vendor/server.ts';
import { createScriptedVendor } from '../support/scripted-vendor/server.ts';

const processes = createProcesses();
let vendor: ScriptedVendor;
beforeAll(async () => {
  vendor = await createScriptedVendor();
});
afterAll(async () => {
  await processes.stopAll();
  await vendor.close();
});

const yamlOf = (models: readonly string[]): string => `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat }
tiers:
  standard: [${models.join(', ')}]
`;

describe('the command gateway start with a data directory', () => {
  let home = '';
  let gateway: GatewayProcess;
  let key = '';
  const announced = (): Promise<string | null> => findAddress(join(home, 'data'));

  it('prints an address, a key and a working curl command', async () => {
    home = await processes.home('migrated');
    await copyTestBundle(join(home, 'data'));
    gateway = await processes.start('start', { home, env: { GATEWAY_TEMPORAL: '' } });
    expect(gateway.stdout()).toContain(`Address         ${gateway.url}\n`);
    expect(await announced()).toBe(gateway.url);
    // Calls are served while Temporal is still starting.
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200);
    key = firstKeyOf(gateway) ?? '';
    expect(gateway.stdout()).toContain(`Virtual key     ${key}\n`);
    // The output of a container goes into a log, so only a terminal gets the link itself.
    expect(gateway.stdout()).toContain('First sign-in   npx gateway sign-in-link --admin\n');
    expect(gateway.stdout()).not.toContain('/console/sign-in/');
    const curlLine = /^ *(curl .*)$/m.exec(gateway.stdout())?.[1] ?? '';
    const answer = await run('bash', ['-c', curlLine]);
    expect(answer).toContain('Hello');
    expect(answer).toMatch(/data: \[DONE\]\s*$/);
    const pages = await eventually(async () => {
      const address = /Temporal UI +(\S+)/.exec(gateway.stdout())?.[1];
      if (address === undefined) throw new Error(`no address of Temporal's pages:\n${gateway.stdout()}`);
      return address;
    });
    expect((await fetch(pages)).status).toBe(200);
    await eventually(async () =>
      expect(await jsonOf(fetch(`${gateway.url}/readyz`))).toEqual({ status: 'ready', reasons: [], degraded: [] }),
    );
  });

  it('generates images and speech with the printed key', async () => {
    const image = await gateway.call(key, '/v1/images/generations', { model: 'standard', prompt: 'a fox', size: '64x64' });
    expect([image.status, await image.json()]).toMatchObject([200, { data: [{ b64_json: expect.stringMatching(/^iVBOR/) }] }]);
    const audio = await gateway.call(key, '/v1/audio/speech', { model: 'standard', input: 'Hello' });
    expect([audio.status, audio.headers.get('content-type')]).toEqual([200, 'audio/mpeg']);
    expect((await audio.arrayBuffer()).byteLength).toBeGreaterThan(100);
  });

  it('reports a single error line if another process uses the data directory', async () => {
    expect(await errorLinesOf('start', { PORT: '0', GATEWAY_DATA_DIR: join(home, 'data') })).toEqual([
      `the data directory ${join(home, 'data')} is in use by another gateway process; stop that one, or set GATEWAY_DATA_DIR to another directory`,
    ]);
    expect((await gateway.call(key, '/usage/me')).status).toBe(200);
  });

  it('reports a single error line if the port is in use', async () => {
    const { port } = new URL(gateway.url);
    const { home: otherHome, env } = await processes.homeWithAnyDatabase();
    expect(await errorLinesOf('start', { ...env, PORT: port, GATEWAY_DATA_DIR: join(otherHome, 'data') })).toEqual([
      `port ${port} on 127.0.0.1 is already in use; set PORT to a different port`,
    ]);
  });

  it('exits with 0 on SIGINT and leaves no processes behind', async () => {
    expect(await gateway.end('SIGINT')).toBe(0);
    expect(gateway.stderr()).toBe('');
    expect(await processesOf(home)).toEqual([]);
    expect(await announced()).toBe(null);
  });

  it("restarts with its existing data and doesn't print a new key", async () => {
    gateway = await processes.start('start', { home });
    expect(gateway.stdout()).toContain(`Address         ${gateway.url}\n`);
    expect(firstKeyOf(gateway)).toBeNull();
    expect(gateway.stdout()).toContain('gateway keys create --project default');
    expect(await jsonOf(gateway.call(key, '/usage/me'))).toMatchObject({
      by_model: expect.arrayContaining(
        ['demo/echo', 'demo/image', 'demo/speech'].map((model) => expect.objectContaining({ model, calls: 1 })),
      ),
    });
    expect(await gateway.end('SIGTERM')).toBe(0);
  });
});

describePostgres('starting on a database server', () => {
  let databaseUrl = '';
  let drop: () => Promise<void>;
  beforeAll(async () => {
    ({ url: databaseUrl, drop } = await createTestDatabase('empty'));
  });
  afterAll(() => drop());

  const startServe = async (url: string, stopDelaySeconds = 0): Promise<GatewayProcess> => {
    const home = await processes.home('empty');
    await writeFile(join(home, 'gateway.yaml'), yamlOf(['one/echo']));
    return processes.start('serve', { home, env: { DATABASE_URL: url, GATEWAY_STOP_DELAY_SECONDS: String(stopDelaySeconds) } });
  };
  const readinessOf = async ({ url }: GatewayProcess): Promise<number> => (await fetch(`${url}/readyz`)).status;
  it('logs a failed database login without the password, and stops with exit code 0', async () => {
    const url = new URL(databaseUrl);
    url.username = 'nobody';
    url.password = 'hunter2-the-password';
    const gateway = await startServe(url.href, 1);
    expect(await readinessOf(gateway)).toBe(503);
    expect([await gateway.end('SIGTERM'), gateway.stderr()]).toEqual([0, '']);
    const reason = 'role "nobody" does not exist';
    expect(gateway.logs().filter((line) => JSON.stringify(line).includes('nobody'))).toEqual([
      expect.objectContaining({ level: 'error', reason, msg: 'database unavailable; retrying' }),
    ]);
    expect(gateway.stdout()).not.toMatch(/hunter2|database recovered/);
  });

  it('creates the schema only when migrate runs for the first time', async () => {
    const migrate = () => runInProcess('migrate', { DATABASE_URL: databaseUrl });
    expect(await migrate()).toEqual({ output: expect.stringMatching(/^Applied \d+ migrations?\.\n$/), errors: [] });
    expect(await migrate()).toEqual({ output: 'The schema was up to date.\n', errors: [] });
  });

  it('stops migrate on the first SIGTERM', async () => {
    const home = await processes.home('empty');
    const database = openTestDatabase(databaseUrl, 2);
    try {
      await database.transaction(async (tx) => {
        await lockGlobal(tx, 'migrate');
        // We exclude autovacuum workers, because they come and go.
        const query = `select 1 from pg_stat_activity where datname = current_database() and backend_type = 'client backend'`;
        const connections = async (): Promise<number> => (await database.query(query)).length;
        const before = await connections();
        const starting = processes.start('migrate', { home, env: { DATABASE_URL: databaseUrl } });
        await eventually(async () => expect(await connections()).toBeGreaterThan(before));
        for (const pid of await processesOf(home)) process.kill(pid, 'SIGTERM');
        const migration = await starting;
        expect([await migration.exited, migration.stderr()]).toEqual([1, '']);
      });
    } finally {
      await database.close();
    }
  });

  /** Runs `work` while the database accepts connections but doesn't respond to the schema check. */
  const withLockedSchema = async (work: (untilAwaited: () => Promise<void>) => Promise<void>): Promise<void> => {
    const database = openTestDatabase(databaseUrl, 2);
    const waiting = `select from pg_locks where relation = 'schema_migrations'::regclass and not granted`;
    try {
      await database.transaction(async (tx) => {
        await tx.query('set local idle_in_transaction_session_timeout = 0');
        await tx.query('lock table schema_migrations in access exclusive mode');
        await work(() => eventually(async () => expect(await database.query(waiting)).toHaveLength(1)));
      });
    } finally {
      await database.close();
    }
  };

  it.each(['start', 'serve'])('stops %s with exit code 0 while the database hangs', (command) =>
    withLockedSchema(async (untilAwaited) => {
      const home = await processes.home('empty');
      await writeFile(join(home, 'gateway.yaml'), yamlOf(['one/echo']));
      const starting = processes.start(command, { home, env: { DATABASE_URL: databaseUrl } });
      await untilAwaited();
      for (const pid of await processesOf(home)) process.kill(pid, 'SIGTERM');
      const gateway = await starting;
      expect([await gateway.exited, gateway.stderr(), gateway.url]).toEqual([0, '', '']);
    }),
  );

  it('stops serve with exit code 0 if the database becomes reachable after startup but hangs', () =>
    withFaultProxy(databaseUrl, async (proxy) => {
      const gateway = await startServe(proxy.url);
      await withLockedSchema(async (untilAwaited) => {
        await proxy.connect();
        await untilAwaited();
        expect([await gateway.end('SIGTERM'), gateway.stderr()]).toEqual([0, '']);
      });
    }));

  it("reports that serve isn't ready until it reaches the database", () =>
    withFaultProxy(databaseUrl, async (proxy) => {
      const gateway = await startServe(proxy.url, 300);
      expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
      expect(await readinessOf(gateway)).toBe(503);
      expect((await gateway.admin('PUT', '/provision/teams/acme', {})).status).toBe(503);
      await proxy.connect();
      await eventually(async () => expect(await readinessOf(gateway)).toBe(200));
      // No key is cached, so no call can be served during an outage.
      await proxy.sever();
      await eventually(async () =>
        expect(await jsonOf(fetch(`${gateway.url}/readyz`))).toMatchObject({
          reasons: [expect.stringMatching(/^virtual keys cannot be read/)],
        }),
      );
      await proxy.connect();
      await eventually(async () => expect(await readinessOf(gateway)).toBe(200));
      await eventually(async () =>
        expect(gateway.logs().map(({ msg }) => msg)).toEqual(expect.arrayContaining(['service is not ready', 'service is ready again'])),
      );
      expect((await gateway.admin('PUT', '/provision/teams/acme', {})).status).toBe(201);
      const { key } = await jsonOf<{ key: string }>(gateway.admin('POST', '/provision/teams/acme/keys', { name: 'test' }));
      // During an outage, the gateway uses cached data. We may have to try twice, because a late notification about the
      // new key removes it from the cache.
      await eventually(async () => {
        await proxy.connect();
        await eventually(async () => expect(await activeModel(gateway, key)).toBe('one/echo'));
        await proxy.sever();
        expect([await activeModel(gateway, key), await readinessOf(gateway)]).toEqual(['one/echo', 200]);
      });
      await proxy.connect();

      gateway.child.kill('SIGTERM');
      await eventually(async () =>
        expect(await jsonOf(fetch(`${gateway.url}/readyz`))).toMatchObject({ status: 'not_ready', reasons: ['the process is stopping'] }),
      );
      expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
      const response = await gateway.call(key, '/v1/chat/completions', { model: 'standard', messages: [{ role: 'user', content: 'hi' }] });
      expect([response.status, response.headers.get('connection')]).toEqual([200, 'close']);
      // A second signal within half a second counts as the same one.
      await eventually(async () => {
        gateway.child.kill('SIGTERM');
        expect(gateway.child.exitCode).toBe(1);
      });
    }));
});

const oldNode = await findOldNode();
// With CI=true a machine without an older Node fails instead of skipping these tests.
const describeOldNode = oldNode !== null || process.env.CI === 'true' ? describe : describe.skip;

/** Makes the service print a line if it ends without calling `process.exit`. */
const tellsOfNaturalEnd = `--import=data:text/javascript,${encodeURIComponent(
  `if (process.argv[1]?.endsWith('main.ts')) process.once('beforeExit', () => process.stderr.write('nothing is left to do'))`,
)}`;

describeOldNode('the command npm start with an old version of Node', () => {
  let home = '';
  let databaseEnv = {};
  beforeAll(async () => {
    ({ home, env: databaseEnv } = await processes.homeWithAnyDatabase());
  });

  const startByNpm = (): Promise<GatewayProcess> => {
    if (oldNode === null) throw new Error('no Node older than 24.7 is on the PATH');
    const path = [dirname(oldNode), process.env.PATH].join(delimiter);
    const env = { ...databaseEnv, PATH: path, NODE_OPTIONS: tellsOfNaturalEnd };
    return processes.start('start', { home, env, program: [oldNode, join(root, 'scripts', 'start.js')] });
  };

  it('starts the gateway through npm and stops it on SIGTERM', async () => {
    const gateway = await startByNpm();
    expect(await activeModel(gateway, firstKeyOf(gateway) ?? '')).toBe('demo/echo');
    expect(await processesOf(home)).toHaveLength(2);
    expect(await gateway.end('SIGTERM')).toBe(0);
    // Each process uses this channel to detect the other's death. It must not keep the service running.
    expect(gateway.stderr()).toContain('nothing is left to do');
    expect(await processesOf(home)).toEqual([]);
  });

  it('stops the service if the npm process is killed', async () => {
    const gateway = await startByNpm();
    expect(await gateway.end('SIGKILL')).toBe('SIGKILL');
    await eventually(async () => expect(await processesOf(home)).toEqual([]));
  });

  it('stops the service if the npm process is killed during startup', async () => {
    const starting = startByNpm();
    const [bootstrap] = await eventually(async () => {
      const pids = await processesOf(home);
      expect(pids).toHaveLength(2);
      return pids.sort((left, right) => left - right);
    });
    if (bootstrap !== undefined) process.kill(bootstrap, 'SIGKILL');
    expect(await (await starting).exited).toBe('SIGKILL');
    await eventually(async () => expect(await processesOf(home)).toEqual([]));
  });
});

/** Finds a Node on the PATH that is too old to run the program. */
async function findOldNode(): Promise<string | null> {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const version = await run(join(folder, 'node'), ['--version']).catch(() => null); // It is missing or cannot run.
    if (version !== null && compareVersions(version.trim(), '24.7.0') < 0) return join(folder, 'node');
  }
  return null;
}
