/**
 * Tests that a project never sees or changes anything in another project. We call every route of the console,
 * `/provision`, `/v1` and `/mcp` as a stranger, as the owner of another project, as a member who doesn't have the role,
 * and as the holder of a key. The text that we planted in project `beta` must not appear, and its rows must not change.
 */
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { replaceRoles } from '../../scripts/write-console-roles.js';
import type { ConsoleRoute } from '../../src/console/frame/route.ts';
import { asObject } from '../../src/core/json/narrow.ts';
import { ruleIdOf } from '../../src/guardrails/content-rule.ts';
import { describeApi } from '../../src/http/openapi.ts';
import { addPerson, issueToken, withClient } from '../mcp/people.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { registeredRoutes as routes } from '../support/console-routes.ts';
import { jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';

const planted = 'PLANTEDZQ';
const lent = shareGateway({ database: 'any' });
const chatPath = '/v1/chat/completions';

/** The ids of project `beta`, by the parameter and the first segment of the paths that take them. */
interface Beta {
  readonly gateway: TestGateway;
  readonly projectId: string;
  readonly ids: Readonly<Record<string, string>>;
  readonly member: SignedIn;
}

let beta: Beta;
let owner: SignedIn;
let stranger: SignedIn;

beforeAll(async () => {
  const acme = lent();
  owner = await signIn(acme, 'owner');
  stranger = await signIn(acme, 'stranger');
  beta = await plantBeta(await acme.withProject('beta'));
});

async function plantBeta(gateway: TestGateway): Promise<Beta> {
  const { admin, call, database, app } = gateway;
  const team = '/provision/teams/beta';
  await admin('PUT', team, { name: `${planted} project`, tiers: { [planted]: ['one/echo'] } });
  await admin('PUT', `${team}/applications/bot-of-beta`, { tiers: { [planted]: ['one/echo'] } });
  const rule = { class: 'expression', place: 'input', action: 'observe', expression: planted } as const;
  await admin('PUT', `${team}/rules`, { rules: [rule] });
  const { prefix } = await jsonOf<{ prefix: string }>(admin('POST', `${team}/keys`, { name: `${planted} key` }));
  const { id: item } = await jsonOf<{ id: string }>(call('/v1/memory/items', { text: `${planted} likes tea`, subject: 'user-of-beta' }));
  const chat = { model: 'one/echo', user: 'user-of-beta', messages: [{ role: 'user', content: `${planted} question` }] };
  const response = await call(chatPath, chat, { 'x-gateway-source': 'bot-of-beta', 'x-gateway-task-id': `${planted} task` });
  const callId = response.headers.get('x-gateway-call-id') ?? '';
  await response.arrayBuffer();
  // Waits until the call is stored.
  await admin('GET', `${team}/calls`);
  const project = await app.projects.findBySlug('beta');
  const projectId = project?.id ?? '';
  const [conversation] = await database.query<{ id: string }>('select id from conversations where project_id = $1::uuid', [projectId]);
  const remembered = await call(`/v1/memory/episodes/${conversation?.id}/remember`, { focus: `${planted} focus` });
  const { batch_id: batch } = await jsonOf<{ batch_id: string }>(remembered);
  const erased = await fetch(`${gateway.url}/v1/memory/subjects/forgotten`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${gateway.key}` },
  });
  const { id: erasure } = await jsonOf<{ id: string }>(erased);
  const member = await signIn(gateway, 'member', `${planted} member`);
  const [session] = await database.query<{ id: string }>('select id from sessions where person_id = $1::uuid', [member.personId]);
  const ids = {
    ...{ calls: callId, memory: item, conversations: conversation?.id ?? '', batches: batch, erase: erasure, session: session?.id ?? '' },
    ...{ prefix, person: member.personId, email: member.email, project: 'beta', source: 'bot-of-beta', process: projectId },
    ...{ rule: ruleIdOf(rule), subject: 'user-of-beta', items: item, episodes: conversation?.id ?? '', erasures: erasure },
  };
  for (const [name, id] of Object.entries(ids)) if (id === '') throw new Error(`nothing was planted for ${name}`);
  return { gateway, projectId, ids, member };
}

/**
 * Replaces the parameters of a path with ids of `beta`. The name of a parameter says which id it needs. If the name is
 * just `id`, the segment before it does.
 */
function fill(path: string): string {
  return path.replaceAll(/([\w-]+)\/[:{](\w+)\}?/g, (_, segment: string, name: string) => {
    const id = name === 'id' ? beta.ids[segment] : beta.ids[name];
    return `${segment}/${encodeURIComponent(id ?? beta.ids.memory ?? '')}`;
  });
}

/** All rows of `beta`, by table. */
async function rowsOfBeta(): Promise<Record<string, string>> {
  const { database } = lent();
  const tables = await database.query<{ name: string }>(
    `select table_name as name from information_schema.columns join pg_class on relname = table_name
      where column_name = 'project_id' and table_schema = 'public' and relkind in ('r', 'p') and not relispartition`,
  );
  const counts = tables.map(async ({ name }) => {
    const text = `select md5(coalesce(string_agg(t::text, '|' order by t::text), '')) || count(*) as hash from ${name} t where project_id = $1::uuid`;
    const [row] = await database.query<{ hash: string }>(text, [beta.projectId]);
    return [name, row?.hash ?? ''] as const;
  });
  const [project] = await database.query<{ row: string }>('select p::text as row from projects p where id = $1::uuid', [beta.projectId]);
  const sessions = await database.query('select id from sessions where person_id = $1::uuid', [beta.member.personId]);
  return { ...Object.fromEntries(await Promise.all(counts)), projects: project?.row ?? '', sessions: JSON.stringify(sessions) };
}

/** Reads the status and text of a response. For streams we only read the status, because they may never end. */
async function read(sent: Promise<Response>): Promise<{ status: number; text: string; location: string }> {
  const response = await sent;
  const location = response.headers.get('location') ?? '';
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
    await response.body?.cancel();
    return { status: response.status, text: '', location };
  }
  return { status: response.status, text: await response.text(), location };
}

/** Fields with which a form could refer to `beta`. */
const fields = (): Record<string, string> => {
  const { prefix = '', person = '', memory = '', session = '', source = '', batches = '' } = beta.ids;
  return {
    ...{
      project: 'beta',
      slug: 'beta',
      prefix,
      person,
      email: 'nobody@example.com',
      id: memory,
      session,
      application: source,
      source,
      batch: batches,
    },
    ...{ role: 'owner', subject: 'user-of-beta', confirmation: 'user-of-beta', state: 'failed', text: 'new text', name: 'new name' },
  };
};
const query = (): string => new URLSearchParams({ application: 'bot-of-beta', subject: 'user-of-beta' }).toString();
const secretIds = (): string[] =>
  ['calls', 'memory', 'conversations', 'batches', 'erase', 'prefix', 'person', 'session'].map((name) => beta.ids[name] ?? '');

const send = (actor: SignedIn, method: string, path: string) =>
  read(method === 'get' ? actor.get(path) : actor.post(path.split('?')[0] ?? '', fields()));

const ofProject = routes.filter(({ access }) => access === 'member' || access === 'owner');
const titled = (list: readonly ConsoleRoute[]) => list.map((route) => [`${route.method} ${route.path}`, route] as const);

/** Runs `work` and expects that `beta` has not changed. */
async function leavesBeta(work: () => Promise<void>): Promise<void> {
  const before = await rowsOfBeta();
  await work();
  expect(await rowsOfBeta()).toEqual(before);
}

describe('isolation of projects in the console', () => {
  test('shows members the data of their own project in the console', async () => {
    expect(ofProject.length).toBeGreaterThan(40);
    const pages = ofProject.filter(({ method, access, path }) => method === 'get' && access === 'member' && !path.includes('live'));
    const texts = await Promise.all(pages.map(({ path }) => read(beta.member.get(fill(`/console/p/:project${path}`)))));
    expect(texts.filter(({ status }) => status >= 500)).toEqual([]);
    expect(texts.filter(({ text }) => text.includes(planted)).length).toBeGreaterThan(10);
  });

  test("returns 404 to everybody who isn't a member of the project", () =>
    leavesBeta(async () => {
      for (const [title, { method, path }] of titled(ofProject)) {
        const address = fill(`/console/p/:project${path}`);
        for (const actor of [stranger, owner]) {
          const { status, text } = await send(actor, method, address);
          expect([title, status, text.includes(planted)]).toEqual([title, 404, false]);
        }
      }
    }));

  test('redirects visitors without a session to the sign-in page', () =>
    leavesBeta(async () => {
      const { url } = lent();
      const headers = { authorization: `Bearer ${beta.gateway.key}`, 'sec-fetch-site': 'same-origin' };
      for (const [title, { method, path }] of titled(routes.filter(({ access }) => access !== 'anyone'))) {
        const prefix = ofProject.some((route) => route.path === path) ? '/console/p/:project' : '/console';
        const { status, location } = await read(fetch(url + fill(prefix + path), { method, headers, redirect: 'manual' }));
        expect([title, status, location.startsWith('/console/sign-in?')]).toEqual([title, 303, true]);
      }
    }));

  test("doesn't show a project's data to the owner of another project", () =>
    leavesBeta(async () => {
      // The pages come first, because the audit log contains the ids that a form refers to.
      const inOrder = ofProject.toSorted((left, right) => left.method.localeCompare(right.method));
      for (const [title, { method, path }] of titled(inOrder)) {
        const { status, text } = await send(owner, method, `${fill(`/console/p/acme${path}`)}?${query()}`);
        // Ids of another project do not exist, and lists do not contain them.
        const isFine = path.includes(':') ? status === 404 : status < 500;
        const found = [planted, ...(path.includes(':') || method === 'post' ? [] : secretIds())].filter((known) => text.includes(known));
        expect([title, status, isFine, found]).toEqual([title, status, true, []]);
      }
    }));

  test('returns 403 to a member on owner routes', () =>
    leavesBeta(async () => {
      for (const [title, { method, path }] of titled(ofProject.filter(({ access }) => access === 'owner'))) {
        const { status } = await send(beta.member, method, fill(`/console/p/:project${path}`));
        expect([title, status]).toEqual([title, 403]);
      }
    }));

  test('returns 404 to an owner on routes of deployment admins', () =>
    leavesBeta(async () => {
      for (const [title, { method, path, access }] of titled(
        routes.filter((route) => route.access === 'admin' || route.access === 'person'),
      )) {
        // Some of these end the session.
        const actor = method === 'post' ? await signIn(lent(), 'owner') : owner;
        const { status, text } = await send(actor, method, fill(`/console${path}`));
        expect([title, access === 'admin' ? status === 404 : status < 500, text.includes(planted)]).toEqual([title, true, false]);
      }
    }));

  test("doesn't show a project's data on public pages", () =>
    leavesBeta(async () => {
      for (const [title, { method, path }] of titled(routes.filter(({ access }) => access === 'anyone'))) {
        const { status, text } = await send(owner, method, fill(path));
        expect([title, status < 500, text.includes(planted)]).toEqual([title, true, false]);
      }
    }));
});

describe('the table of roles', () => {
  const text = readFileSync(new URL('../../docs/architecture/people.md', import.meta.url), 'utf8');

  test('lists every console page and action (run node scripts/write-console-roles.js)', () => {
    expect(text).toBe(replaceRoles(text, routes));
  });

  test('names the roles that can open each page of the console', async () => {
    const gateway = beta.gateway;
    const people = {
      visitor: null,
      'signed in': await signIn(gateway, 'stranger'),
      member: await signIn(gateway, 'member'),
      owner: await signIn(gateway, 'owner'),
      admin: await signIn(gateway, 'admin'),
    };
    const rows = text.split('\n').filter((line) => line.startsWith('| `GET '));
    expect(rows.length).toBeGreaterThan(60);
    for (const row of rows) {
      const [request = '', , ...cells] = row
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim());
      const documented = request.slice('`GET '.length, -1);
      // These stay open, or need a link or an identity provider.
      if (/live|sign-in\//.test(documented)) continue;
      const path = `${fill(documented.replace(/^…/, '/console/p/:project'))}?id=one%2Fecho`;
      const got = await Promise.all(
        Object.values(people).map(async (person) => {
          const { status, location } = await read(person?.get(path) ?? fetch(gateway.url + path, { redirect: 'manual' }));
          return status === 403 || status === 404 || location.startsWith('/console/sign-in?') ? '' : 'yes';
        }),
      );
      expect([documented, ...got]).toEqual([documented, ...cells]);
    }
  });
});

