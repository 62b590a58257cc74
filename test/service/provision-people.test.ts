/** Tests how people are managed under /provision, i.e. accounts, links, sessions, members and the audit log. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { systemClock } from '../../src/core/time.ts';
import { createMembers } from '../../src/people/members.ts';
import { uniqueEmail } from '../people/rows.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const admin = (method: string, path: string, body?: unknown) => gateway().admin(method, `/provision${path}`, body);
const json = (method: string, path: string, body?: unknown) => jsonOf<Record<string, unknown>>(admin(method, path, body));
const rows = async (path: string) => (await json('GET', path)).data as Record<string, unknown>[];

test('creates a person with a password or a sign-in link', async () => {
  const [ann, bob] = [uniqueEmail(), uniqueEmail()];
  const withPassword = await admin('POST', '/people', {
    email: ann.toUpperCase(),
    name: 'Ann',
    password: 'correct horse battery',
    admin: true,
  });
  expect(withPassword.status).toBe(201);
  const created: unknown = await withPassword.json();
  expect(created).toMatchObject({ email: ann, name: 'Ann', admin: true, has_password: true, disabled_at: null });
  expect(created).not.toHaveProperty('sign_in_url');
  const { sign_in_url: url } = await json('POST', '/people', { email: bob });
  expect(url).toMatch(new RegExp(`^${gateway().url}/console/sign-in/link\\?token=[\\w-]{43}$`));
  expect(await (await fetch(String(url))).text()).toContain(bob);
  expect((await admin('POST', '/people', { email: bob })).status).toBe(409);
  expect((await admin('POST', '/people', { email: 'bob', colour: 'red' })).status).toBe(400);
  expect((await rows(`/people?limit=1000`)).map(({ email }) => email)).toEqual(expect.arrayContaining([ann, bob]));
});

test('keeps only the id of a deleted person in the audit log', async () => {
  const email = uniqueEmail();
  const { id } = await json('POST', '/people', { email });
  expect(await json('PATCH', `/people/${email}`, { name: 'New', admin: true })).toMatchObject({ name: 'New', admin: true });
  expect(await json('PATCH', `/people/${email}`, { disabled: true })).toMatchObject({ disabled_at: expect.any(String) });
  expect((await admin('POST', '/sign-in-links', { email })).status).toBe(409);
  expect(await json('DELETE', `/people/${email}`)).toMatchObject({ id, email, deleted: true });
  expect((await admin('GET', `/people/${email}`)).status).toBe(404);
  const entries = (await rows('/audit')).filter(({ detail }) => (detail as Record<string, unknown>).person_id === id);
  expect(entries.map(({ action, outcome }) => [action, outcome])).toEqual([
    ['person.delete', 'ok'],
    ['person.change', 'ok'],
    ['person.change', 'ok'],
    ['person.create', 'ok'],
  ]);
  expect(entries[1]).toMatchObject({ detail: { disabled: { from: false, to: true } } });
  expect(JSON.stringify(await gateway().database.query('select * from audit_log'))).not.toContain(email);
});

test("doesn't remove a project's last owner", async () => {
  const [ann, bob] = [uniqueEmail(), uniqueEmail()];
  const members = `/teams/${gateway().project}/members`;
  expect((await admin('PUT', `${members}/${ann}`, { role: 'owner' })).status).toBe(404);
  for (const email of [ann, bob]) await admin('POST', '/people', { email });
  expect(await json('PUT', `${members}/${ann}`, { role: 'owner' })).toMatchObject({ email: ann, role: 'owner' });
  expect(await json('PUT', `${members}/${bob}`, { role: 'member' })).toMatchObject({ role: 'member' });
  expect((await admin('PUT', `${members}/${bob}`, { role: 'king' })).status).toBe(400);
  expect((await admin('DELETE', `${members}/${ann}`)).status).toBe(409);
  expect(await json('GET', `${members}/${bob}`)).toMatchObject({ email: bob });
  expect(await json('DELETE', `${members}/${bob}`)).toMatchObject({ email: bob });
  expect((await admin('DELETE', `${members}/${bob}`)).status).toBe(404);
  expect((await rows(members)).map(({ email }) => email)).toEqual([ann]);
  expect((await rows(`/audit?project=${gateway().project}&action=member.change&limit=2`)).map(({ detail }) => detail)).toMatchObject([
    {},
    { role: { from: null, to: 'member' } },
  ]);
});

test('lists an invited person as unconfirmed until a deployment admin creates their account', async () => {
  const { app, database, project } = gateway();
  const email = uniqueEmail();
  const projectId = (await app.projects.findBySlug(project))?.id ?? '';
  await createMembers({ database, clock: systemClock }).invite(projectId, { email }, 'member');
  const members = `/teams/${project}/members/${email}`;
  expect((await rows('/people?unconfirmed=true')).filter((person) => person.email === email)).toMatchObject([{ only_project: project }]);
  expect(await json('GET', members)).toMatchObject({ role: 'member', confirmed: false });
  expect((await admin('GET', `/people/${email}`)).status).toBe(404);
  expect(await json('POST', '/people', { email })).toMatchObject({ email, only_project: null });
  expect(await json('GET', members)).toMatchObject({ role: 'member', confirmed: true });
  expect((await rows('/people?unconfirmed=true')).filter((person) => person.email === email)).toEqual([]);
  expect(await json('DELETE', members)).toMatchObject({ email });
});

test("lists and ends a person's sessions", async () => {
  const email = uniqueEmail();
  const { sign_in_url: url } = await json('POST', '/people', { email });
  const signIn = async (address: unknown) => {
    const page = await fetch(String(address));
    const text = await page.text();
    const cookie = page.headers
      .getSetCookie()
      .map((header) => header.split(';')[0])
      .join('; ');
    const field = (name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(text)?.[1] ?? '';
    const body = new URLSearchParams({ csrf: field('csrf'), token: field('token') });
    return fetch(`${gateway().url}/console/sign-in/link`, { method: 'POST', headers: { cookie }, body, redirect: 'manual' });
  };
  expect((await signIn(url)).status).toBe(303);
  expect((await signIn((await json('POST', '/sign-in-links', { email })).sign_in_url)).status).toBe(303);
  const [session] = await rows(`/people/${email}/sessions`);
  expect((await admin('DELETE', `/people/${email}/sessions/nonsense`)).status).toBe(400);
  expect((await admin('DELETE', `/people/${email}/sessions/${randomUUID()}`)).status).toBe(404);
  expect(await json('DELETE', `/people/${email}/sessions/${String(session?.id)}`)).toEqual({ revoked: 1 });
  expect(await json('DELETE', `/people/${email}/sessions`)).toEqual({ revoked: 1 });
  expect(await rows(`/people/${email}/sessions`)).toEqual([]);
});

test('creates a person if a sign-in link is issued for an unknown e-mail address', async () => {
  const email = uniqueEmail();
  expect(await json('POST', '/sign-in-links', { email, admin: true })).toMatchObject({ email, sign_in_url: expect.any(String) });
  expect(await json('GET', `/people/${email}`)).toMatchObject({ admin: true });
  expect((await admin('POST', '/sign-in-links', {})).status).toBe(400);
  const { sign_in_url: url } = await json('POST', '/sign-in-links', { admin: true });
  expect(await (await fetch(String(url))).text()).toContain('Create the admin account');
});

test('filters and paginates the audit log', async () => {
  const all = await rows('/audit?limit=3');
  expect(all).toHaveLength(3);
  expect(await rows(`/audit?limit=2&before=${String(all[0]?.id)}`)).toEqual(all.slice(1));
  expect(await rows('/audit?person=nobody@example.com')).toEqual([]);
  expect(await rows('/audit?from=2100-01-01T00:00:00Z')).toEqual([]);
  expect((await admin('GET', '/audit?project=unknown')).status).toBe(404);
  const wrong = await admin('GET', '/audit?limit=0&person=ann&from=yesterday&before=x');
  expect(wrong.status).toBe(400);
  expect(JSON.stringify(await wrong.json())).toMatch(/limit.*before.*person.*from/);
});
