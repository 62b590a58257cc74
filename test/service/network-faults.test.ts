/**
 * Simulates network failures between the service and its database or vendors. Temporal is covered by
 * test/temporal/durable.test.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { createErase } from '../../src/memory/erasure/erase.ts';
import { createErasureSteps } from '../../src/memory/erasure/erasure-steps.ts';
import { createFaultProxy, type FaultProxy, type Faults } from '../support/fault-proxy.ts';
import { callsOf, eventually, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import { type MetricLine, parseMetrics, sumOf } from '../support/metrics.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { readUntilCut } from '../support/read-until-cut.ts';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';

const path = '/v1/chat/completions';
const question = (content: string) => ({ messages: [{ role: 'user', content }] });

describePostgres('the network to the database', () => {
  const ends: (() => Promise<unknown>)[] = [];
  let network: FaultProxy;
  let direct: Database;
  let proxied: Database;
  beforeAll(async () => {
    const { url, drop } = await createTestDatabase();
    network = await createFaultProxy(url);
    await network.connect();
    direct = openTestDatabase(url, 2);
    proxied = openServerDatabase({ connectionString: network.url, heartbeatMs: 100 });
    ends.push(
      drop,
      () => direct.close(),
      network.sever,
      () => proxied.close(),
    );
  });
  afterAll(async () => {
    for (const end of ends.reverse()) await end();
  });

  test("stops serving a subject's cached responses if the subject was erased while the database was disconnected", () =>
    withGateway({ database: 'any', wrapDatabase: () => proxied, cache: true }, async ({ call }) => {
      const ask = async (subject: string): Promise<string | null> => {
        const headers = { 'x-gateway-memory-subject': subject };
        const response = await call(path, { model: 'one/echo', ...question(`I am ${subject}`) }, headers);
        expect(response.status).toBe(200);
        return response.headers.get('x-gateway-cache');
      };
      for (const subject of ['ada', 'bob']) expect([await ask(subject), await ask(subject)]).toEqual(['miss', 'hit']);
      await eventually(async () => expect(await direct.query('select 1 from processes')).toHaveLength(1));
      await network.sever();
      const [project] = await direct.query<{ id: string }>(`select id from projects where slug = 'acme'`);
      const erase = createErase({ database: direct, clock: { now: () => Date.now() } });
      const { id } = await erase({ projectId: project?.id ?? '', subject: 'ada', askedBy: 'key:test' });
      // After a minute without a heartbeat, we treat every process as dead.
      const steps = createErasureSteps({ database: direct, listLive: async () => [], deleteRuns: async () => undefined });
      expect(await steps.checkProcesses(id)).toEqual({ kind: 'clear' });
      await steps.finish(id);
      await network.connect();
      await eventually(async () => expect(await ask('ada')).toBe('miss'));
      expect(await ask('bob')).toBe('hit');
    }));

  test('serves /metrics while the database hangs', () =>
    withGateway({ database: 'any', wrapDatabase: () => proxied }, async ({ withProject }) => {
      const gateway = await withProject('metrics');
      const scrape = async (): Promise<MetricLine[]> => {
        const response = await gateway.admin('GET', '/metrics');
        expect(response.status).toBe(200);
        return parseMetrics(await response.text());
      };
      const issued = gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'capped', ceilings: { calls: 1 } });
      const { key } = await jsonOf<{ key: string }>(issued);
      const models = [
        'one/echo',
        'one/"} 1',
        'one/__proto__',
        'one/\\',
        `one/${'é'.repeat(200)}`,
        'no/such',
        'standard',
        'two/x y',
        'auto',
      ];
      const answers = await Promise.all([
        gateway.call(path, { model: 'two/echo', ...question('hi') }, { authorization: `Bearer ${key}` }),
        ...models.map((model) => gateway.call(path, { model, ...question('hi') }, { 'x-gateway-source': encodeURIComponent(model) })),
      ]);
      const recorded = (await callsOf(gateway)).length;
      network.set({ silent: true });
      const hanging = await scrape().finally(() => network.set({}));
      expect([sumOf(hanging, 'gateway_calls_total'), sumOf(hanging, 'gateway_database_up')]).toEqual([recorded, 0]);
      const lines = await eventually(async () => {
        const found = await scrape();
        expect(sumOf(found, 'gateway_database_up')).toBe(1);
        return found;
      });
      expect([sumOf(lines, 'gateway_calls_total'), sumOf(lines, 'gateway_stored_calls_total')]).toEqual([recorded, recorded]);
      expect(sumOf(lines, 'gateway_error_responses_total')).toBe(answers.filter(({ ok }) => !ok).length);
      expect(sumOf(lines, 'gateway_ceilings', { scope: 'key', ceiling: 'calls', state: 'reached' })).toBe(1);
      expect(sumOf(lines, 'gateway_ceilings')).toBe(1);
      const valuesOf = (label: string) => new Set(lines.flatMap(({ labels }) => labels[label] ?? []));
      expect(valuesOf('model')).toEqual(new Set(['echo', 'other']));
      expect(valuesOf('gen_ai_provider_name').isSubsetOf(new Set(['one', 'two', 'three', 'four']))).toBe(true);
    }));
});

describe('the network to a vendor', () => {
  let vendor: ScriptedVendor;
  let network: FaultProxy;
  beforeAll(async () => {
    vendor = await createScriptedVendor();
    network = await createFaultProxy(vendor.url);
    await network.connect();
  });
  afterAll(async () => {
    await network.sever();
    await vendor.close();
  });
  const shared = shareGateway({
    database: 'any',
    yaml: (near) => `
providers:
  far: { base_url: '${new URL(network.url).origin}/v1', api_key: any, dialect: chat, first_byte_timeout_ms: 2000, idle_timeout_ms: 2000 }
  near: { base_url: ${near}/v1, api_key: any, dialect: chat }
models:
  far/long-500: { input: 1, output: 4 }
tiers:
  standard: [far/long-500, near/echo]
`,
  });

  test.each<[string, Faults, boolean]>([
    ['is reset during the response headers', { resetAfterBytes: 20 }, true],
    ['is reset during the body of a plain response', { resetAfterBytes: 600 }, false],
    ['stalls', { silent: true }, true],
  ])('uses the next model if the connection to the vendor %s', async (what, faults, stream) => {
    const gateway = await shared().withProject(what.replaceAll(' ', '-'));
    network.set(faults);
    const answer = await gateway.call(path, { model: 'standard', stream, ...question('hi') });
    const text = await answer.text();
    network.set({});
    expect([answer.status, answer.headers.get('x-gateway-model'), text]).toEqual([200, 'near/echo', expect.stringContaining('You')]);
    const [call] = await callsOf(gateway);
    expect(call).toMatchObject({ outcome: 'ok', attempts: [{ outcome: 'failed' }, { outcome: 'ok' }] });
  });

  test("closes the caller's stream if the vendor's connection is reset", async () => {
    const gateway = await shared().withProject('reset-in-its-middle');
    network.set({ resetAfterBytes: 20_000 });
    const answer = await gateway.call(path, { model: 'standard', stream: true, ...question('hi') });
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'far/long-500']);
    const { text, isCut } = await readUntilCut(answer);
    network.set({});
    expect(isCut).toBe(true);
    expect(text.endsWith('\n\n')).toBe(true);
    expect(text).not.toContain('[DONE]');
    const [call] = await callsOf(gateway);
    expect(call).toMatchObject({ outcome: 'interrupted', attempts: [{ outcome: 'interrupted' }] });
    expect(call?.cost).toBeGreaterThan(0);
  });

  test('delivers the complete stream over a slow network', async () => {
    const gateway = await shared().withProject('slow');
    const ask = async (): Promise<string> => {
      const answer = await gateway.call(path, { model: 'far/long-500', stream: true, ...question('hi') });
      return (await answer.text()).replaceAll(/chatcmpl-demo-\d+/g, 'id');
    };
    const text = await ask();
    network.set({ delayMs: 20 });
    const isSame = (await ask()) === text;
    network.set({});
    expect(isSame).toBe(true);
  });
});
