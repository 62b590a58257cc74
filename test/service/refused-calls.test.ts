/**
 * Tests how callers, operators and agents can look up refused calls. This works on every route with the call id from
 * the response, and doesn't show any text.
 */
import { describe, expect, it } from '@jest/globals';
import { runCommand } from '../../src/cli/commands.ts';
import { adminToken, callsOf, defaultYaml, eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { ask, projectLender, routeOf, routes } from './inference-routes.ts';
import { bearer, issueKey } from './media-routes.ts';

interface RefusedCall {
  readonly id: string;
  readonly reason: string;
  readonly rule: string | null;
  readonly limit: number | null;
  readonly source: string | null;
  readonly explanation: string;
}
interface RefusedList {
  readonly data: readonly RefusedCall[];
  readonly counts: { readonly calls: number; readonly recorded: number; readonly not_recorded: number };
}

const yaml = (vendorUrl: string, deadUrl: string): string =>
  defaultYaml(vendorUrl, deadUrl)
    .replace('tiers:\n', `  one/picture: { per_image: 0.04 }\n  one/voice: { per_million_characters: 15 }\ntiers:\n`)
    .replace('providers:\n', `providers:\n  films: { base_url: ${vendorUrl}/v1beta, api_key: key-films, dialect: gemini }\n`);

const lent = shareGateway({ database: 'any', yaml });
const lend = projectLender(lent, 'refused');

const form = (model: string, file: string): FormData => {
  const body = new FormData();
  body.append('model', model);
  body.append(file, new Blob(['abc']), 'a.bin');
  body.append('prompt', 'a fox');
  return body;
};

interface AnyRoute {
  readonly name: string;
  /** The route in the row. */
  readonly route: string;
  readonly send: (gateway: TestGateway, key: string, model: string) => Promise<Response>;
}

const post = (path: string, body: object) => (gateway: TestGateway, key: string, model: string) =>
  gateway.call(path, { ...body, model }, { ...bearer(key), 'x-gateway-source': 'support-bot' });
const upload = (path: string, file: string) => (gateway: TestGateway, key: string, model: string) =>
  fetch(`${gateway.url}${path}`, {
    ...{ method: 'POST', body: form(model, file) },
    headers: { ...bearer(key), 'x-gateway-source': 'support-bot' },
  });

const everyRoute: readonly AnyRoute[] = [
  ...routes.map(({ name, path, body }) => ({ name, route: name, send: post(path, body) })),
  { name: 'completions', route: 'chat', send: post('/v1/completions', { prompt: 'a fox' }) },
  { name: 'images', route: 'images', send: post('/v1/images/generations', { prompt: 'a fox' }) },
  { name: 'speech', route: 'speech', send: post('/v1/audio/speech', { input: 'a fox' }) },
  { name: 'video', route: 'video', send: post('/v1/video/generations', { prompt: 'a fox' }) },
  { name: 'image edits', route: 'images', send: upload('/v1/images/edits', 'image') },
  { name: 'transcriptions', route: 'transcriptions', send: upload('/v1/audio/transcriptions', 'file') },
];

async function refusedOf({ admin, project }: TestGateway, query = ''): Promise<RefusedList> {
  return jsonOf(admin('GET', `/provision/teams/${project}/refused-calls${query}`));
}

async function findRefused({ admin, project }: TestGateway, response: Response): Promise<RefusedCall & Record<string, unknown>> {
  return jsonOf(admin('GET', `/provision/teams/${project}/refused-calls/${response.headers.get('x-gateway-call-id')}`));
}

async function change({ admin, project }: TestGateway, settings: object): Promise<void> {
  expect((await admin('PUT', `/provision/teams/${project}`, settings)).status).toBe(200);
}

describe.each(everyRoute)('a refused call on the route $name', ({ route, send }) => {
  it('stores a call under its id if it was refused for an unknown model or a revoked key', async () => {
    const gateway = await lend();
    const { key, prefix } = await issueKey(gateway, { name: 'server' });
    const unknown = await send(gateway, key, 'nothing/at-all');
    expect(unknown.status).toBe(400);
    expect(await findRefused(gateway, unknown)).toMatchObject({
      ...{ route, key: prefix, key_name: 'server', source: 'support-bot', status: 400, code: 'no_route', model_asked: 'nothing/at-all' },
    });
    expect((await gateway.admin('DELETE', `/provision/teams/${gateway.project}/keys/${prefix}`)).status).toBe(200);
    const revoked = await send(gateway, key, 'standard');
    expect(revoked.status).toBe(401);
    expect(await findRefused(gateway, revoked)).toMatchObject({
      ...{ route, key: prefix, source: 'support-bot', model_asked: null, status: 401, code: 'invalid_key', reason: 'key_revoked' },
    });
    const list = await refusedOf(gateway);
    expect(list.data).toHaveLength(2);
    expect(list.counts).toEqual({ calls: 2, recorded: 2, not_recorded: 0 });
    // The row has no text of the request.
    expect(JSON.stringify(list)).not.toContain('fox');
    expect(await callsOf(gateway)).toEqual([]);
  });
});

describe('the reason for a refused call', () => {
  it("says which of the key's ceilings refused a call, with its window and limit", async () => {
    const gateway = await lend();
    const { key } = await issueKey(gateway, { ceilings: { calls: 1 }, windows: { calls: 'day' } });
    const chat = routeOf('chat');
    expect((await ask(gateway, chat, 'one/echo', { headers: bearer(key) })).status).toBe(200);
    const refused = await ask(gateway, chat, 'one/echo', { headers: bearer(key) });
    expect(refused.status).toBe(429);
    expect(await findRefused(gateway, refused)).toMatchObject({
      ...{ reason: 'key_ceiling', rule: 'calls/day', limit: 1, code: 'tenant_capped' },
      explanation: "The call would have exceeded the key's ceiling of 1 call per day.",
    });
  });

  it("says if a call was refused by the application's ceiling or by the project's monthly cap", async () => {
    const gateway = await lend();
    const put = await gateway.admin('PUT', `/provision/teams/${gateway.project}/applications/bot`, { ceilings: { calls: 0 } });
    expect(put.status).toBe(200);
    const chat = routeOf('chat');
    const ofApplication = await ask(gateway, chat, 'one/echo', { headers: { 'x-gateway-source': 'bot' } });
    expect(await findRefused(gateway, ofApplication)).toMatchObject({ reason: 'application_ceiling', limit: 0, source: 'bot' });
    await change(gateway, { monthly_cap: 0 });
    const capped = await ask(gateway, chat, 'one/echo');
    expect(await findRefused(gateway, capped)).toMatchObject({ reason: 'project_cap', rule: 'cost/month', limit: 0, status: 429 });
  });

  it('says if a call was refused by a content rule', async () => {
    const gateway = await lend();
    const rules = [{ class: 'expression', place: 'input', action: 'block', expression: 'fox' }];
    expect((await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, { rules })).status).toBe(200);
    const more = { messages: [{ role: 'user', content: 'a fox' }] };
    const refused = await ask(gateway, routeOf('chat'), 'one/echo', { more });
    expect(refused.status).toBe(403);
    const row = await findRefused(gateway, refused);
    expect(row).toMatchObject({ reason: 'content_rule', status: 403, code: 'guardrail_blocked' });
    expect(row.rule).toBe('expression');
  });

  it('says if a call was refused because calls are off, the key may not use the model, or tags are missing', async () => {
    const gateway = await lend();
    const { key } = await issueKey(gateway, { models: ['two/echo'] });
    const chat = routeOf('chat');
    const denied = await ask(gateway, chat, 'one/echo', { headers: bearer(key) });
    expect(await findRefused(gateway, denied)).toMatchObject({ reason: 'model_not_permitted' });
    await change(gateway, { required_tags: ['eu'] });
    const untagged = await ask(gateway, chat, 'one/echo');
    expect(await findRefused(gateway, untagged)).toMatchObject({ reason: 'tags_missing', rule: 'eu', status: 400 });
    await change(gateway, { required_tags: [], may_call: false });
    const off = await ask(gateway, chat, 'one/echo');
    expect(off.status).toBe(402);
    expect(await findRefused(gateway, off)).toMatchObject({ reason: 'calls_off', code: 'subscription_required' });
  });

  it("doesn't store calls that were refused because the key is unknown or its secret is wrong", async () => {
    const gateway = await lend();
    const chat = routeOf('chat');
    const { key } = await issueKey(gateway, {});
    const wrong = `${key.slice(0, -4)}${key.endsWith('aaaa') ? 'bbbb' : 'aaaa'}`;
    for (const unknown of ['gk_unknown', wrong])
      expect((await ask(gateway, chat, 'one/echo', { headers: bearer(unknown) })).status).toBe(401);
    expect(await refusedOf(gateway)).toMatchObject({ data: [], counts: { calls: 0 } });
  });
});

