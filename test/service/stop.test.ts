/** Tests signals. SIGHUP reloads the configuration, and SIGTERM stops the service without losing a call. */
import { once } from 'node:events';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createApp } from '../../src/app/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/core/time.ts';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { createUsageReports } from '../../src/usage/reports.ts';
import { eventually, jsonOf, withGateway } from '../support/gateway.ts';
import { activeModel, createProcesses, firstKeyOf, type GatewayProcess, type LogLine, processesOf } from '../support/gateway-process.ts';
import { readUntilCut } from '../support/read-until-cut.ts';
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

const chatPath = '/v1/chat/completions';
const bodyOf = (model: string, stream: boolean) => ({ model, stream, messages: [{ role: 'user', content: 'hi' }] });
const yamlOf = (models: readonly string[], { url } = vendor): string => `
providers:
  one: { base_url: ${url}/v1, api_key: any, dialect: chat }
tiers:
  standard: [${models.join(', ')}]
`;

describe('signals to a running gateway', () => {
  let home = '';
  let env: Readonly<Record<string, string>> = {};
  let gateway: GatewayProcess;
  let key = '';
  beforeAll(async () => {
    ({ home, env } = await processes.homeWithAnyDatabase());
    gateway = await processes.start('start', { home, env });
    key = firstKeyOf(gateway) ?? '';
  });

  const reloadWith = async (text: string | null): Promise<void> => {
    const file = join(home, 'gateway.yaml');
    await (text === null ? rm(file) : writeFile(file, text));
    gateway.child.kill('SIGHUP');
  };
  const expectModel = (model: string): Promise<void> => eventually(async () => expect(await activeModel(gateway, key)).toBe(model));

  it('switches from the demo vendor to the providers in a new gateway.yaml on SIGHUP', async () => {
    await expectModel('demo/echo');
    await reloadWith(yamlOf(['one/echo']));
    await expectModel('one/echo');
    await reloadWith(null);
    await expectModel('demo/echo');
  });

  it('keeps the old configuration if gateway.yaml is invalid on SIGHUP', async () => {
    await reloadWith(yamlOf(['one/echo']));
    await expectModel('one/echo');
    await reloadWith(`${yamlOf(['one/other', 'nobody/echo'])}colour: red\n`);
    await eventually(async () =>
      expect(gateway.logs()).toContainEqual(
        expect.objectContaining({
          level: 'error',
          msg: 'configuration rejected; keeping the active one',
          errors: ['gateway.yaml:6 colour: there is no such setting', 'gateway.yaml:5 tiers.standard.1: there is no provider nobody'],
        }),
      ),
    );
    await expectModel('one/echo');
    await reloadWith(yamlOf(['one/fixed']));
    await expectModel('one/fixed');
  });

  it('completes a running stream on SIGTERM unless it exceeds the stop timeout', async () => {
    const response = await gateway.call(key, chatPath, bodyOf('one/echo+pace-50+long-30', true), { 'x-gateway-task-id': 'last' });
    const id = response.headers.get('x-gateway-call-id');
    const ended = gateway.end('SIGTERM');
    await eventually(() => expect(gateway.call(key, '/usage/me')).rejects.toThrow('fetch failed'));
    expect(await response.text()).toMatch(/data: \[DONE\]\s*$/);
    expect(await ended).toBe(0);
    expect(await processesOf(home)).toEqual([]);

    const stopped = gateway;
    gateway = await processes.start('start', { home, env: { ...env, GATEWAY_STOP_TIMEOUT_SECONDS: '1' } });
    const { data } = await jsonOf<{ data: unknown[] }>(gateway.admin('GET', '/provision/teams/default/calls?task_id=last'));
    expect(data).toEqual([expect.objectContaining({ id, outcome: 'ok', estimated: false, stream: true })]);
    const slow = await gateway.call(key, chatPath, bodyOf('one/long-20+stall-after-3', true));
    const endedAgain = gateway.end('SIGTERM');
    expect(await readUntilCut(slow)).toEqual({ text: expect.stringContaining('quick'), isCut: true });
    expect(await endedAgain).toBe(0);
    const recoveries = [stopped, gateway].flatMap((each) => each.logs()).filter(({ msg }) => /recover|interrupted/.test(msg));
    expect(recoveries).toEqual([]);
  });
});

