/**
 * Tests callers whose access ends while the body of their request is still arriving. For every route with a body, we
 * send the beginning of a request, take the access away, and send the rest.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it, test } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { csrfTokenOf } from '../../src/console/frame/same-site.ts';
import { asObject } from '../../src/core/json/narrow.ts';
import { describeApi } from '../../src/http/openapi.ts';
import { addPerson, issueToken } from '../mcp/people.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { registeredRoutes } from '../support/console-routes.ts';
import { adminToken, defaultYaml, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';

const lent = shareGateway({ database: 'any', yaml: (vendor, dead) => defaultYaml(vendor, dead).replace('two: {', 'two: { tags: [eu],') });
const uuid = '01900000-0000-7000-8000-000000000000';

interface SlowRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface HeldRequest {
  readonly title: string;
  /** Sends the rest of the body, and returns the whole response. */
  finish(): Promise<string>;
}

/** Sends the head of a request and the first byte of its body. */
async function hold({ url }: TestGateway, { method, path, headers, body }: SlowRequest): Promise<HeldRequest> {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  const all = { host, connection: 'close', 'content-length': String(Buffer.byteLength(body)), ...headers };
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  await once(socket, 'connect');
  socket.write(`${method} ${path} HTTP/1.1\r\n${head.join('')}\r\n${body.slice(0, 1)}`);
  const answer = text(socket);
  return {
    title: `${method} ${path}`,
    finish() {
      socket.write(body.slice(1));
      return answer;
    },
  };
}

/**
 * Waits until the gateway has authenticated the held requests. It authenticates in the order of arrival, and these
 * later requests need more queries.
 */
async function settle(gateway: TestGateway, ...people: readonly SignedIn[]): Promise<void> {
  await gateway.call('/v1/chat/completions', { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] });
  await gateway.admin('GET', '/provision/teams');
  for (let round = 0; round < 2; round += 1) for (const { get } of people) expect((await get('/console/p/acme/keys')).status).toBe(200);
}

/** The routes with a body that the OpenAPI document describes below `prefix`. */
function routesWithBody(prefix: string): { method: string; path: string; isMultipart: boolean }[] {
  return Object.entries(asObject(describeApi().paths)).flatMap(([path, methods]) =>
    Object.entries(asObject(methods)).flatMap(([method, operation]) => {
      const { requestBody } = asObject(operation);
      if (requestBody === undefined || !path.startsWith(prefix)) return [];
      const isMultipart = Object.keys(asObject(asObject(requestBody).content)).includes('multipart/form-data');
      return [{ method: method.toUpperCase(), path: path.replace('{project}', 'acme').replaceAll(/\{\w+\}/g, uuid), isMultipart }];
    }),
  );
}

const json = { type: 'application/json', body: '{}' };
const multipart = {
  type: 'multipart/form-data; boundary=x',
  body: '--x\r\ncontent-disposition: form-data; name="model"\r\n\r\none/echo\r\n--x--\r\n',
};

/** Holds one request for each route. */
function holdAll(gateway: TestGateway, prefix: string, token: string): Promise<HeldRequest[]> {
  return Promise.all(
    routesWithBody(prefix).map(({ method, path, isMultipart }) => {
      const { type, body } = isMultipart ? multipart : json;
      return hold(gateway, { method, path, headers: { authorization: `Bearer ${token}`, 'content-type': type }, body });
    }),
  );
}

const statusOf = (answer: string): number => Number(answer.split(' ')[1]);
const statusesOf = async (held: readonly HeldRequest[]): Promise<Record<string, number>> =>
  Object.fromEntries(await Promise.all(held.map(async ({ title, finish }) => [title, statusOf(await finish())])));

describe('a virtual key that is revoked, changed or expired', () => {
  it('rejects the requests of a revoked key on every route', async () => {
    const gateway = lent();
    const { key, prefix } = await jsonOf<{ key: string; prefix: string }>(
      gateway.admin('POST', '/provision/teams/acme/keys', { name: 'slow' }),
    );
    const held = await holdAll(gateway, '/v1/', key);
    expect(held.length).toBeGreaterThan(20);
    await settle(gateway);
    expect((await gateway.admin('DELETE', `/provision/teams/acme/keys/${prefix}`)).status).toBe(200);
    expect(await statusesOf(held)).toEqual(Object.fromEntries(held.map(({ title }) => [title, 401])));
  });

  it.each([
    ['models', { models: ['one/echo'] }, 'no_route'],
    ['required tags', { required_tags: ['none'] }, 'no_route'],
  ])('uses the new %s of the key', async (_title, change, code) => {
    const gateway = lent();
    const { key, prefix } = await jsonOf<{ key: string; prefix: string }>(
      gateway.admin('POST', '/provision/teams/acme/keys', { name: 'slow' }),
    );
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ model: 'two/echo', max_tokens: 5, prompt: 'x', input: 'x', messages: [{ role: 'user', content: 'hi' }] });
    const paths = ['/v1/chat/completions', '/v1/messages', '/v1/embeddings', '/v1/images/generations'];
    const held = await Promise.all(paths.map((path) => hold(gateway, { method: 'POST', path, headers, body })));
    await settle(gateway);
    await gateway.admin('PATCH', `/provision/teams/acme/keys/${prefix}`, change);
    for (const { finish } of held) {
      const answer = await finish();
      expect(statusOf(answer)).toBe(400);
      if (!answer.includes('"type":"error"')) expect(answer).toContain(code);
    }
  });
});

