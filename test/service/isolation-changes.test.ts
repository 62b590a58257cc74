/**
 * Tests that a change in one project never affects another one. We run every route, form, command and tool that changes
 * something in project `acme`. There's also a project `beta` that has the same subjects, names, addresses and strings.
 * After each change, the rows of `beta` have to be byte-identical. After that, we repeat all changes with an empty
 * `beta`. All responses have to be the same as before, because no response can depend on the contents of another
 * project.
 *
 * The lists of changes come from the code. If you add a route, form, command or tool, this test fails until you add an
 * input for it.
 */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { commands } from '../../src/cli/command-table.ts';
import { runCommand } from '../../src/cli/commands.ts';
import { systemClock } from '../../src/core/time.ts';
import { ruleIdOf } from '../../src/guardrails/content-rule.ts';
import { describeApi } from '../../src/http/openapi.ts';
import { createPeople, type People } from '../../src/people/people.ts';
import { addPerson, issueToken, withClient } from '../mcp/people.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { registeredRoutes } from '../support/console-routes.ts';
import { adminToken, jsonOf, shareGateway, type TestGateway, withGateway } from '../support/gateway.ts';
import { type MemorySamples, storeMemorySamples } from '../support/memory-samples.ts';

const subject = 'ann';
const invited = 'ann@customer.example';
const ben = 'ben@customer.example';

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** What the inputs work with. All records belong to project `acme`. */
interface Acme {
  readonly gateway: TestGateway;
  readonly people: People;
  readonly samples: MemorySamples;
  readonly owner: SignedIn;
  readonly member: SignedIn;
  readonly admin: SignedIn;
  readonly key: (method: string, path: string, body?: unknown) => Promise<Response>;
  readonly provision: (method: string, path: string, body?: unknown) => Promise<Response>;
  /**
   * `item`, `prefix`, `person` and `token` create a new record each time, because some changes can be made only once.
   */
  readonly item: () => Promise<string>;
  readonly prefix: () => Promise<string>;
  readonly person: () => Promise<{ readonly id: string; readonly email: string }>;
  readonly token: (personId: string) => Promise<string>;
  readonly batch: () => Promise<string>;
  readonly sessionOf: (personId: string) => Promise<string>;
}

type Input = (acme: Acme) => Promise<Response>;

const chat = { model: 'one/echo', messages: [{ role: 'user', content: 'Do I like tea?' }], user: subject };
const base = '/console/p/acme';
const team = '/teams/acme';
let count = 0;
const unique = (): string => {
  count += 1;
  return `number-${count}`;
};

/**
 * These changes may be refused, because the scripted vendor doesn't serve the route or because they need a state that
 * no test here creates.
 */
const mayRefuse = new Set([
  ...['/v1/images/generations', '/v1/images/edits', '/v1/audio/transcriptions', '/v1/audio/translations', '/v1/audio/speech'].map(
    (path) => `POST ${path}`,
  ),
  ...['generations', 'operations', 'download'].map((name) => `POST /v1/video/${name}`),
  ...['POST /v1/messages/count_tokens', 'DELETE /provision/leases/{process}', 'PUT /provision/catalog'],
  ...['leases release', 'catalog import', 'catalog remove', '/admin/prices/preview', '/admin/prices/import', '/admin/prices/remove'],
]);

