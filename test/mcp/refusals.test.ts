/**
 * Tests which requests can't use `/mcp`, e.g. those with foreign hosts and origins, wrong tokens, missing scopes, other
 * methods or large bodies.
 */
import { request as httpRequest } from 'node:http';
import { expect, test } from '@jest/globals';
import { createMembers } from '../../src/people/members.ts';
import { createPersonalTokens } from '../../src/people/personal-tokens.ts';
import { shareGateway } from '../support/gateway.ts';
import { addPerson, callTool, issueToken, withClient } from './people.ts';

const shared = shareGateway({ database: 'any' });

const allScopes = 'settings:read settings:write memory:read usage:read';
const listTools = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
const readSettings = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'gateway_read_memory_settings', arguments: {} } };

interface Answer {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly body: string;
}

/** We can't use `fetch`, because it does not send another Host. */
function send(
  token: string | null,
  options: { body?: unknown; method?: string; path?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const { body = listTools, method = 'POST', path = '/mcp', headers = {} } = options;
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      new URL(path, shared().url),
      {
        method,
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...(token !== null && { authorization: `Bearer ${token}` }),
          ...headers,
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString() }),
        );
      },
    );
    sent.on('error', reject);
    sent.end(method === 'POST' ? text : undefined);
  });
}

function expectChallenge({ status, headers, body }: Answer, message: RegExp): void {
  expect([status, body]).toEqual([401, expect.stringMatching(/"error":"invalid_token"/)]);
  expect(body).toMatch(message);
  expect(headers['www-authenticate']).toMatch(/^Bearer error="invalid_token", /);
  expect(headers['www-authenticate']).toContain(`scope="${allScopes}"`);
  // Without an identity provider there is nowhere to sign in.
  expect(headers['www-authenticate']).not.toContain('resource_metadata');
}

test('returns 401 for a missing, malformed or unknown token', async () => {
  expectChallenge(await send(null), /Missing Authorization header/);
  expectChallenge(await send(null, { headers: { authorization: 'Basic dXNlcjpwYXNz' } }), /Bearer TOKEN/);
  expectChallenge(await send('unknown'), /not a personal token/);
  expectChallenge(await send(`gwp_0123456789ab_${'A'.repeat(43)}`), /invalid, revoked or expired/);
  expectChallenge(await send(shared().key), /virtual keys are not accepted here/);
});

test('returns 401 for an expired or revoked token', async () => {
  const gateway = shared();
  const person = await addPerson(gateway, [gateway.project]);
  const [expired, revoked, active] = [
    await issueToken(gateway, person),
    await issueToken(gateway, person),
    await issueToken(gateway, person),
  ];
  expect((await send(active)).status).toBe(200);
  const prefixOf = (token: string) => token.split('_')[1];
  const clock = { now: () => Date.now() };
  await gateway.database.query('update personal_tokens set expires_at = now() where prefix = $1::text', [prefixOf(expired)]);
  const tokens = createPersonalTokens({ database: gateway.database, clock });
  const record = (await tokens.list(person.id)).find(({ prefix }) => prefix === prefixOf(revoked));
  await tokens.revoke(person.id, record?.id ?? '');
  for (const token of [expired, revoked, `${active.slice(0, -1)}${active.endsWith('A') ? 'B' : 'A'}`]) {
    expectChallenge(await send(token), /invalid, revoked or expired/);
  }
  await gateway.database.query('update people set disabled_at = now() where id = $1::uuid', [person.id]);
  expectChallenge(await send(active), /invalid, revoked or expired/);
});

test("returns 403 insufficient_scope if the token lacks the tool's scope", async () => {
  const gateway = shared();
  const token = await issueToken(gateway, await addPerson(gateway, [gateway.project]), ['usage:read']);
  expect((await send(token)).status).toBe(200);
  const modern = {
    ...readSettings,
    params: {
      ...readSettings.params,
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    },
  };
  const modernHeaders = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'gateway_read_memory_settings' };
  for (const answer of [await send(token, { body: readSettings }), await send(token, { body: modern, headers: modernHeaders })]) {
    expect([answer.status, answer.headers['www-authenticate']]).toEqual([403, expect.stringMatching(/error="insufficient_scope"/)]);
    expect(answer.headers['www-authenticate']).toContain('scope="settings:read"');
    expect(answer.headers['www-authenticate']).not.toContain('resource_metadata');
  }
  await withClient(gateway, { token }, (client) => callTool(client, 'gateway_usage'));
});

