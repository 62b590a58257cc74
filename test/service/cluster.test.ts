/** Tests several API processes on one port (`GATEWAY_API_PROCESSES`) during crashes, signals and shutdowns. */
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { Agent, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { findAddress } from '../../src/cli/addresses.ts';
import type { Database } from '../../src/db/database.ts';
import { listLiveProcesses } from '../../src/journal/heartbeat.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { activeModel, createProcesses, firstKeyOf, type GatewayProcess, processesOf } from '../support/gateway-process.ts';
import { parseMetrics, sumOf } from '../support/metrics.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';
import { unusedPort } from '../support/unused-port.ts';

const size = 2;
const chatPath = '/v1/chat/completions';
const bodyOf = (model: string, stream = false) => ({ model, stream, messages: [{ role: 'user', content: 'hi' }] });

/** The token with which the tests call the provisioning routes. */
const oldToken = 'test-admin-token-0123456789';
const secretFilesOf = (home: string) => ({
  GATEWAY_ADMIN_TOKEN_FILE: join(home, 'admin-tokens'),
  VENDOR_KEY_FILE: join(home, 'vendor-key'),
});

const isWhole = (stream: string): boolean => stream.includes('[DONE]');

interface StreamWish {
  readonly key: string;
  readonly model: string;
  readonly taskId: string;
}

async function openStream(url: string, { key, model, taskId }: StreamWish): Promise<IncomingMessage> {
  const correlation = { 'x-gateway-task-id': taskId, 'cache-control': 'no-store' };
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...correlation };
  const asking = request(url + chatPath, { method: 'POST', agent: false, headers });
  asking.end(JSON.stringify(bodyOf(model, true)));
  const [answer] = (await once(asking, 'response')) as [IncomingMessage];
  return answer;
}