/** Requests for all operations of the OpenAPI document, keyed by method and path. */
const requests: Readonly<Record<string, Input>> = {
  'POST /v1/chat/completions': ({ key }) => key('POST', '/v1/chat/completions', chat),
  'POST /v1/messages': ({ key }) => key('POST', '/v1/messages', { ...chat, user: undefined, model: 'three/echo', max_tokens: 9 }),
  'POST /v1/responses': ({ key }) => key('POST', '/v1/responses', { model: 'one/echo', input: 'Do I like tea?', user: subject }),
  'POST /v1/completions': ({ key }) => key('POST', '/v1/completions', { model: 'one/echo', prompt: 'Do I like tea?' }),
  'POST /v1/embeddings': ({ key }) => key('POST', '/v1/embeddings', { model: 'one/echo', input: 'tea' }),
  'POST /v1/moderations': ({ key }) => key('POST', '/v1/moderations', { model: 'one/echo', input: 'tea' }),
  'POST /v1/rerank': ({ key }) => key('POST', '/v1/rerank', { model: 'one/echo', query: 'tea', documents: ['tea', 'coffee'] }),
  'POST /v1/messages/count_tokens': ({ key }) => key('POST', '/v1/messages/count_tokens', { ...chat, model: 'three/echo' }),
  'POST /v1/images/generations': ({ key }) => key('POST', '/v1/images/generations', { prompt: 'tea' }),
  'POST /v1/images/edits': ({ key }) => key('POST', '/v1/images/edits', {}),
  'POST /v1/audio/transcriptions': ({ key }) => key('POST', '/v1/audio/transcriptions', {}),
  'POST /v1/audio/translations': ({ key }) => key('POST', '/v1/audio/translations', {}),
  'POST /v1/audio/speech': ({ key }) => key('POST', '/v1/audio/speech', { input: 'tea', voice: 'x' }),
  'POST /v1/video/generations': ({ key }) => key('POST', '/v1/video/generations', { prompt: 'tea' }),
  'POST /v1/video/operations': ({ key }) => key('POST', '/v1/video/operations', { id: randomUUID() }),
  'POST /v1/video/download': ({ key }) => key('POST', '/v1/video/download', { id: randomUUID() }),
  'POST /v1/memory/items': ({ key }) => key('POST', '/v1/memory/items', { text: 'Ann likes tea', subject }),
  'PATCH /v1/memory/items/{id}': async ({ key, item }) => key('PATCH', `/v1/memory/items/${await item()}`, { text: 'Ann likes tea' }),
  'DELETE /v1/memory/items/{id}': async ({ key, item }) => key('DELETE', `/v1/memory/items/${await item()}`),
  'POST /v1/memory/items/{id}/rating': async ({ key, item }) => key('POST', `/v1/memory/items/${await item()}/rating`, { rating: 'wrong' }),
  'POST /v1/memory/search': ({ key }) => key('POST', '/v1/memory/search', { query: 'tea', subject }),
  'POST /v1/memory/recall': ({ key }) => key('POST', '/v1/memory/recall', { text: 'Do I like tea?', subject, dry_run: true }),
  'POST /v1/memory/wake-up': ({ key }) => key('POST', '/v1/memory/wake-up', { subject }),
  'POST /v1/memory/graph': ({ key }) => key('POST', '/v1/memory/graph', { query: 'tea', subject }),
  'DELETE /v1/memory/subjects/{subject}': async (acme) => {
    await storeProfile(acme.gateway);
    return acme.key('DELETE', `/v1/memory/subjects/${subject}`);
  },
  'DELETE /v1/memory/subjects': ({ key }) => key('DELETE', '/v1/memory/subjects?subject=..'),
  'POST /v1/memory/episodes/{id}/remember': ({ key, samples }) =>
    key('POST', `/v1/memory/episodes/${samples.conversationId}/remember`, { focus: 'tea' }),
  'PUT /provision/teams/{project}': ({ provision }) => provision('PUT', team, { name: 'Tea', time_zone: 'Europe/Berlin' }),
  'POST /provision/teams/{project}/keys': ({ provision }) => provision('POST', `${team}/keys`, { name: 'the key' }),
  'DELETE /provision/teams/{project}/keys/{prefix}': async ({ provision, prefix }) => provision('DELETE', `${team}/keys/${await prefix()}`),
  'PATCH /provision/teams/{project}/keys/{prefix}': async ({ provision, prefix }) =>
    provision('PATCH', `${team}/keys/${await prefix()}`, { name: 'the changed key' }),
  'POST /provision/teams/{project}/keys/{prefix}/rotate': async ({ provision, prefix }) =>
    provision('POST', `${team}/keys/${await prefix()}/rotate`, { grace_seconds: 60 }),
  'PUT /provision/teams/{project}/applications/{source}': ({ provision }) =>
    provision('PUT', `${team}/applications/bot`, { tiers: { standard: ['two/echo'] } }),
  'DELETE /provision/teams/{project}/applications/{source}': ({ provision }) => provision('DELETE', `${team}/applications/bot`),
  'PUT /provision/teams/{project}/rules': ({ provision }) => provision('PUT', `${team}/rules`, { rules: [] }),
  'PUT /provision/teams/{project}/memory': ({ provision }) =>
    provision('PUT', `${team}/memory`, { batch_of: 7, delete_conversations_after_days: 1, at_least_every_minutes: 60 }),
  'POST /provision/teams/{project}/memory/import': async ({ gateway }) => {
    const exported = await gateway.admin('GET', '/provision/teams/acme/memory/export');
    return fetch(`${gateway.url}/provision/teams/acme/memory/import`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/x-ndjson' },
      body: await exported.text(),
    });
  },
  'POST /provision/teams/{project}/batches/{id}/replay': async ({ provision, batch }) =>
    provision('POST', `${team}/batches/${await batch()}/replay`),
  'POST /provision/batches/{id}/replay': async ({ provision, batch }) => provision('POST', `/batches/${await batch()}/replay`),
  'POST /provision/batches/{id}/stop': async ({ provision, batch }) => provision('POST', `/batches/${await batch()}/stop`),
  'POST /provision/batches/replay': ({ provision }) => provision('POST', '/batches/replay', { project: 'acme', state: 'failed' }),
  'DELETE /provision/leases/{process}': ({ provision }) => provision('DELETE', `/leases/${randomUUID()}`),
  'PUT /provision/catalog': ({ provision }) => provision('PUT', '/catalog', {}),
  'POST /provision/usage/reprice': ({ provision }) =>
    provision('POST', '/usage/reprice', { from: '2026-01-01T00:00:00Z', to: '2099-01-01T00:00:00Z', prices: 'dated', project: 'acme' }),
  'POST /provision/people': ({ provision }) => provision('POST', '/people', { email: `${unique()}@example.com` }),
  'PATCH /provision/people/{email}': async ({ provision, person }) =>
    provision('PATCH', `/people/${(await person()).email}`, { name: 'New' }),
  'DELETE /provision/people/{email}': async ({ provision, person }) => provision('DELETE', `/people/${(await person()).email}`),
  'DELETE /provision/people/{email}/sessions': async ({ provision, person }) =>
    provision('DELETE', `/people/${(await person()).email}/sessions`),
  'DELETE /provision/people/{email}/sessions/{id}': async ({ provision, gateway, sessionOf }) => {
    const { email, personId } = await signIn(gateway, 'member');
    return provision('DELETE', `/people/${email}/sessions/${await sessionOf(personId)}`);
  },
  'POST /provision/people/{email}/tokens': async ({ provision, person }) =>
    provision('POST', `/people/${(await person()).email}/tokens`, { name: 'x', scopes: ['usage:read'], expires_in_days: 1 }),
  'DELETE /provision/people/{email}/tokens/{id}': async ({ provision, person, token }) => {
    const { id, email } = await person();
    return provision('DELETE', `/people/${email}/tokens/${await token(id)}`);
  },
  'POST /provision/sign-in-links': async ({ provision, person }) => provision('POST', '/sign-in-links', { email: (await person()).email }),
  'PUT /provision/teams/{project}/members/{email}': async ({ provision, person }) =>
    provision('PUT', `${team}/members/${(await person()).email}`, { role: 'owner' }),
  'DELETE /provision/teams/{project}/members/{email}': ({ provision }) => provision('DELETE', `${team}/members/${invited}`),
};