test('hides a project from a person who has left it', async () => {
  const gateway = await shared().withProject('left');
  const person = await addPerson(gateway, [gateway.project]);
  const members = createMembers({ database: gateway.database, clock: { now: () => Date.now() } });
  const project = await gateway.app.projects.findBySlug(gateway.project);
  await withClient(gateway, { token: await issueToken(gateway, person) }, async (client) => {
    await callTool(client, 'gateway_read_memory_settings', { project: 'left' });
    await members.remove(project?.id ?? '', person.id);
    await expect(callTool(client, 'gateway_read_memory_settings', { project: 'left' })).rejects.toThrow('not a member of any project');
  });
});

test('returns 403 for a foreign Host or Origin header', async () => {
  for (const token of [null, await issueToken(shared(), await addPerson(shared(), []))]) {
    const host = await send(token, { headers: { host: 'attacker.example.com' } });
    expect([host.status, host.body]).toEqual([403, expect.stringMatching(/Invalid Host: attacker\.example\.com/)]);
    const origin = await send(token, { headers: { origin: 'https://attacker.example.com' } });
    expect([origin.status, origin.body]).toEqual([403, expect.stringMatching(/Invalid Origin/)]);
    expect(origin.headers['access-control-allow-origin']).toBeUndefined();
  }
});

test('returns 405 for GET and DELETE', async () => {
  const token = await issueToken(shared(), await addPerson(shared(), []));
  expect((await send(token, { method: 'GET' })).status).toBe(405);
  expect((await send(token, { method: 'DELETE' })).status).toBe(405);
  expectChallenge(await send(null, { method: 'GET' }), /Missing Authorization header/);
});

test('returns 413 for a body over 1 MB', async () => {
  const token = await issueToken(shared(), await addPerson(shared(), []));
  expect((await send(token, { body: ' '.repeat(1024 * 1024 + 1) })).status).toBe(413);
  const invalid = await send(token, { body: '{' });
  expect([invalid.status, JSON.parse(invalid.body)]).toMatchObject([400, { error: { code: -32_700 }, id: null }]);
  for (const levels of [101, 200_000]) {
    const nested = await send(token, { body: '['.repeat(levels) + ']'.repeat(levels) });
    expect([nested.status, JSON.parse(nested.body)]).toMatchObject([
      400,
      { error: { code: -32_600, message: expect.stringContaining('more than 100 levels') }, id: null },
    ]);
  }
  expect((await send(token, { headers: { 'content-type': 'text/plain' } })).status).toBe(415);
});

test('returns 400 for a message that repeats a key', async () => {
  const token = await issueToken(shared(), await addPerson(shared(), []));
  const call = '{"name":"gateway_usage","arguments":{"project":"a","project":"b"}}';
  const { status, body } = await send(token, { body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${call}}` });
  expect([status, JSON.parse(body)]).toMatchObject([400, { error: { code: -32_600, message: expect.stringContaining('twice') } }]);
});

test('returns 429 if a person sends more than 120 requests in a minute', async () => {
  const gateway = shared();
  const [busy, other] = [await addPerson(gateway, []), await addPerson(gateway, [])];
  const [token, otherToken] = [await issueToken(gateway, busy), await issueToken(gateway, other)];
  const refused: Answer[] = [];
  // A new minute may begin meanwhile, so we need twice the limit at most.
  for (let sent = 0; refused.length === 0 && sent < 260; sent += 20) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(token, { method: 'GET' })));
    refused.push(...answers.filter(({ status }) => status === 429));
  }
  expect(refused[0]?.headers['retry-after']).toMatch(/^\d+$/);
  expect((await send(otherToken)).status).toBe(200);
});

test('counts each message of a batch', async () => {
  const token = await issueToken(shared(), await addPerson(shared(), []));
  const batch = (count: number) =>
    JSON.stringify(Array.from({ length: count }, (_, id) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'none' } })));
  // A new minute may begin in between, so the second batch may still be allowed.
  const statuses: number[] = [];
  for (const count of [61, 61, 61]) statuses.push((await send(token, { body: batch(count) })).status);
  expect(statuses[0]).toBe(200);
  expect(statuses).toContain(429);
});

test('lets pages from any origin read the OAuth metadata', async () => {
  const { url } = shared();
  const expected = {
    resource: `${url}/mcp`,
    resource_name: 'Model gateway',
    scopes_supported: allScopes.split(' '),
    bearer_methods_supported: ['header'],
  };
  for (const path of ['/.well-known/oauth-protected-resource/mcp', '/.well-known/oauth-protected-resource']) {
    const { status, headers, body } = await send(null, { method: 'GET', path, headers: { origin: 'https://inspector.example.com' } });
    expect([status, headers['access-control-allow-origin'], JSON.parse(body)]).toEqual([200, '*', expected]);
    expect((await send(null, { method: 'OPTIONS', path })).status).toBe(204);
    expect((await send(null, { method: 'POST', path })).status).toBe(405);
    expect((await send(null, { method: 'GET', path, headers: { host: 'attacker.example.com' } })).status).toBe(403);
  }
});