describePostgres('a cluster of processes', () => {
  const processes = createProcesses();
  const returns: (() => Promise<unknown>)[] = [];
  let databaseUrl = '';
  let database: Database;
  let vendor: ScriptedVendor;
  let home = '';
  let gateway: GatewayProcess;
  let key = '';
  let metricsPort = 0;

  beforeAll(async () => {
    const lent = await createTestDatabase();
    databaseUrl = lent.url;
    returns.push(() => lent.drop());
    database = openTestDatabase(databaseUrl, 1);
    returns.push(() => database.close());
    vendor = await createScriptedVendor();
    returns.push(() => vendor.close());
    returns.push(() => processes.stopAll());
    home = await processes.home('empty');
    const files = secretFilesOf(home);
    await writeFile(files.GATEWAY_ADMIN_TOKEN_FILE, oldToken);
    await writeFile(files.VENDOR_KEY_FILE, 'vendor-key-1\n');
    metricsPort = await unusedPort();
    gateway = await startSet('start', { GATEWAY_METRICS_ADDRESS: `127.0.0.1:${metricsPort}` });
    key = firstKeyOf(gateway) ?? '';
  });
  afterAll(async () => {
    for (const giveBack of returns.reverse()) await giveBack();
  });

  const startSet = (command: 'start' | 'serve', env: Record<string, string> = {}): Promise<GatewayProcess> =>
    processes.start(command, {
      home,
      env: { DATABASE_URL: databaseUrl, GATEWAY_API_PROCESSES: String(size), GATEWAY_ADMIN_TOKEN: '', ...secretFilesOf(home), ...env },
    });

  const yamlOf = (model: string): string => `
providers:
  one: { base_url: ${vendor.url}/v1, api_key: "\${VENDOR_KEY}", dialect: chat }
tiers:
  standard: [one/${model}]
`;

  /** Makes one call on each of many connections, which the parent distributes in turn. */
  const callEverybody = (): Promise<(string | null)[]> => Promise.all(Array.from({ length: 3 * size }, () => activeModel(gateway, key)));

  const expectEverywhere = (model: string): Promise<void> =>
    eventually(async () => expect(new Set(await callEverybody())).toEqual(new Set([model])));

  /** Returns the pids of its child processes in start order. */
  const membersOf = async ({ child: { pid } }: GatewayProcess): Promise<number[]> =>
    (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ').map(Number);

  const callRow = async (taskId: string): Promise<Record<string, unknown> | undefined> => {
    const { data } = await jsonOf<{ data: Record<string, unknown>[] }>(
      gateway.admin('GET', `/provision/teams/default/calls?task_id=${taskId}`),
    );
    return data[0];
  };

  /** Returns the ids of the processes in the database. */
  const listed = async (): Promise<string[]> => (await listLiveProcesses(database)).map(({ id }) => id).toSorted();

  const countCalls = async (): Promise<number> =>
    sumOf(parseMetrics(await (await gateway.admin('GET', '/metrics')).text()), 'gateway_calls_total');

  const times = (said: string, part: string): number => said.split(part).length - 1;

  /**
   * Opens one stream per process. Each needs a separate connection, because `fetch` would reuse one. Resolves once all
   * have started.
   */
  const openStreams = async (model: string, name: string): Promise<{ ends: Promise<string>[] }> => {
    const answers = await Promise.all(
      Array.from({ length: size }, (_, index) => openStream(gateway.url, { key, model, taskId: `${name}-${index}` })),
    );
    expect(answers.map(({ statusCode }) => statusCode)).toEqual(answers.map(() => 200));
    return { ends: answers.map((answer) => text(answer).catch(() => 'cut')) };
  };

  it('lets every process of a cluster serve calls at the same address', async () => {
    expect(times(gateway.stdout(), 'The gateway is ready.')).toBe(1);
    expect(times(gateway.stdout(), 'Virtual key')).toBe(1);
    expect(gateway.logs().filter(({ msg }) => msg === 'listening')).toEqual([
      expect.objectContaining({ url: gateway.url, processes: size }),
    ]);
    expect(await findAddress(join(home, 'data'))).toBe(gateway.url);
    await expectEverywhere('demo/echo');
    await eventually(async () => {
      const answering = gateway.logs().filter(({ msg }) => msg === 'call');
      expect(new Set(answering.map((line) => line.process))).toEqual(new Set([1, 2]));
    });
    await eventually(async () => expect(await listed()).toEqual((await readdir(join(home, 'data', 'journal'))).toSorted()));
    expect(await listed()).toHaveLength(size);
  });

  it('returns the metrics of all processes, no matter which one receives the request', async () => {
    const [row] = await eventually(async () => {
      const rows = await database.query<{ calls: number }>('select count(*)::integer as calls from calls');
      expect(rows[0]?.calls).toBe(gateway.logs().filter(({ msg }) => msg === 'call').length);
      return rows;
    });
    // On a busy machine, a process may not respond to the others in time. Then its metrics are missing in this scrape.
    await eventually(async () => {
      // The processes respond in turn, and each one has to report the same.
      const scrapes = await Promise.all(Array.from({ length: size }, async () => (await gateway.admin('GET', '/metrics')).text()));
      for (const scrape of scrapes) {
        const lines = parseMetrics(scrape);
        expect(sumOf(lines, 'gateway_processes', { state: 'responding' })).toBe(size);
        expect(sumOf(lines, 'gateway_calls_total')).toBe(row?.calls);
        expect(sumOf(lines, 'gateway_database_connections_limit', { pool: 'admission' })).toBe(4 * size);
      }
    });
    await eventually(async () => {
      const open = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
      expect([open.status, sumOf(parseMetrics(await open.text()), 'gateway_calls_total')]).toEqual([200, row?.calls]);
    });
    expect((await fetch(`${gateway.url}/metrics`)).status).toBe(401);
  });

  it('shares open circuit breakers among all processes', async () => {
    await writeFile(join(home, 'gateway.yaml'), yamlOf('fail-500'));
    gateway.child.kill('SIGHUP');
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    /** Sends every call over the same connection, so that a single process handles them all. */
    const fail = async (): Promise<number | undefined> => {
      const asking = request(gateway.url + chatPath, { method: 'POST', agent, headers });
      asking.end(JSON.stringify(bodyOf('standard')));
      const [answer] = (await once(asking, 'response')) as [IncomingMessage];
      await text(answer);
      return answer.statusCode;
    };
    await eventually(async () => expect(await fail()).toBe(502));
    for (let failed = 1; failed < 5; failed += 1) expect(await fail()).toBe(502);
    agent.destroy();
    const peek = async (): Promise<unknown> => {
      const asking = request(`${gateway.url}/status/peek`, { agent: false, headers }).end();
      const [answer] = (await once(asking, 'response')) as [IncomingMessage];
      return JSON.parse(await text(answer)).breakers;
    };
    await eventually(async () => {
      for (const breakers of await Promise.all(Array.from({ length: 3 * size }, peek)))
        expect(breakers).toEqual([expect.objectContaining({ provider: 'one', state: 'open', failures: 5 })]);
    });
  });

  it('reloads the configuration in every process on SIGHUP', async () => {
    await writeFile(join(home, 'gateway.yaml'), yamlOf('echo'));
    gateway.child.kill('SIGHUP');
    await expectEverywhere('one/echo');
    await writeFile(join(home, 'gateway.yaml'), `${yamlOf('other')}colour: red\n`);
    gateway.child.kill('SIGHUP');
    await eventually(async () =>
      expect(gateway.logs()).toContainEqual(
        expect.objectContaining({
          msg: 'configuration rejected; keeping the active one',
          errors: ['gateway.yaml:6 colour: there is no such setting'],
        }),
      ),
    );
    await expectEverywhere('one/echo');
  });

  it('rotates vendor keys and admin tokens without failing a call', async () => {
    const newToken = 'new-admin-token-0123456789';
    const files = secretFilesOf(home);
    await writeFile(join(home, 'gateway.yaml'), yamlOf('echo'));
    /** Returns the statuses of one request on each of many connections, which the parent distributes in turn. */
    const statusesOf = async (token: string): Promise<Set<number>> => {
      const list = async (): Promise<number> => {
        const asking = request(`${gateway.url}/provision/teams`, { agent: false, headers: { authorization: `Bearer ${token}` } }).end();
        const [answer] = (await once(asking, 'response')) as [IncomingMessage];
        answer.resume();
        return answer.statusCode ?? 0;
      };
      return new Set(await Promise.all(Array.from({ length: 3 * size }, list)));
    };
    const reload = async (file: string, text: string, check: () => Promise<void>): Promise<void> => {
      await writeFile(file, text);
      gateway.child.kill('SIGHUP');
      await eventually(check);
    };
    let isRotating = true;
    const statuses: (number | undefined)[] = [];
    const load = Array.from({ length: 4 }, async () => {
      while (isRotating) {
        const answer = await openStream(gateway.url, { key, model: 'one/echo+pace-40+long-5', taskId: 'rotation' });
        statuses.push(isWhole(await text(answer)) ? answer.statusCode : undefined);
      }
    });
    try {
      vendor.clear();
      await reload(files.GATEWAY_ADMIN_TOKEN_FILE, `${newToken}\n${oldToken}\n`, async () => {
        expect(await statusesOf(newToken)).toEqual(new Set([200]));
      });
      expect(await statusesOf(oldToken)).toEqual(new Set([200]));
      await reload(files.GATEWAY_ADMIN_TOKEN_FILE, newToken, async () => expect(await statusesOf(oldToken)).toEqual(new Set([401])));
      expect(await statusesOf(newToken)).toEqual(new Set([200]));
      const keysOf = (): Set<unknown> => new Set(vendor.requests().map(({ headers }) => headers.authorization));
      expect(keysOf()).toEqual(new Set(['Bearer vendor-key-1']));
      await reload(files.VENDOR_KEY_FILE, 'vendor-key-2\n', async () => {
        vendor.clear();
        await Promise.all((await openStreams('one/echo', 'rotation')).ends);
        expect(keysOf()).toEqual(new Set(['Bearer vendor-key-2']));
      });
      await reload(files.VENDOR_KEY_FILE, '', async () =>
        expect(gateway.logs()).toContainEqual(
          expect.objectContaining({
            msg: 'configuration rejected; keeping the active one',
            errors: expect.arrayContaining([`VENDOR_KEY_FILE: ${files.VENDOR_KEY_FILE} is empty`]),
          }),
        ),
      );
      await eventually(async () => expect(statuses.length).toBeGreaterThan(10));
    } finally {
      isRotating = false;
      await Promise.all(load);
    }
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(gateway.stdout()).not.toMatch(/vendor-key-[12]|admin-token-0/);
    await writeFile(files.VENDOR_KEY_FILE, 'vendor-key-2');
    await reload(files.GATEWAY_ADMIN_TOKEN_FILE, oldToken, async () => expect(await statusesOf(oldToken)).toEqual(new Set([200])));
  });

  it('replaces a killed process and recovers its journal', async () => {
    const before = await countCalls();
    const pids = await membersOf(gateway);
    expect(pids).toHaveLength(size);
    const { ends } = await openStreams('one/echo+pace-100+long-40', 'killed');
    // The first process is the leader. The file has errors meanwhile.
    process.kill(pids[0] ?? 0, 'SIGKILL');
    expect((await Promise.all(ends)).filter(isWhole)).toHaveLength(size - 1);
    await eventually(async () => {
      expect(gateway.logs()).toContainEqual(expect.objectContaining({ process: 1, msg: 'API process replaced' }));
      expect(await readdir(join(home, 'data', 'journal'))).toHaveLength(size);
      expect(await listed()).toEqual((await readdir(join(home, 'data', 'journal'))).toSorted());
      const rows = await Promise.all([0, 1].map((index) => callRow(`killed-${index}`)));
      expect(rows.map((row) => row?.outcome).toSorted()).toEqual(['ok', 'unknown']);
    });
    expect(await membersOf(gateway)).toHaveLength(size);
    await expectEverywhere('one/echo');
    // We keep the counters of the dead process, because Prometheus would treat a smaller sum as a restart.
    expect(await countCalls()).toBeGreaterThan(before);
    expect(times(gateway.stdout(), 'The gateway is ready.')).toBe(1);
  });

  it('completes running streams on SIGTERM and exits with 0', async () => {
    const { ends } = await openStreams('one/echo+pace-50+long-30', 'last');
    const ended = gateway.end('SIGTERM');
    await eventually(() => expect(gateway.call(key, '/usage/me')).rejects.toThrow('fetch failed'));
    expect((await Promise.all(ends)).filter(isWhole)).toHaveLength(size);
    expect(await ended).toBe(0);
    expect(await processesOf(home)).toEqual([]);
    expect(await readdir(join(home, 'data'))).toEqual(['addresses', 'journal']);
    expect(await readdir(join(home, 'data', 'addresses'))).toEqual([]);
    expect(await readdir(join(home, 'data', 'journal'))).toEqual([]);
    expect(await listed()).toEqual([]);
    const rows = await database.query(`select outcome from calls where task_id like 'last-%'`);
    expect(rows).toEqual(Array.from({ length: size }, () => ({ outcome: 'ok' })));
  });

  it('completes running streams when the parent process is killed', async () => {
    await writeFile(join(home, 'gateway.yaml'), yamlOf('echo'));
    gateway = await startSet('serve');
    const { ends } = await openStreams('one/echo+pace-50+long-30', 'orphan');
    expect(await gateway.end('SIGKILL')).toBe('SIGKILL');
    expect((await Promise.all(ends)).filter(isWhole)).toHaveLength(size);
    await eventually(async () => expect(await processesOf(home)).toEqual([]));
    expect(await readdir(join(home, 'data', 'journal'))).toEqual([]);
    const rows = await database.query(`select outcome from calls where task_id like 'orphan-%'`);
    expect(rows).toEqual(Array.from({ length: size }, () => ({ outcome: 'ok' })));
  });

  it('exits with 1 if the port is in use', async () => {
    const taken = new URL(vendor.url).port;
    const refused = await startSet('serve', { PORT: taken });
    expect([await refused.exited, refused.stderr()]).toEqual([
      1,
      `gateway: port ${taken} on 127.0.0.1 is already in use; set PORT to a different port\n`,
    ]);
    expect(await processesOf(home)).toEqual([]);
  });

  it("exits with 1 if it can't replace a process", async () => {
    gateway = await startSet('serve');
    const [, second = 0] = await membersOf(gateway);
    await database.query('update schema_migrations set oldest_server = 9999');
    process.kill(second, 'SIGKILL');
    expect(await gateway.exited).toBe(1);
    expect(gateway.stderr()).toMatch(/^gateway: an API process failed to start 5 times; the last reason was: .*9999[^\n]*\n$/);
    expect(await processesOf(home)).toEqual([]);
  });
});