const settingsForm = { enabled: 'on', only_senders: '', batch_of: '5', at_least_every_minutes: '60' };
/** Returns the hidden field in which a page keeps the values that its form showed. */
const readOf = async (response: Promise<Response>): Promise<string> =>
  (/name="read" value="([^"]*)"/.exec(await (await response).text())?.[1] ?? '').replaceAll('&quot;', '"');
const newRule = () => ({ class: 'expression', place: 'input', action: 'observe', expression: unique() }) as const;
const personPath = async ({ person }: Acme): Promise<string> => `/console/admin/people/${(await person()).id}`;
const memberPath = async ({ gateway }: Acme): Promise<string> => `${base}/members/${(await signIn(gateway, 'member')).personId}`;
const unconfirmed = async ({ gateway, owner }: Acme): Promise<string> => {
  const email = `${unique()}@example.com`;
  await owner.post(`${base}/members`, { email, role: 'member' });
  const [row] = await gateway.database.query<{ id: string }>('select id from people where claimed_email = $1::text', [email]);
  return row?.id ?? '';
};
/** Submits a form without a session. Opens the form's page first to get the cookie and the CSRF token. */
const visit = async ({ gateway }: Acme, page: string, path: string, fields: Record<string, string>): Promise<Response> => {
  const opened = await fetch(gateway.url + page);
  const cookie = opened.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const csrf = /name="csrf" value="([^"]+)"/.exec(await opened.text())?.[1] ?? '';
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: { cookie },
    body: new URLSearchParams({ csrf, ...fields }),
    redirect: 'manual',
  });
};

