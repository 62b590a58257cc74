/** Tests access to `/mcp` with tokens of a real OpenID Connect provider. */
import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { generateKeyPair, SignJWT } from 'jose';
import { defaultYaml, shareGateway } from '../support/gateway.ts';
import { type IdentityProvider, startIdentityProvider } from '../support/identity-provider.ts';
import { addPerson, callTool, issueToken, withClient } from './people.ts';

const client = { id: 'agent', secret: 'agent-secret-0123456789', redirectUri: 'https://agent.example.com/callback' };
const publicUrl = 'https://gateway.example.com';
const resource = `${publicUrl}/mcp`;
const scope = 'settings:read usage:read';

const provider: IdentityProvider = await startIdentityProvider(client);
const shared = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) =>
    `${defaultYaml(vendorUrl, deadUrl)}\npublic_url: ${publicUrl}\noidc: { issuer: "${provider.issuer}", client_id: console }\n`,
});
afterAll(() => provider.close());

const nowSeconds = () => Math.floor(Date.now() / 1_000);
let email = '';
let personId = '';

beforeAll(async () => {
  const person = await addPerson(shared(), ['acme']);
  email = person.email;
  personId = person.id;
  await shared().database.query('update people set oidc_issuer = $2::text, oidc_sub = $3::text where id = $1::uuid', [
    person.id,
    provider.issuer,
    'ada',
  ]);
});

const claims = (changes: Readonly<Record<string, unknown>> = {}) => ({
  iss: provider.issuer,
  aud: resource,
  sub: 'ada',
  iat: nowSeconds(),
  exp: nowSeconds() + 300,
  scope,
  client_id: client.id,
  ...changes,
});

function listTools(token: string): Promise<Response> {
  return fetch(`${shared().url}/mcp`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  });
}

test("names the identity provider and the gateway's public address in the OAuth metadata", async () => {
  const response = await fetch(`${shared().url}/.well-known/oauth-protected-resource/mcp`);
  expect(await response.json()).toMatchObject({ resource, authorization_servers: [provider.issuer] });
  const challenge = (await listTools('')).headers.get('www-authenticate');
  expect(challenge).toContain(`resource_metadata="${publicUrl}/.well-known/oauth-protected-resource/mcp"`);
});

test('lets an MCP client call tools after a person signs in with the identity provider', async () => {
  provider.people.set('ada', { email, email_verified: true });
  const verifier = randomBytes(32).toString('base64url');
  const url = new URL('/auth', provider.issuer);
  url.search = new URLSearchParams({
    ...{ client_id: client.id, redirect_uri: client.redirectUri, response_type: 'code', scope: `openid ${scope}`, resource },
    ...{ code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256' },
  }).toString();
  const callback = await provider.signIn(url.href, 'ada');
  const response = await fetch(new URL('/token', provider.issuer), {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${client.id}:${client.secret}`).toString('base64')}` },
    body: new URLSearchParams({
      ...{ grant_type: 'authorization_code', code: callback.searchParams.get('code') ?? '', redirect_uri: client.redirectUri },
      ...{ code_verifier: verifier, resource },
    }),
  });
  const { access_token: token } = (await response.json()) as { access_token: string };
  await withClient(shared(), { token }, async (mcp) => {
    expect(await callTool(mcp, 'gateway_read_memory_settings')).toMatchObject({ project: 'acme', settings: { enabled: true } });
    await expect(callTool(mcp, 'gateway_set_memory_settings', { batch_of: 5 })).rejects.toThrow(/scope/i);
  });
});

test('records the owner of the token in the audit log when a tool changes a setting', async () => {
  const token = await provider.sign(claims({ scope: 'settings:write' }));
  await withClient(shared(), { token }, (mcp) => callTool(mcp, 'gateway_set_memory_settings', { batch_of: 6 }));
  const rows = await shared().database.query(
    `select actor, outcome, detail ->> 'client' as client from audit_log where person_id = $1::uuid`,
    [personId],
  );
  expect(rows).toEqual([{ actor: 'person', outcome: 'ok', client: 'agent' }]);
});

test('still accepts personal tokens if an identity provider is configured', async () => {
  const token = await issueToken(shared(), await addPerson(shared(), ['acme']));
  expect((await listTools(token)).status).toBe(200);
});

describe('accepted tokens', () => {
  test.each([
    ['several audiences, scopes as a list', () => ({ aud: ['other', resource], scope: undefined, scp: ['usage:read'] })],
    ['a clock that is 20 seconds off', () => ({ exp: nowSeconds() - 20, nbf: nowSeconds() + 20 })],
  ])('accepts a token with %s', async (_title, changes) => {
    expect((await listTools(await provider.sign(claims(changes())))).status).toBe(200);
  });

  test('finds a person by their verified e-mail address on the first sign-in', async () => {
    const person = await addPerson(shared(), []);
    const byEmail = { sub: 'new', email: person.email.toUpperCase(), email_verified: true };
    expect((await listTools(await provider.sign(claims(byEmail)))).status).toBe(200);
  });
});

describe('rejected tokens', () => {
  test.each([
    ['an expired token', () => ({ exp: nowSeconds() - 60 }), /has expired/],
    ['a token that is not valid yet', () => ({ nbf: nowSeconds() + 60 }), /wrong nbf/],
    ['a token for another resource', () => ({ aud: 'https://other.example.com/mcp' }), /wrong aud/],
    ['a token for the client, such as an ID token', () => ({ aud: client.id }), /wrong aud/],
    ['a token of another issuer', () => ({ iss: 'https://issuer.example.com' }), /wrong iss/],
    ['a token without expiry', () => ({ exp: undefined }), /must have the claims/],
    ['an unknown subject', () => ({ sub: 'eve' }), /not belong to an active person/],
    [
      'an unknown subject with an unverified address',
      () => ({ sub: 'eve', email, email_verified: false }),
      /not belong to an active person/,
    ],
    [
      'another subject with the address of a connected person',
      () => ({ sub: 'eve', email, email_verified: true }),
      /not belong to an active person/,
    ],
  ])('returns 401 for %s', async (_title, changes, message) => {
    const response = await listTools(await provider.sign(claims(changes())));
    expect([response.status, await response.text()]).toEqual([401, expect.stringMatching(message)]);
    expect(response.headers.get('www-authenticate')).toContain('resource_metadata=');
  });

  test('returns 401 for a token with an invalid signature', async () => {
    const { privateKey } = await generateKeyPair('RS256');
    const forged = await new SignJWT(claims()).setProtectedHeader({ alg: 'RS256', kid: 'test' }).sign(privateKey);
    const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from(JSON.stringify(claims())).toString('base64url')}.`;
    for (const token of [forged, unsigned, 'opaque']) expect([token, (await listTools(token)).status]).toEqual([token, 401]);
  });

  test('returns 401 for a virtual key', async () => {
    expect((await listTools(shared().key)).status).toBe(401);
  });

  test('returns 401 for a disabled person', async () => {
    const person = await addPerson(shared(), []);
    const token = await provider.sign(claims({ sub: 'leaving', email: person.email, email_verified: true }));
    expect((await listTools(token)).status).toBe(200);
    await shared().database.query('update people set disabled_at = now() where id = $1::uuid', [person.id]);
    expect((await listTools(token)).status).toBe(401);
  });
});