describe('a large number of refused calls', () => {
  it('stores up to 60 refused calls per key and minute and only counts the rest', async () => {
    const gateway = await lend();
    await change(gateway, { may_call: false });
    const chat = routeOf('chat');
    const flood = 300;
    for (let n = 0; n < flood; n += 30) await Promise.all(Array.from({ length: 30 }, () => ask(gateway, chat, 'one/echo')));
    // The list only waits a second for calls that aren't stored yet.
    await eventually(async () => expect((await refusedOf(gateway)).counts.calls).toBe(flood));
    const { data, counts } = await refusedOf(gateway, '?limit=1000');
    // The minute may end during the test, and then the key gets another 60 rows.
    expect(data.length).toBeGreaterThanOrEqual(60);
    expect(data.length).toBeLessThanOrEqual(120);
    expect(counts).toEqual({ calls: flood, recorded: data.length, not_recorded: flood - data.length });
    expect(await run(gateway, `calls --refused --project ${gateway.project} --limit 1000`)).toContain(
      `${flood - data.length} more refused calls were counted but not recorded.`,
    );
  });

  it('paginates refused calls and filters them by reason, key and application', async () => {
    const gateway = await lend();
    const { key, prefix } = await issueKey(gateway, { models: ['two/echo'] });
    const chat = routeOf('chat');
    for (let n = 0; n < 3; n += 1) await ask(gateway, chat, 'unknown/model', { headers: { 'x-gateway-source': 'bot' } });
    await ask(gateway, chat, 'one/echo', { headers: bearer(key) });
    const first = await refusedOf(gateway, '?limit=2');
    const second = await refusedOf(gateway, `?limit=2&before=${first.data.at(-1)?.id}`);
    const all = await refusedOf(gateway);
    expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(all.data.map(({ id }) => id));
    expect(await refusedOf(gateway, '?reason=model_unknown')).toMatchObject({ counts: { calls: 3 } });
    expect((await refusedOf(gateway, `?key=${prefix}`)).data.map(({ reason }) => reason)).toEqual(['model_not_permitted']);
    expect((await refusedOf(gateway, '?source=bot')).data).toHaveLength(3);
    expect((await gateway.admin('GET', `/provision/teams/${gateway.project}/refused-calls?reason=other`)).status).toBe(400);
  });
});