/** Submissions of all console forms, keyed by the path of the route. */
const forms: Readonly<Record<string, Input>> = {
  '/keys': ({ owner }) => owner.post(`${base}/keys`, { name: 'the key' }),
  '/keys/:prefix/edit': async ({ owner, prefix }) => {
    const path = `${base}/keys/${await prefix()}/edit`;
    const windows = { 'windows.calls': 'month', 'windows.cost': 'month' };
    return owner.post(path, { read: await readOf(owner.get(path)), name: 'the changed key', ...windows });
  },
  '/keys/:prefix/rotate': async ({ owner, prefix }) => owner.post(`${base}/keys/${await prefix()}/rotate`, { grace: '0' }),
  '/keys/:prefix/revoke': async ({ owner, prefix }) => {
    const name = await prefix();
    return owner.post(`${base}/keys/${name}/revoke`, { confirmation: name });
  },
  '/applications/new': ({ owner }) =>
    owner.post(`${base}/applications/new`, { application: unique(), 'windows.calls': 'total', 'windows.cost': 'month' }),
  '/applications/application': async ({ owner }) => {
    const path = `${base}/applications/application?name=bot`;
    return owner.post(path, { read: await readOf(owner.get(path)), application: 'bot', 'windows.calls': 'total', 'windows.cost': 'month' });
  },
  '/applications/new/arrange': ({ owner }) => owner.post(`${base}/applications/new/arrange`, { arrange: 'add-tier:tiers' }),
  '/applications/application/arrange': async ({ owner }) => {
    const read = await readOf(owner.get(`${base}/applications/application?name=bot`));
    return owner.post(`${base}/applications/application/arrange?name=bot`, { read, arrange: 'add-tier:tiers' });
  },
  '/applications/reset': ({ owner }) => owner.post(`${base}/applications/reset`, { application: 'bot' }),
  '/routing/edit': async ({ owner }) => owner.post(`${base}/routing/edit`, { read: await readOf(owner.get(`${base}/routing/edit`)) }),
  '/routing/edit/arrange': async ({ owner }) =>
    owner.post(`${base}/routing/edit/arrange`, { read: await readOf(owner.get(`${base}/routing/edit`)), arrange: 'add-tier:tiers' }),
  '/project/edit': async ({ owner }) =>
    owner.post(`${base}/project/edit`, {
      read: await readOf(owner.get(`${base}/project/edit`)),
      ...{ name: 'Tea house', time_zone: 'UTC', may_call: 'on', 'cache.ttl_seconds': '600' },
    }),
  '/admin/prices/preview': ({ admin }) => admin.post('/console/admin/prices/preview', { table: '{}' }),
  '/admin/prices/import': ({ admin }) => admin.post('/console/admin/prices/import', { table: '{}' }),
  '/admin/prices/remove': ({ admin }) => admin.post('/console/admin/prices/remove', { model: 'x/y' }),
  '/rules/test': ({ member }) => member.post(`${base}/rules/test`, { text: 'tea' }),
  '/rules': ({ owner }) => owner.post(`${base}/rules`, newRule()),
  '/rules/:rule/edit': async ({ owner }) => {
    const rule = newRule();
    await owner.post(`${base}/rules`, rule);
    const path = `${base}/rules/${ruleIdOf(rule)}/edit`;
    return owner.post(path, { ...rule, action: 'block', read: await readOf(owner.get(path)) });
  },
  '/rules/:rule/remove': async ({ owner }) => {
    const rule = newRule();
    await owner.post(`${base}/rules`, rule);
    return owner.post(`${base}/rules/${ruleIdOf(rule)}/remove`);
  },
  '/members': ({ owner }) => owner.post(`${base}/members`, { email: ben, name: 'Ben', role: 'member' }),
  '/members/:person/role': async (acme) => acme.owner.post(`${await memberPath(acme)}/role`, { role: 'owner' }),
  '/members/:person/sign-in-link': async (acme) => acme.owner.post(`${base}/members/${await unconfirmed(acme)}/sign-in-link`),
  '/members/:person/remove': async (acme) => acme.owner.post(`${await memberPath(acme)}/remove`),
  '/members/restore': async (acme) => {
    const response = await acme.owner.post(`${await memberPath(acme)}/remove`);
    const undo = response.headers.getSetCookie().find((cookie) => cookie.startsWith('gateway_undo=')) ?? '';
    const signed = decodeURIComponent(/=([^;]*)/.exec(undo)?.[1] ?? '').split('.')[0] ?? '';
    const { values } = JSON.parse(Buffer.from(signed, 'base64url').toString()) as { values: Record<string, string> };
    return acme.owner.post(`${base}/members/restore`, values);
  },
  '/admin/people': ({ admin }) => admin.post('/console/admin/people', { email: `${unique()}@example.com` }),
  '/admin/people/:person/confirm': async (acme) => acme.admin.post(`/console/admin/people/${await unconfirmed(acme)}/confirm`),
  '/admin/people/:person/admin': async (acme) => acme.admin.post(`${await personPath(acme)}/admin`, { admin: 'yes' }),
  '/admin/people/:person/disabled': async (acme) => acme.admin.post(`${await personPath(acme)}/disabled`, { disabled: 'yes' }),
  '/admin/people/:person/sign-in-link': async (acme) => acme.admin.post(`${await personPath(acme)}/sign-in-link`),
  '/admin/people/:person/sessions': async (acme) => acme.admin.post(`${await personPath(acme)}/sessions`),
  '/admin/projects': ({ admin }) => admin.post('/console/admin/projects', { project: unique() }),
  '/playground': ({ member }) => member.post(`${base}/playground`, { model: 'one/echo', prompt: 'tea' }),
  '/playground/stream': ({ member }) => member.post(`${base}/playground/stream`, { model: 'one/echo', prompt: 'tea' }),
  '/playground/edit': ({ member }) => member.post(`${base}/playground/edit`, { model: 'one/echo', prompt: 'tea', do: 'add' }),
  '/playground/code': ({ member }) => member.post(`${base}/playground/code`, { model: 'one/echo', prompt: 'tea' }),
  '/memory': ({ member }) => member.post(`${base}/memory`, { text: 'Ann likes tea', kind: 'fact', importance: '3', subject }),
  '/memory/:id/pin': async ({ member, item }) => member.post(`${base}/memory/${await item()}/pin`),
  '/memory/:id/unpin': async ({ member, item }) => member.post(`${base}/memory/${await item()}/unpin`),
  '/memory/:id/confirm': ({ member, samples }) => member.post(`${base}/memory/${samples.leftOutId}/confirm`),
  '/memory/:id/correct': async ({ member, item }) =>
    member.post(`${base}/memory/${await item()}/correct`, { text: 'Ann likes coffee', kind: 'fact', importance: '3' }),
  '/memory/:id/remove': async ({ member, item }) => member.post(`${base}/memory/${await item()}/remove`),
  '/memory/:id/restore': async ({ member, item }) => {
    const id = await item();
    await member.post(`${base}/memory/${id}/remove`);
    return member.post(`${base}/memory/${id}/restore`);
  },
  '/conversations/:id/remember': ({ member, samples }) =>
    member.post(`${base}/conversations/${samples.conversationId}/remember`, { focus: 'tea' }),
  '/batches/:id/replay': async ({ member, batch }) => member.post(`${base}/batches/${await batch()}/replay`),
  '/batches/:id/stop': async ({ member, batch }) => member.post(`${base}/batches/${await batch()}/stop`),
  '/batches/replay': ({ member }) => member.post(`${base}/batches/replay`, { state: 'failed' }),
  '/settings': async ({ member }) =>
    member.post(`${base}/settings`, { ...settingsForm, read: await readOf(member.get(`${base}/settings`)) }),
  '/settings/cancel-deletion': ({ member }) => member.post(`${base}/settings/cancel-deletion`),
  '/erase': async ({ gateway, owner }) => {
    await storeProfile(gateway);
    return owner.post(`${base}/erase`, { subject, confirmation: subject });
  },
  '/erase/export': ({ owner }) => owner.post(`${base}/erase/export`, { subject }),
  '/sign-out': async ({ gateway }) => (await signIn(gateway, 'member')).post('/console/sign-out'),
  '/account/name': ({ member }) => member.post('/console/account/name', { name: 'New name' }),
  '/account/display': ({ member }) => member.post('/console/account/display', { theme: 'dark', time_zone: 'Europe/Berlin' }),
  '/account/theme': ({ member }) => member.post('/console/account/theme', { theme: 'light', next: '/console/account' }),
  '/account/password': async ({ gateway }) => {
    const password = 'correct horse battery';
    return (await signIn(gateway, 'member')).post('/console/account/password', { password, repeated: password });
  },
  '/account/sessions/revoke-others': ({ member }) => member.post('/console/account/sessions/revoke-others'),
  '/account/sessions/:session/revoke': async ({ gateway, sessionOf }) => {
    const person = await signIn(gateway, 'member');
    return person.post(`/console/account/sessions/${await sessionOf(person.personId)}/revoke`);
  },
  '/account/tokens': ({ member }) => member.post('/console/account/tokens', { name: 'x', scopes: 'usage:read', days: '7' }),
  '/account/tokens/:token/revoke': async ({ member, token }) =>
    member.post(`/console/account/tokens/${await token(member.personId)}/revoke`),
  '/console/sign-in': async (acme) => {
    const email = `${unique()}@example.com`;
    await acme.provision('POST', '/people', { email, password: 'correct horse battery' });
    return visit(acme, '/console/sign-in', '/console/sign-in', { email, password: 'correct horse battery' });
  },
  '/console/sign-in/link': async (acme) => {
    const { secret } = await acme.people.links.issue((await acme.person()).id);
    return visit(acme, `/console/sign-in/link?token=${secret}`, '/console/sign-in/link', { token: secret });
  },
  '/my-key': (acme) => visit(acme, '/my-key', '/my-key', { key: acme.gateway.key }),
  '/my-key/close': (acme) => visit(acme, '/my-key', '/my-key/close', {}),
};