it('stores estimated usage for calls that exceed the stop timeout', async () => {
  const dataDir = join(await processes.home('migrated'), 'data');
  const database = await openEmbeddedDatabase({ dataDir });
  const slowVendor = await createScriptedVendor();
  try {
    await migrate(database);
    const env = { GATEWAY_TEMPORAL: 'off', GATEWAY_DATA_DIR: dataDir };
    const config = loadConfig({ env, fileText: yamlOf(['one/echo'], slowVendor), fileName: 'gateway.yaml' });
    const logs: string[] = [];
    const logger = createLogger({ level: 'info', destination: { write: (line) => void logs.push(line) } });
    const options = { role: 'start', config, database, logger, dataDir, environment: {} } as const;
    const app = await createApp({ ...options, graceMs: 200 });
    const url = await app.listen('127.0.0.1', 0);
    const { project } = await app.projects.put('acme', {});
    const { secret } = await app.keyring.issue(project.id, { name: 'test' });
    const call = (name: string, model: string, stream: boolean, path = chatPath): Promise<Response> =>
      fetch(url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json', 'x-gateway-task-id': name },
        body: JSON.stringify({ max_tokens: 100, ...bodyOf(model, stream) }),
      });
    // This many broken streams would open the vendor's breaker if they counted as its failures.
    const stalled = await Promise.all(Array.from({ length: 5 }, () => call('stream', 'one/long-20+stall-after-3', true)));
    const messages = await call('messages', 'one/long-20+stall-after-3', true, '/v1/messages');
    const responses = [
      // The connection of each stream breaks. A messages stream gets an error event first.
      ...stalled.map((response) =>
        expect(readUntilCut(response)).resolves.toEqual({ isCut: true, text: expect.stringMatching(/quick(?!.*\[DONE\])/s) }),
      ),
      expect(readUntilCut(messages)).resolves.toEqual({
        isCut: true,
        text: expect.stringMatching(/\nevent: error\ndata: .*the gateway is stopping.*\n\n$/),
      }),
      expect(call('plain', 'one/hang', false).then((response) => response.json())).resolves.toMatchObject({
        error: { code: 'upstream_failed', message: 'one/hang: the gateway is stopping' },
      }),
    ];
    await eventually(async () => expect(slowVendor.requests().filter(({ body }) => body.includes('hang'))).toHaveLength(1));

    await app.close();
    await Promise.all(responses);
    expect(await readdir(join(dataDir, 'journal'))).toEqual([]);
    const rows = await createUsageReports({ database, clock: systemClock }).listCalls(project.id);
    expect(rows.map((row) => [row.task_id, row.outcome, row.estimated, row.tokens.input > 0, row.tokens.output > 0]).sort()).toEqual([
      ['messages', 'interrupted', true, true, true],
      // The vendor may complete and bill it, so its outcome is unknown.
      ['plain', 'unknown', true, true, true],
      ...stalled.map(() => ['stream', 'interrupted', true, true, true]),
    ]);
    expect(logs.filter((line) => line.includes('"level":"error"'))).toEqual([]);
    // The gateway broke them off itself, so they don't count as failures of the vendor.
    const lines = logs.map((line) => JSON.parse(line) as LogLine);
    expect(lines.flatMap(({ msg, reason }) => (msg === 'attempt failed' ? [reason] : []))).toEqual(rows.map(() => 'stopped'));
    expect(lines.filter(({ msg }) => msg === 'circuit breaker opened')).toEqual([]);
  } finally {
    await slowVendor.close();
    await database.close();
  }
});

it('waits for running responses but not for idle connections when it stops', () =>
  // If the gateway waits for idle connections, it doesn't stop within the limit of this test.
  withGateway({ database: 'any', graceMs: 3_600_000 }, async (gateway) => {
    const agent = new Agent({ keepAlive: true });
    const unused = connect(Number(new URL(gateway.url).port), '127.0.0.1');
    try {
      await once(unused, 'connect');
      const request = httpRequest(gateway.url + chatPath, {
        agent,
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      });
      request.end(JSON.stringify(bodyOf('one/held', false)));
      await eventually(async () => expect(gateway.vendor.requests()).toHaveLength(1));
      const closed = gateway.app.close();
      await eventually(() => expect(gateway.call('/healthz')).rejects.toThrow('fetch failed'));
      await eventually(async () => expect(gateway.vendor.release()).toBe(1));
      const [response]: IncomingMessage[] = await once(request, 'response');
      expect([response?.statusCode, response && (await json(response))]).toEqual([
        200,
        expect.objectContaining({ choices: expect.anything() }),
      ]);
      await closed;
    } finally {
      agent.destroy();
      unused.destroy();
    }
  }));