describe('the refused calls of a project', () => {
  it('hides refused calls from other projects but includes them in the list for all projects', async () => {
    const [one, other] = [await lend(), await lend()];
    const refused = await ask(one, routeOf('chat'), 'unknown/model');
    const id = refused.headers.get('x-gateway-call-id');
    expect((await findRefused(one, refused)).id).toBe(id);
    expect((await other.admin('GET', `/provision/teams/${other.project}/refused-calls/${id}`)).status).toBe(404);
    expect(await refusedOf(other)).toMatchObject({ data: [], counts: { calls: 0 } });
    const all = await jsonOf<RefusedList>(one.admin('GET', '/provision/refused-calls'));
    expect(all.data.map((row) => row.id)).toContain(id);
  });
});

describe('the command gateway calls', () => {
  it('shows both served and refused calls by their id', async () => {
    const gateway = await lend();
    const chat = routeOf('chat');
    const served = (await ask(gateway, chat, 'one/echo')).headers.get('x-gateway-call-id');
    const refused = (await ask(gateway, chat, 'unknown/model')).headers.get('x-gateway-call-id');
    expect(await run(gateway, `calls ${served} --project ${gateway.project}`)).toMatch(/model +one\/echo/);
    expect(await run(gateway, `calls ${refused} --project ${gateway.project}`)).toMatch(/explanation +There is no model/);
    expect(await run(gateway, `calls --refused --project ${gateway.project}`)).toContain('model_unknown');
    expect(await run(gateway, `calls 0197b4d6-0000-7000-8000-000000000000 --project ${gateway.project}`)).toBe(
      'gateway: the project has no such call\n',
    );
    expect(await run(gateway, `calls --refused --failed --project ${gateway.project}`)).toMatch(/^gateway: refused calls have no attempts/);
  });
});

describe('calls that the gateway makes itself', () => {
  it("records the gateway's own calls when they are refused", async () => {
    const gateway = await lend();
    await change(gateway, { tiers: { embed: ['one/echo'] } });
    const put = await gateway.admin('PUT', `/provision/teams/${gateway.project}/applications/gateway-memory`, { ceilings: { calls: 0 } });
    expect(put.status).toBe(200);
    await gateway.call('/v1/memory/search', { query: 'what does Ann like?' });
    await eventually(async () =>
      expect((await refusedOf(gateway, '?source=gateway-memory')).data).toEqual([
        expect.objectContaining({ reason: 'application_ceiling', source: 'gateway-memory' }),
      ]),
    );
  });
});

async function run({ url }: TestGateway, command: string): Promise<string> {
  let written = '';
  const write = (text: string): void => {
    written += text;
  };
  await runCommand([...command.split(' '), '--url', url], { GATEWAY_ADMIN_TOKEN: adminToken }, { write, writeError: write });
  return written;
}