/** The command lines that a shell would pass to the CLI, keyed by command. */
const lines: Readonly<Record<string, (acme: Acme) => Promise<string>>> = {
  'projects create': async () => `projects create ${unique()}`,
  'projects set': async () => 'projects set acme --name Tearoom',
  'keys create': async () => 'keys create --project acme --name the-key',
  'keys revoke': async ({ prefix }) => `keys revoke ${await prefix()} --project acme`,
  'keys set': async ({ prefix }) => `keys set ${await prefix()} --project acme --name the-changed-key`,
  'keys rotate': async ({ prefix }) => `keys rotate ${await prefix()} --project acme`,
  'applications set': async () => 'applications set bot --project acme --tier standard=two/echo',
  'applications reset': async () => 'applications reset bot --project acme',
  'rules set': async () => 'rules set --project acme --rule card_number:input:observe',
  'memory set': async () => 'memory set --project acme --batch-of 9',
  'memory import': async () => 'memory import --project acme --format list --input /dev/null',
  'batches replay': async ({ batch }) => `batches replay ${await batch()}`,
  'batches stop': async ({ batch }) => `batches stop ${await batch()}`,
  'leases release': async () => `leases release ${randomUUID()}`,
  'catalog import': async () => 'catalog import /dev/null',
  'catalog remove': async () => 'catalog remove x/y',
  'people create': async () => `people create ${unique()}@example.com`,
  'people set': async ({ person }) => `people set ${(await person()).email} --disabled`,
  'people delete': async ({ person }) => `people delete ${(await person()).email}`,
  'sessions revoke': async ({ person }) => `sessions revoke ${(await person()).email}`,
  'tokens create': async ({ person }) => `tokens create ${(await person()).email} --name x --scopes usage:read --days 1`,
  'tokens revoke': async ({ person, token }) => {
    const { id, email } = await person();
    return `tokens revoke ${email} ${await token(id)}`;
  },
  'members set': async ({ person }) => `members set ${(await person()).email} --project acme --role member`,
  'members remove': async ({ gateway }) => `members remove ${(await signIn(gateway, 'member')).email} --project acme`,
  'sign-in-link': async ({ person }) => `sign-in-link --email ${(await person()).email}`,
  'usage reprice': async () => 'usage reprice --from 2026-01-01T00:00:00Z --to 2099-01-01T00:00:00Z --prices dated --project acme',
};