describe('isolation of projects in the API', () => {
  const operations = Object.entries(asObject(describeApi().paths)).flatMap(([path, methods]) =>
    Object.keys(asObject(methods)).map((method) => [method.toUpperCase(), path] as const),
  );

  test('returns 401 on every route of /provision for keys and personal tokens', async () => {
    const token = await issueToken(lent(), await addPerson(lent(), ['beta']));
    await leavesBeta(async () => {
      for (const [method, path] of operations.filter(([, path]) => path.startsWith('/provision'))) {
        for (const headers of [
          { authorization: `Bearer ${beta.gateway.key}` },
          { authorization: `Bearer ${token}` },
          { cookie: owner.cookie },
        ]) {
          const { status, text } = await read(fetch(lent().url + fill(path), { method, headers }));
          expect([method, path, status, text.includes(planted)]).toEqual([method, path, 401, false]);
        }
      }
    });
  });

  test("doesn't let a key find or change anything in another project", () =>
    leavesBeta(async () => {
      const { url, key } = lent();
      const bodies: Record<string, object> = {
        'POST /v1/memory/search': { query: `${planted} tea` },
        'POST /v1/memory/recall': { text: 'Which tea?', dry_run: true },
        'POST /v1/memory/items': { text: 'Likes coffee' },
        'PATCH /v1/memory/items/{id}': { text: 'Likes coffee' },
        'POST /v1/memory/items/{id}/rating': { rating: 'wrong' },
      };
      const readable = operations.filter(
        ([method, path]) => path.startsWith('/v1/memory') || (method === 'GET' && path !== '/metrics' && !path.startsWith('/provision')),
      );
      expect(readable.length).toBeGreaterThan(12);
      for (const [method, path] of readable) {
        const body = method === 'GET' || method === 'DELETE' ? {} : { body: JSON.stringify(bodies[`${method} ${path}`] ?? {}) };
        const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
        // Without a subject in the path, this route erases a subject that a path cannot contain.
        const query = path === '/v1/memory/subjects' ? '?subject=..' : '';
        const { status, text } = await read(fetch(url + fill(path) + query, { method, headers, ...body }));
        const expected = path.includes('{id}') ? 404 : status < 300 ? status : 200;
        expect([method, path, status, text.includes(planted)]).toEqual([method, path, expected, false]);
      }
    }));

  test("shows nothing from other projects on a key's own page", async () => {
    const { url, key } = lent();
    const csrf = /name="csrf" value="([^"]+)"/;
    const first = await fetch(`${url}/my-key`);
    const form = first.headers.getSetCookie()[0]?.split(';')[0] ?? '';
    const fields = new URLSearchParams({ csrf: csrf.exec(await first.text())?.[1] ?? '', key });
    const opened = await fetch(`${url}/my-key`, { method: 'POST', headers: { cookie: form }, body: fields, redirect: 'manual' });
    const pass = opened.headers.getSetCookie()[0]?.split(';')[0] ?? '';
    for (const path of ['/my-key', '/my-key.csv', `/my-key?before=${beta.ids.calls}`]) {
      const { status, text } = await read(fetch(url + path, { headers: { cookie: pass } }));
      expect([path, status, text.includes(planted), text.includes(beta.ids.calls ?? '-')]).toEqual([path, 200, false, false]);
    }
  });

  test('hides other projects from MCP clients', () =>
    leavesBeta(async () => {
      const gateway = lent();
      const keyed = await fetch(`${gateway.url}/mcp`, {
        method: 'POST',
        headers: { authorization: `Bearer ${beta.gateway.key}`, 'content-type': 'application/json' },
        body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
      });
      expect(keyed.status).toBe(401);
      for (const projects of [['acme'], []]) {
        const token = await issueToken(gateway, await addPerson(gateway, projects));
        await withClient(gateway, { token }, async (client) => {
          const { tools } = await client.listTools();
          expect(tools.length).toBeGreaterThan(5);
          for (const { name, inputSchema } of tools) {
            const all = { project: 'beta', query: `${planted} tea`, call_id: beta.ids.calls, enabled: false, batch_of: 3 };
            const known = Object.entries(all).filter(([argument]) => argument in (inputSchema.properties ?? {}));
            const result = await client.callTool({ name, arguments: Object.fromEntries(known) });
            expect([name, result.isError, JSON.stringify(result).includes(planted)]).toEqual([name, true, false]);
          }
        });
      }
    }));
});