test('rejects the requests of an admin token that was replaced', async () => {
  const gateway = lent();
  const held = await holdAll(gateway, '/provision', adminToken);
  expect(held.length).toBeGreaterThan(10);
  await settle(gateway);
  const load = (token: string) =>
    loadConfig({
      env: { GATEWAY_TEMPORAL: 'off', GATEWAY_LOCAL_EMBEDDER: 'off', GATEWAY_DATA_DIR: gateway.dataDir, GATEWAY_ADMIN_TOKEN: token },
      fileText: defaultYaml(gateway.vendor.url, 'http://127.0.0.1:9'),
      fileName: 'gateway.yaml',
    });
  await gateway.app.reload(load('a-new-admin-token-0123456789abcdef'));
  try {
    expect(await statusesOf(held)).toEqual(Object.fromEntries(held.map(({ title }) => [title, 401])));
  } finally {
    await gateway.app.reload(load(adminToken));
  }
});

test('rejects the message of a revoked personal token over MCP', async () => {
  const gateway = lent();
  const person = await addPerson(gateway, ['acme']);
  const headers = {
    authorization: `Bearer ${await issueToken(gateway, person)}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  const call = { name: 'gateway_set_memory_settings', arguments: { project: 'acme', batch_of: 77 } };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call });
  const held = await hold(gateway, { method: 'POST', path: '/mcp', headers, body });
  await settle(gateway);
  await gateway.database.query('update personal_tokens set revoked_at = now() where person_id = $1::uuid', [person.id]);
  const answer = await held.finish();
  expect(statusOf(answer)).toBe(401);
  expect(answer).toMatch(/www-authenticate: Bearer error="invalid_token"/i);
  expect(await (await gateway.admin('GET', '/provision/teams/acme/memory')).text()).not.toContain('77');
});

describe('a person in the console', () => {
  const holdForms = async (gateway: TestGateway, cookie: string, access: readonly string[]): Promise<HeldRequest[]> => {
    const headers = { cookie, 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' };
    const body = new URLSearchParams({ csrf: csrfTokenOf(cookie.split('=')[1] ?? ''), name: 'evil' }).toString();
    const routes = registeredRoutes.filter((route) => route.method === 'post' && access.includes(route.access));
    const addressOf = ({ access: needed, path }: (typeof routes)[number]): string =>
      `/console${needed === 'member' || needed === 'owner' ? '/p/acme' : ''}${path.replaceAll(/:\w+/g, uuid)}`;
    return Promise.all(routes.map((route) => hold(gateway, { method: 'POST', path: addressOf(route), headers, body })));
  };

  it('rejects the forms of a session that has ended, on every route', async () => {
    const gateway = lent();
    const admin = await signIn(gateway, 'admin', 'Eve');
    const held = await holdForms(gateway, admin.cookie, ['person', 'member', 'owner', 'admin']);
    expect(held.length).toBeGreaterThan(40);
    await settle(gateway, admin);
    await gateway.database.query('delete from sessions where person_id = $1::uuid', [admin.personId]);
    expect(await statusesOf(held)).toEqual(Object.fromEntries(held.map(({ title }) => [title, 401])));
  });

  it('rejects the forms of an owner who has become a member, and of an admin who has been demoted', async () => {
    const gateway = lent();
    const [owner, admin] = [await signIn(gateway, 'owner', 'Eve'), await signIn(gateway, 'admin', 'Mallory')];
    const held = await holdForms(gateway, owner.cookie, ['owner', 'member']);
    const heldByAdmin = await holdForms(gateway, admin.cookie, ['admin']);
    await settle(gateway, owner, admin);
    await gateway.database.query(`update members set role = 'member' where person_id = $1::uuid`, [owner.personId]);
    await gateway.database.query('update people set is_admin = false where id = $1::uuid', [admin.personId]);
    expect(await statusesOf(held)).toEqual(Object.fromEntries(held.map(({ title }) => [title, 403])));
    expect(await statusesOf(heldByAdmin)).toEqual(Object.fromEntries(heldByAdmin.map(({ title }) => [title, 404])));
  });
});