/** The arguments for each MCP tool, keyed by tool name. */
const tools: Readonly<Record<string, Record<string, unknown>>> = {
  gateway_read_memory_settings: {},
  gateway_set_memory_settings: { batch_of: 11, delete_conversations_after_days: 1 },
  gateway_search_memory: { query: 'tea' },
  gateway_usage: {},
  gateway_why: { call_id: randomUUID() },
  gateway_batches: {},
};

const changingOperations = Object.entries(describeApi().paths as Record<string, Record<string, unknown>>).flatMap(([path, operations]) =>
  ['post', 'put', 'patch', 'delete'].filter((method) => method in operations).map((method) => `${method.toUpperCase()} ${path}`),
);
const changingForms = registeredRoutes.filter(({ method }) => method === 'post').map(({ path }) => path);
const changingCommands = Object.entries(commands)
  .filter(([, { operations = [] }]) => operations.some((operation) => !operation.startsWith('get ')))
  .map(([name]) => name);

/** Project pages. We request them after the changes, because they show the results. */
const pages = registeredRoutes
  .filter(({ method, access, path }) => method === 'get' && (access === 'member' || access === 'owner') && !/:|live/.test(path))
  .map(({ path }) => path);

describe('inputs for testing that projects are isolated', () => {
  test.each([
    ['route', changingOperations, requests],
    ['form', changingForms, forms],
    ['command', changingCommands, lines],
  ] as const)('has an input for every %s that changes data', (_kind, known, inputs) => {
    expect(Object.keys(inputs).toSorted()).toEqual([...new Set<string>(known)].toSorted());
  });
});

/** Stores a profile page of the subject, which has to exist because correcting a memory deletes it. */
async function storeProfile({ database, project }: TestGateway): Promise<void> {
  await database.query(
    `insert into memory_pages (project_id, kind, subject, text) select id, 'profile', $2::text, 'Likes tea.' from projects where slug = $1::text
     on conflict do nothing`,
    [project, subject],
  );
}

/** Fills a project. Both projects get the same data, except that only `beta` has Ben as a member. */
async function fill(gateway: TestGateway): Promise<MemorySamples> {
  const { project, database, call } = gateway;
  const path = `/provision/teams/${project}`;
  const projectId = (await gateway.app.projects.findBySlug(project))?.id ?? '';
  const samples = await storeMemorySamples(database, { projectId, subject, mark: 'daily', author: 'person:1' });
  await gateway.admin('PUT', `${path}/applications/bot`, { tiers: { standard: ['one/echo'] }, ceilings: { calls: 900 } });
  await gateway.admin('PUT', `${path}/rules`, { rules: [{ class: 'card_number', place: 'input', action: 'observe' }] });
  await gateway.admin('POST', `${path}/keys`, { name: 'the key' });
  for (const user of [subject, 'ben']) {
    await (await call('/v1/memory/items', { text: `${user} likes tea`, subject: user })).arrayBuffer();
    const headers = { 'x-gateway-source': 'bot', 'x-gateway-task-id': 'the task', 'x-gateway-agent-id': 'the agent' };
    await (await call('/v1/chat/completions', { ...chat, user }, headers)).arrayBuffer();
  }
  await (await gateway.admin('GET', `${path}/calls`)).arrayBuffer(); // Waits until the calls are stored.
  await storeProfile(gateway);
  const owner = await signIn(gateway, 'owner');
  // Ben is a member of `beta` only, so that an input can add him to `acme`.
  for (const email of project === 'beta' ? [invited, ben] : [invited])
    await owner.post(`/console/p/${project}/members`, { email, name: 'Ann', role: 'member' });
  await signIn(gateway, 'member');
  return samples;
}

