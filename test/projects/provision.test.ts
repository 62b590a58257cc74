import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import express from 'express';
import { createLeaseStore } from '../../src/ceilings/lease-store.ts';
import { createErrorHandler } from '../../src/http/error-handler.ts';
import { createProvisionRoutes } from '../../src/http/routes/provision.ts';
import { createKeyring } from '../../src/keys/keyring.ts';
import { createBatches } from '../../src/memory/learning/batches.ts';
import { createExportMemory } from '../../src/memory/portability/export-memory.ts';
import { createImportMemory } from '../../src/memory/portability/import-memory.ts';
import { createMemorySettings } from '../../src/memory/records/settings.ts';
import { createAudit } from '../../src/people/audit.ts';
import { createPeople } from '../../src/people/people.ts';
import { createProjects } from '../../src/projects/projects.ts';
import { buildCatalog } from '../../src/routing/catalog.ts';
import type { ListOptions } from '../../src/usage/call-rows.ts';
import { describeDatabases } from '../db/databases.ts';

const adminToken = 'admin-token-of-the-test';
const silentLogger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

describeDatabases('/provision', (database) => {
  let server: Server;
  let url = '';
  const filters: (ListOptions & { projectId: string | null })[] = [];
  const clock = { now: () => Date.parse('2026-11-20T10:00:00Z') };

  beforeAll(async () => {
    const projects = createProjects({ database: database(), clock });
    const keyring = createKeyring({ database: database(), clock });
    const memorySettings = createMemorySettings({ database: database(), clock });
    const batches = createBatches({ database: database(), uiUrl: async () => null });
    const listCalls = async (projectId: string | null, filter: ListOptions) => {
      filters.push({ projectId, ...filter });
      return [{ id: 'row' }];
    };
    const reprice = () => Promise.reject(new Error('no test of this file reprices'));
    const app = express();
    const erasures = { listErasures: async () => [], findErasure: async () => null };
    const rows = createLeaseStore(database());
    const leases = { leases: rows, listLiveProcesses: async () => [], revokeLeases: rows.revokeAll };
    const catalog = { listModels: () => [], listProviders: () => [], importModels: () => Promise.reject(new Error('no test imports')) };
    const getUsage = async ({ slug }: { slug: string }) => ({ project: slug });
    const audit = createAudit({ database: database(), clock });
    const people = createPeople({ database: database(), clock });
    const publicUrl = () => null;
    const routing = () => ({ catalog: buildCatalog({ providers: {}, models: {}, tiers: {} }), catalogFill: false });
    const deps = {
      projects,
      keyring,
      memorySettings,
      exportMemory: createExportMemory({ database: database() }),
      importMemory: createImportMemory({ database: database(), clock }),
      batches,
      listCalls,
      findCall: async () => null,
      refusedCalls: { list: async () => [], find: async () => null, count: async () => ({ calls: 0, recorded: 0, byReason: [] }) },
      clock,
      getUsage,
      leases,
      listQuarantined: async () => [],
      catalog,
      erasures,
      routing,
      findUnusableModels: () => [],
      readEndUser: () => Promise.reject(new Error('not used')),
      getDeploymentUsage: async () => ({}),
      reprice,
      audit,
      logger: silentLogger,
      people,
      publicUrl,
      adminTokens: () => [adminToken],
      health: { getNotReadyReasons: async () => [], getDegradations: () => [] },
      version: '1.2.3',
      readWork: async () => null,
    };
    app.use('/provision', createProvisionRoutes(deps));
    app.use(createErrorHandler({ logger: silentLogger, countError: () => undefined, errorPace: () => 0 }));
    server = createServer(app);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    url = typeof address === 'object' && address ? `http://127.0.0.1:${address.port}/provision` : '';
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  const send = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const content = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) };
    const type = body === undefined ? {} : { 'content-type': 'application/json' };
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${adminToken}`, ...type, ...headers },
      ...content,
    });
    const text = await response.text();
    return { status: response.status, json: text.startsWith('{') ? JSON.parse(text) : null, text };
  };

  describe('the admin token', () => {
    test.each([
      [{ authorization: '' }, 'missing_key'],
      [{ authorization: `Basic ${adminToken}` }, 'missing_key'],
      [{ authorization: 'Bearer wrong' }, 'invalid_key'],
      [{ authorization: `Bearer ${adminToken}x` }, 'invalid_key'],
    ])('returns 401 for %j before it checks the path and the body', async (headers, code) => {
      for (const path of ['/teams', '/teams/unknown/keys', '/nothing']) {
        expect(await send('POST', path, '{not json', headers)).toMatchObject({ status: 401, json: { error: { code, type: code } } });
      }
    });
  });

  test('creates, changes, reads and lists projects', async () => {
    const created = await send('PUT', '/teams/acme', { name: 'Acme', monthly_cap: 5 });
    expect(created).toMatchObject({ status: 201, json: { project: 'acme', name: 'Acme', monthly_cap: 5, may_call: true } });
    expect(await send('PUT', '/teams/acme', { may_call: false })).toMatchObject({ status: 200, json: { monthly_cap: 5, may_call: false } });
    expect(await send('PUT', '/teams/acme', { on_budget_store_down: 'refuse' })).toMatchObject({
      json: { on_budget_store_down: 'refuse' },
    });
    expect((await send('PUT', '/teams/acme', { on_budget_store_down: 'maybe' })).status).toBe(400);
    const read = await send('GET', '/teams/acme');
    expect(read).toMatchObject({ status: 200, json: { may_call: false } });
    expect(await send('GET', '/teams')).toMatchObject({ status: 200, json: { object: 'list', data: expect.arrayContaining([read.json]) } });
  });

  test('creates a project from a request without a body', async () => {
    expect((await send('PUT', '/teams/bare')).status).toBe(201);
    expect((await send('PUT', '/teams/bare')).status).toBe(200);
  });

  test('issues a key and returns its secret only once', async () => {
    await send('PUT', '/teams/keys', {});
    const body = {
      name: 'ci',
      models: ['standard'],
      required_tags: ['eu'],
      ceilings: { rpm: 60, cost: 1.5 },
      windows: { cost: 'day' },
      on_budget_store_down: 'refuse',
      default_max_output_tokens: 500,
      expires_at: '2027-01-01T00:00:00Z',
    };
    const issued = await send('POST', '/teams/keys/keys', body);
    const { key, prefix, ...shown } = issued.json;
    expect(issued.status).toBe(201);
    expect(key).toMatch(new RegExp(`^sk-gw-${prefix}-`));
    expect(shown).toEqual({
      name: 'ci',
      models: ['standard'],
      required_tags: ['eu'],
      ceilings: { calls: null, cost: 1.5, rpm: 60, tpm: null },
      windows: { calls: 'month', cost: 'day' },
      on_budget_store_down: 'refuse',
      default_max_output_tokens: 500,
      expires_at: '2027-01-01T00:00:00Z',
      created_at: '2026-11-20T10:00:00Z',
      warnings: [],
    });
    const rotated = await send('POST', `/teams/keys/keys/${prefix}/rotate`, { grace_seconds: 60 });
    expect(rotated).toMatchObject({ status: 201, json: { key: expect.stringMatching(/^sk-gw-/), ceilings: shown.ceilings } });
    const listed = await send('GET', '/teams/keys/keys');
    expect(listed.json.data.map((row: { prefix: string }) => row.prefix).sort()).toEqual([prefix, rotated.json.prefix].sort());
    expect(listed.text).not.toContain(key);
    const revoked = await send('DELETE', `/teams/keys/keys/${prefix}`);
    expect(revoked).toMatchObject({ status: 200, json: { prefix, revoked_at: '2026-11-20T10:00:00Z' } });
    expect((await send('POST', `/teams/keys/keys/${prefix}/rotate`)).status).toBe(409);
  });

  test("applies a rotated key's new ceilings to its predecessors too", async () => {
    await send('PUT', '/teams/changes', {});
    const old = (await send('POST', '/teams/changes/keys', { name: 'ci', ceilings: { rpm: 60, cost: 5 }, windows: { cost: 'day' } })).json;
    const { prefix } = (await send('POST', `/teams/changes/keys/${old.prefix}/rotate`, { grace_seconds: 60 })).json;
    const path = `/teams/changes/keys/${prefix}`;
    expect(await send('PATCH', path, { name: 'server', ceilings: { cost: 7, tpm: 9 }, expires_at: '2027-01-01T00:00:00Z' })).toMatchObject({
      status: 200,
      json: { name: 'server', ceilings: { calls: null, cost: 7, rpm: 60, tpm: 9 }, windows: { cost: 'day' }, models: null },
    });
    expect((await send('GET', '/teams/changes/keys')).json.data).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ prefix, name: 'server', expires_at: '2027-01-01T00:00:00Z' }),
        expect.objectContaining({
          ...{ prefix: old.prefix, name: 'ci', expires_at: '2026-11-20T10:01:00Z' },
          ceilings: { calls: null, cost: 7, rpm: 60, tpm: 9 },
        }),
      ]),
    );
    expect(await send('PATCH', path, { ceilings: { cost: null }, expires_at: null })).toMatchObject({
      json: { ceilings: { cost: null, rpm: 60 }, windows: { cost: 'month' }, expires_at: null },
    });
    expect((await send('PATCH', path, { required_tags: ['eu'] })).json).toMatchObject({ required_tags: ['eu'], ceilings: { rpm: 60 } });
    expect((await send('PATCH', path, { name: 'tagged' })).json).toMatchObject({ required_tags: ['eu'] });
    expect((await send('GET', '/teams/changes/keys')).json.data).toEqual([
      expect.objectContaining({ required_tags: ['eu'] }),
      expect.objectContaining({ required_tags: ['eu'] }),
    ]);
    for (const body of [{ windows: { cost: 'day' } }, { expires_at: '2020-01-01T00:00:00Z' }, { name: '' }, { x: 1 }])
      expect((await send('PATCH', path, body)).status).toBe(400);
    expect((await send('PATCH', `/teams/keys/keys/${prefix}`, { name: 'x' })).status).toBe(404);
    await send('DELETE', path);
    expect((await send('PATCH', path, { name: 'x' })).status).toBe(409);
  });

  test('changes, reads and lists an application whose name contains special characters', async () => {
    await send('PUT', '/teams/apps', {});
    const path = `/teams/apps/applications/${encodeURIComponent('ci/ä 100%')}`;
    const body = { ceilings: { calls: 10, cost: 1.5 }, windows: { calls: 'day' }, tiers: { standard: ['openai/a'] } };
    const created = await send('PUT', path, body);
    expect(created).toMatchObject({
      status: 200,
      json: {
        source: 'ci/ä 100%',
        ...body,
        windows: { calls: 'day', cost: 'month' },
        created_at: '2026-11-20T10:00:00Z',
        updated_at: '2026-11-20T10:00:00Z',
      },
    });
    expect(await send('PUT', path, { ceilings: { cost: null } })).toMatchObject({
      status: 200,
      json: { ceilings: { calls: 10, cost: null }, tiers: body.tiers },
    });
    const read = await send('GET', path);
    expect(read).toMatchObject({ status: 200, json: { source: 'ci/ä 100%', ceilings: { calls: 10, cost: null } } });
    expect((await send('GET', '/teams/apps/applications')).json).toEqual({ object: 'list', data: [read.json] });
    expect(await send('DELETE', path)).toMatchObject({ status: 200, json: { ceilings: { calls: null }, created_at: null } });
    expect(await send('DELETE', path)).toMatchObject({ status: 404, json: { error: { code: 'not_found' } } });
    expect((await send('GET', '/teams/apps/applications')).json.data).toEqual([]);
    expect(await send('GET', '/teams/apps/applications/unset')).toMatchObject({ status: 200, json: { source: 'unset', created_at: null } });
  });

  test('returns 400 for an invalid application name', async () => {
    await send('PUT', '/teams/apps', {});
    for (const [name, body] of [
      ['x'.repeat(257), {}],
      ['%00', {}],
      ['bot', { ceilings: { rpm: 1 } }],
    ] as const) {
      expect(await send('PUT', `/teams/apps/applications/${name}`, body)).toMatchObject({
        status: 400,
        json: { error: { code: 'bad_request' } },
      });
    }
    expect((await send('GET', '/teams/apps/applications/%ff')).status).toBe(400);
  });

  test('returns 400 for an unencoded question mark in a name instead of changing something else', async () => {
    await send('PUT', '/teams/apps', {});
    await send('PUT', '/teams/apps/applications/bot', { ceilings: { calls: 10 } });
    for (const [method, path] of [
      ['DELETE', '/teams/apps/applications/bot?2'],
      ['PUT', '/teams/apps/applications/bot?2'],
      ['DELETE', '/people/ada?b@example.org'],
      ['DELETE', '/teams/apps/members/ada?b@example.org'],
      ['GET', '/teams/apps/end-users/ada?b'],
    ] as const)
      expect(await send(method, path)).toMatchObject({
        status: 400,
        json: { error: { code: 'bad_request', message: expect.stringContaining('a question mark in the name is %3F') } },
      });
    expect(await send('GET', '/teams/apps/applications/bot')).toMatchObject({ json: { ceilings: { calls: 10 } } });
    expect(await send('GET', '/teams/apps/applications/bot%3F2')).toMatchObject({ status: 200, json: { source: 'bot?2' } });
  });

  test('returns 404 for an unknown project or key', async () => {
    await send('PUT', '/teams/one', {});
    await send('PUT', '/teams/two', {});
    const { json } = await send('POST', '/teams/one/keys', { name: 'a' });
    for (const [method, path] of [
      ['GET', '/teams/unknown'],
      ['GET', '/teams/unknown/keys'],
      ['GET', '/teams/unknown/calls'],
      ['GET', '/teams/unknown/applications'],
      ['GET', '/teams/unknown/applications/bot'],
      ['PUT', '/teams/unknown/applications/bot'],
      ['DELETE', '/teams/unknown/applications/bot'],
      ['GET', '/teams/unknown/usage'],
      ['DELETE', '/teams/one/keys/zzzzzzzz'],
      ['DELETE', `/teams/two/keys/${json.prefix}`],
      ['POST', `/teams/two/keys/${json.prefix}/rotate`],
    ] as const) {
      expect(await send(method, path)).toMatchObject({ status: 404, json: { error: { code: 'not_found' } } });
    }
    expect((await send('POST', '/teams/unknown/keys', { name: 'ci' })).status).toBe(404);
    expect((await send('POST', '/teams/unknown/keys', { name: 'ci', colour: 'red' })).status).toBe(400);
  });

  test('reports every mistake in one 400 response', async () => {
    await send('PUT', '/teams/acme', {});
    const response = await send('POST', '/teams/acme/keys', { name: 7, ceilings: { rpm: 'many' }, x: 1 });
    expect(response).toMatchObject({ status: 400, json: { error: { code: 'bad_request' } } });
    for (const place of ['name:', 'ceilings.rpm:', '"x"']) expect(response.json.error.message).toContain(place);
    expect((await send('PUT', '/teams/Not_A_Slug', {})).status).toBe(400);
  });

  test('returns a plain-text 400 for invalid JSON', async () => {
    for (const [method, path] of [
      ['PUT', '/teams/acme'],
      ['POST', '/teams/acme/keys'],
      ['PUT', '/catalog'],
    ] as const) {
      for (const body of ['{"name": ', '\ufeff{}', ''.padEnd(3, '[')])
        expect(await send(method, path, body)).toMatchObject({ status: 400, json: null, text: 'the body is not valid JSON\n' });
    }
  });

  test("returns a plain-text 400 for a path id that isn't a UUID", async () => {
    for (const [method, path] of [
      ['GET', '/teams/acme/batches/7'],
      ['POST', '/batches/7/replay'],
      ['GET', '/teams/acme/erasures/7'],
      ['DELETE', '/people/ada@example.org/sessions/7'],
      ['DELETE', '/people/ada@example.org/tokens/7'],
    ] as const)
      expect(await send(method, path)).toMatchObject({ status: 400, json: null, text: 'id: must be a UUID\n' });
    expect(await send('DELETE', '/leases/7')).toMatchObject({ status: 400, text: 'process: must be a UUID\n' });
  });

  test('returns a plain-text 415 for any content type other than JSON', async () => {
    expect(await send('PUT', '/teams/acme', '{}', { 'content-type': 'text/plain' })).toMatchObject({
      status: 415,
      json: null,
      text: 'content type must be application/json\n',
    });
    expect((await send('PUT', '/teams/acme', '{}', { 'content-encoding': 'gzip' })).status).toBe(415);
  });

  test('returns 413 for a body over 1 MiB', async () => {
    expect(await send('PUT', '/teams/acme', { name: 'x'.repeat(1_100_000) })).toMatchObject({ status: 413, json: null });
  });

  test('filters calls and returns 400 for an invalid filter', async () => {
    const { json } = await send('PUT', '/teams/acme', {});
    expect((await send('GET', '/teams/acme/calls')).json).toEqual({ object: 'list', data: [{ id: 'row' }] });
    expect(filters.at(-1)).toEqual({ projectId: json.id, limit: 100, failed: false, hideOwn: false });
    await send(
      'GET',
      `/teams/acme/calls?limit=5&task_id=t-1&source=app&failed=true&before=${json.id}&request_id=r&subject=s&hide_own=true`,
    );
    expect(filters.at(-1)).toEqual({
      ...{ projectId: json.id, limit: 5, before: json.id, taskId: 't-1', source: 'app' },
      ...{ requestId: 'r', subject: 's', failed: true, hideOwn: true },
    });
    await send('GET', '/calls');
    expect(filters.at(-1)).toMatchObject({ projectId: null, failed: false });
    for (const query of ['failed=maybe', 'limit=0', 'limit=1001', 'limit=x', 'before=1', 'source=']) {
      expect((await send('GET', `/teams/acme/calls?${query}`)).status).toBe(400);
    }
  });
});
