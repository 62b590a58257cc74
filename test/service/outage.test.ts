/**
 * Stops PostgreSQL while two API processes and a worker are running, and checks which keys are served, what /readyz
 * says, and how much is logged.
 */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { generateSecret } from '../../src/keys/secret.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess, type LogLine, root } from '../support/gateway-process.ts';
import { describeOwnPostgres, startMigratedPostgres } from '../support/own-postgres.ts';
import type { PostgresServer } from '../support/postgres-server.ts';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';

const keyCount = 120;
const chatPath = '/v1/chat/completions';
const unknownKey = generateSecret().secret;
const recalling = { 'x-gateway-memory': 'recall', 'x-gateway-memory-subject': 'ann' };

describeOwnPostgres('an outage of PostgreSQL', () => {
  const processes = createProcesses();
  let server: PostgresServer;
  let vendor: ScriptedVendor;
  let one: GatewayProcess;
  let other: GatewayProcess;
  let worker: GatewayProcess;
  /** Half of them belong to a project with its own settings, and every tenth has a ceiling. */
  let keys: string[] = [];
  /** This key was issued, but `one` never loaded it. */
  let revoked = '';

  beforeAll(async () => {
    [server, vendor] = await Promise.all([startMigratedPostgres(), createScriptedVendor()]);
    const env = { DATABASE_URL: server.url };
    const home = async (): Promise<string> => {
      const folder = await processes.home('empty');
      await writeFile(
        join(folder, 'gateway.yaml'),
        `
providers: { one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat } }
models: { one/echo: { input: 1, output: 4 }, one/other: { input: 1, output: 4 } }
tiers: { standard: [one/echo] }
`,
      );
      return folder;
    };
    const start = async (command: string): Promise<GatewayProcess> => processes.start(command, { home: await home(), env });
    [one, other, worker] = await Promise.all([start('serve'), start('serve'), start('worker')]);
    await one.admin('PUT', '/provision/teams/acme', {});
    await one.admin('PUT', '/provision/teams/beta', { tiers: { standard: ['one/other'] } });
    await inTurns(keyCount, async (n) => {
      const ceilings = n % 10 === 0 ? { ceilings: { rpm: 1_000, calls: 1_000 } } : {};
      const path = `/provision/teams/${n % 2 === 0 ? 'acme' : 'beta'}/keys`;
      const { key } = await jsonOf<{ key: string }>(one.admin('POST', path, { name: `key ${n}`, ...ceilings }));
      keys = [...keys, key];
    });
    revoked = keys.pop() ?? '';
    await inTurns(keys.length, async (n) => expect(await chat(one, keys[n] ?? '')).toBe(200));
  });
  afterAll(async () => {
    await processes.stopAll();
    await vendor.close();
    await server.stop();
  });

  const inTurns = async (count: number, call: (n: number) => Promise<void>): Promise<void> => {
    let next = 0;
    const callers = Array.from({ length: 10 }, async () => {
      while (next < count) await call(next++);
    });
    await Promise.all(callers);
  };

  const chat = async (gateway: GatewayProcess, key: string, headers: Readonly<Record<string, string>> = {}): Promise<number> => {
    const body = { model: 'standard', messages: [{ role: 'user', content: `hi ${Math.random()}` }] };
    const answer = await gateway.call(key, chatPath, body, headers);
    await answer.text();
    return answer.status;
  };

  const ready = async ({ url }: GatewayProcess) => {
    const response = await fetch(`${url}/readyz`);
    const body = (await response.json()) as { readonly reasons: readonly string[]; readonly degraded: readonly string[] };
    return { ...body, status: response.status };
  };

  const metricOf = async (gateway: GatewayProcess, metric: string): Promise<number> => {
    const text = await (await gateway.admin('GET', '/metrics')).text();
    return Number(new RegExp(`^${metric} (\\S+)$`, 'm').exec(text)?.[1]);
  };

  /** Returns the log lines except the ones that each call writes. */
  const linesSince = (gateway: GatewayProcess, start: number): LogLine[] =>
    gateway
      .logs()
      .slice(start)
      .filter(({ msg }) => msg !== 'call');

  const restart = async (): Promise<void> => {
    const start = other.logs().length;
    await server.restart();
    const recovered = expect.objectContaining({ msg: 'database recovered' });
    await eventually(async () => expect(linesSince(other, start)).toContainEqual(recovered));
  };

  /** Stops PostgreSQL, makes `calls` calls on `other`, some of which fail, and returns its log of the outage. */
  const logOutage = async (calls: number): Promise<LogLine[]> => {
    const start = other.logs().length;
    await server.kill();
    await inTurns(calls, async (n) => {
      const key = keys[n % keys.length] ?? '';
      if (n % 10 === 1) expect((await other.call(unknownKey, '/v1/models')).status).toBe(503);
      else if (n % 50 === 2) expect((await other.call(key, '/usage/me')).status).toBe(503);
      else expect(await chat(other, key, n % 10 === 3 ? recalling : {})).toBe(200);
    });
    await restart();
    return linesSince(other, start);
  };

  it('accepts keys during a database outage even if only another process has used them before', async () => {
    await eventually(async () => expect(await metricOf(other, 'gateway_cached_keys')).toBeGreaterThanOrEqual(keyCount - 1));
    const [, , prefix] = revoked.split('-');
    const project = await jsonOf<{ data: { prefix: string }[] }>(one.admin('GET', '/provision/teams/beta/keys'));
    const owner = project.data.some((key) => key.prefix === prefix) ? 'beta' : 'acme';
    expect((await one.admin('DELETE', `/provision/teams/${owner}/keys/${prefix}`)).status).toBe(200);
    await eventually(async () => expect(await chat(other, revoked)).toBe(401));
    for (const gateway of [one, other, worker]) expect(await ready(gateway)).toMatchObject({ status: 200, degraded: [] });

    await server.kill();
    const statuses: number[] = [];
    await inTurns(keys.length, async (n) => void statuses.push(await chat(other, keys[n] ?? '')));
    expect([statuses.length, new Set(statuses)]).toEqual([keyCount - 1, new Set([200])]);
    expect(await chat(other, revoked)).toBe(401);
    expect(await ready(other)).toMatchObject({
      status: 200,
      reasons: [],
      degraded: [expect.stringContaining('the database is unavailable')],
    });
    await eventually(async () => expect(await ready(worker)).toMatchObject({ status: 503, reasons: ['the database is unavailable'] }));

    await restart();
    for (const gateway of [one, other, worker])
      await eventually(async () => expect(await ready(gateway)).toMatchObject({ status: 200, degraded: [] }));
    expect(await chat(other, revoked)).toBe(401);
  });

  it('logs only a few lines about a database outage, however many calls it affects', async () => {
    const [few, many] = [await logOutage(50), await logOutage(200)];
    for (const lines of [few, many])
      expect(lines.flatMap(({ level, msg }) => (level === 'info' ? [] : [msg]))).toEqual(['database unavailable; retrying']);
    const recoveries = ['database recovered', 'copying the journal to the database again', 'quota store recovered'];
    expect(many.filter(({ level, msg }) => level === 'info' && !recoveries.includes(msg))).toEqual([]);
    expect(many.length).toBeLessThanOrEqual(1 + recoveries.length);
    // Ten of a hundred calls have an unknown key, and two read usage, which waits a second for the journal.
    expect(many.find(({ msg }) => msg === 'database recovered')).toMatchObject({
      seconds: expect.any(Number),
      count: expect.any(Number),
      suppressed: { 'call failed': 24, 'recall failed; continuing without memories': 20 },
    });
  });

  it('logs every message that the DatabaseUnavailable runbook quotes', () => {
    const page = readFileSync(join(root, 'docs/operating.md'), 'utf8');
    const [runbook = ''] = page.split('### Alert DatabaseUnavailable\n')[1]?.split('\n### ') ?? [];
    const quoted = [...runbook.matchAll(/`(?!gateway )([a-z][\w]*(?: [\w;,]+)+)`/g)].map(([, text]) => text);
    expect(quoted.length).toBeGreaterThan(1);
    const messages = new Set(other.logs().flatMap(({ msg, suppressed }) => [msg, ...Object.keys(suppressed ?? {})]));
    expect(quoted.filter((text = '') => !messages.has(text))).toEqual([]);
  });
});