async function createAcme(gateway: TestGateway): Promise<Acme> {
  const samples = await fill(gateway);
  const { url, key: secret, database } = gateway;
  const people = createPeople({ database, clock: systemClock });
  const [owner, member, admin] = [await signIn(gateway, 'owner'), await signIn(gateway, 'member'), await signIn(gateway, 'admin')];
  const key: Acme['key'] = (method, path, body) =>
    fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return {
    ...{ gateway, people, samples, owner, member, admin, key },
    provision: (method, path, body) => gateway.admin(method, `/provision${path}`, body),
    item: async () => (await jsonOf<{ id: string }>(key('POST', '/v1/memory/items', { text: `Ann has ${unique()}`, subject }))).id,
    prefix: async () => (await jsonOf<{ prefix: string }>(gateway.admin('POST', '/provision/teams/acme/keys', { name: 'the key' }))).prefix,
    person: () => people.accounts.create({ email: `${unique()}@example.com` }),
    token: async (personId) => (await people.personalTokens.create(personId, { name: 'x', scopes: ['usage:read'], days: 1 })).record.id,
    async batch() {
      await database.query(`update memory_batches set state = 'failed', run_id = 'run-1' where id = $1::uuid`, [samples.failedBatchId]);
      return samples.failedBatchId;
    },
    sessionOf: async (personId) => (await people.sessions.list(personId))[0]?.id ?? '',
  };
}

/**
 * We skip tables that no project owns and tables that change over time. The latter are the hourly aggregates, which the
 * background loop computes from the calls, and the ceiling leases, which processes take and return. `rowsQuery` ignores
 * the `leased` column of `limit_counters` for the same reason.
 */
const notOfProjects =
  /^(?:usage_\w+|limit_leases|catalog_models|model_prices|processes|schema_migrations|sign_in_failures|abandoned_leases|parked_\w+|quarantine\w*)$/;

/**
 * Builds one query that hashes a project's rows in each table. These are the rows with the project's id, the rows that
 * refer to them, and the people who are members.
 */
async function rowsQuery({ database }: TestGateway): Promise<string> {
  const columns = await database.query<{ table: string; column: string }>(
    `select relname as "table", attname as "column" from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition and not attisdropped`,
  );
  const references = await database.query<{ from: string; column: string; to: string; toColumn: string }>(
    `select conrelid::regclass::text as "from", source.attname as "column", confrelid::regclass::text as "to", target.attname as "toColumn"
       from pg_constraint
       join pg_attribute source on source.attrelid = conrelid and source.attnum = conkey[1]
       join pg_attribute target on target.attrelid = confrelid and target.attnum = confkey[1]
      where contype = 'f'`,
  );
  const tables = [...new Set(columns.map(({ table }) => table))].filter((table) => !notOfProjects.test(table));
  const conditions = new Map<string, string>([['projects', 'id = $1::uuid']]);
  for (const { table, column } of columns) if (column === 'project_id') conditions.set(table, 'project_id = $1::uuid');
  conditions.set('people', 'project_id = $1::uuid or id in (select person_id from members where project_id = $1::uuid)');
  conditions.set('attempts', 'call_id in (select id from calls where project_id = $1::uuid)');
  for (let added = -1; added !== 0; ) {
    added = 0;
    for (const { from, column, to, toColumn } of references) {
      const condition = conditions.get(to);
      if (condition === undefined || conditions.has(from) || to === 'projects') continue;
      conditions.set(from, `${column} in (select ${toColumn} from ${to} where ${condition})`);
      added += 1;
    }
  }
  expect(tables.filter((table) => !conditions.has(table))).toEqual([]);
  return tables
    .map(
      (table) =>
        `select '${table}' as name, (select md5(coalesce(string_agg(row, '|' order by row), '')) || ' of ' || count(*)
           from (select ${table === 'limit_counters' ? "(to_jsonb(t) - 'leased')::text" : 't::text'} as row
                   from ${table} t where ${conditions.get(table)}) rows) as hash`,
    )
    .join('\nunion all ');
}

/** Drops the duration columns of a CSV file, because they differ between runs. */
function normalizeCsv(text: string): string {
  const [header = '', ...rows] = text.split('\n');
  const isKept = header.split(',').map((name) => !name.trim().endsWith('_ms'));
  return isKept.includes(false)
    ? rows
        .map((row) =>
          row
            .split(',')
            .filter((_, index) => isKept[index])
            .join(','),
        )
        .join('\n')
    : text;
}

/**
 * Replaces ids, secrets, local addresses and times, which differ between runs, and the numbers of audit entries, which
 * all projects share. Also makes the columns of tables equally wide, because a time without milliseconds is shorter.
 * Keeps other numbers, because a count could reveal something about other projects.
 */
function normalize(text: string): string {
  return text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>')
    .replaceAll(/127\.0\.0\.1:\d+|localhost:\d+/g, '<host>')
    .replaceAll(/\d{4}-\d\d-\d\d(?:[T ]\d\d(?::|%3A)\d\d(?:(?::|%3A)\d\d(?:\.\d+)?)?Z?)?/g, '<time>')
    .replaceAll(/^\d+,<time>/gm, '<number of the audit entry>,<time>')
    .replaceAll(/\d\d:\d\d(?::\d\d)?/g, '<clock>')
    .replaceAll(/[\w-]{43,}/g, '<secret>')
    .replaceAll(/(?:sk-gw-|gwp_|chatcmpl-|msg_|resp_)[\w-]{8,}|demo[_-]\d+/g, '<secret>')
    .replaceAll(/\b[0-9a-f]{8,}\b/g, '<hex>')
    .replaceAll(/"(created|created_at|latency_ms|duration_ms|score|cosine)":[\d.]+/g, '"$1":0')
    .replaceAll(/number-\d+/g, '<name>')
    .replaceAll(/ {2,}/g, '  ')
    .replaceAll(/\d+ (?:milliseconds?|seconds?|minutes?|ms)\b/g, '<duration>');
}

interface Run {
  /** The tables in which a change modified rows of `beta`, keyed by change. */
  readonly changed: Record<string, string[]>;
  readonly answers: Record<string, string>;
  /** The responses to changes that were refused, which means that the change wasn't tested. */
  readonly refused: Record<string, string>;
}

async function runAll(gateway: TestGateway, isBetaFull: boolean): Promise<Run> {
  count = 0;
  const { url, database, dataDir } = gateway;
  const beta = await gateway.withProject('beta');
  if (isBetaFull) await fill(beta);
  const betaId = (await gateway.app.projects.findBySlug('beta'))?.id ?? '';
  const acme = await createAcme(gateway);
  const query = await rowsQuery(gateway);
  const readRows = async () =>
    new Map((await database.query<{ name: string; hash: string }>(query, [betaId])).map(({ name, hash }) => [name, hash]));
  const run: Run = { changed: {}, answers: {}, refused: {} };
  let before = await readRows();
  const check = async (title: string, isAllowed: boolean, send: () => Promise<Answer>): Promise<void> => {
    const { status, text } = await send();
    run.answers[title] = `${status} ${normalize(text)}`;
    if (status >= 400 && !isAllowed) run.refused[title] = `${status} ${text.slice(0, 2_000)}`;
    const after = await readRows();
    const changed = [...after].filter(([name, hash]) => before.get(name) !== hash).map(([name]) => name);
    if (changed.length > 0) run.changed[title] = changed;
    before = after;
  };
  const read = async (response: Response): Promise<Answer> => ({
    status: response.status,
    text: `${response.headers.get('location') ?? ''} ${normalizeCsv(await response.text())}`,
  });
  // Erasures come last, because they delete the records that the other inputs name.
  const isErasure = (title: string): boolean => /subjects|^\/erase$/.test(title);
  const inputs = [...Object.entries(requests), ...Object.entries(forms)];
  for (const [title, input] of inputs.toSorted(([one], [other]) => Number(isErasure(one)) - Number(isErasure(other))))
    await check(title, mayRefuse.has(title), async () => read(await input(acme)));
  for (const path of pages) await check(`page ${path}`, false, async () => read(await acme.owner.get(`${base}${path}?name=bot`)));
  for (const [name, lineOf] of Object.entries(lines))
    await check(`gateway ${name}`, mayRefuse.has(name), async () => {
      let text = '';
      const write = (part: string): void => {
        text += part;
      };
      const environment = { GATEWAY_DATA_DIR: dataDir, GATEWAY_ADMIN_TOKEN: adminToken };
      const code = await runCommand([...(await lineOf(acme)).split(' '), '--url', url], environment, { write, writeError: write });
      return { status: code === 0 ? 200 : 400, text };
    });
  const token = await issueToken(gateway, await addPerson(gateway, ['acme']));
  await withClient(gateway, { token }, async (client) => {
    const listed = (await client.listTools()).tools.map(({ name }) => name);
    expect(Object.keys(tools).toSorted()).toEqual(listed.toSorted());
    for (const name of listed)
      await check(`tool ${name}`, name === 'gateway_why', async () => {
        const { isError, content } = await client.callTool({ name, arguments: tools[name] ?? {} });
        return { status: isError ? 400 : 200, text: JSON.stringify(content) };
      });
  });
  const keys = await database.query<{ prefix: string }>('select prefix from virtual_keys');
  const anyPrefix = new RegExp(keys.map(({ prefix }) => prefix).join('|'), 'g');
  for (const [title, text] of Object.entries(run.answers)) run.answers[title] = text.replaceAll(anyPrefix, '<hex>');
  return run;
}

describe('a change in one project', () => {
  const lent = shareGateway({ database: 'any' });
  let nextToFull: Run | null = null;

  test("doesn't change a single byte in the rows of other projects", async () => {
    nextToFull = await runAll(lent(), true);
    expect(nextToFull.refused).toEqual({});
    expect(nextToFull.changed).toEqual({});
  });

  test('returns the same responses regardless of what other projects have stored', async () => {
    const nextToEmpty = await withGateway({ database: 'any' }, (gateway) => runAll(gateway, false));
    expect(nextToFull?.answers).toEqual(nextToEmpty.answers);
  });
});
