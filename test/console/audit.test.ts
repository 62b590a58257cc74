/** Tests that the audit log has sentences that say who did what, with links, and that ids are in a fold-out. */
import { readdir, readFile } from 'node:fs/promises';
import { beforeAll, expect, test } from '@jest/globals';
import { describedActions } from '../../src/console/audit/sentences.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { registeredRoutes } from '../support/console-routes.ts';
import { shareGateway } from '../support/gateway.ts';
import { decodeEntities, hiddenValue, textOf } from '../support/page-text.ts';

const gateway = shareGateway({ database: 'any' });
const path = '/console/p/acme';
let owner: SignedIn;
let admin: SignedIn;

beforeAll(async () => {
  [owner, admin] = await Promise.all([signIn(gateway(), 'owner', 'Olga'), signIn(gateway(), 'admin', 'Ada')]);
});

interface Entry {
  /** The sentence as text, and the paths that it links to. */
  readonly sentence: string;
  readonly links: readonly string[];
  readonly changes: readonly string[];
  readonly ids: string;
  readonly outcome: string;
}

/** Returns the newest entries of a page. */
async function entriesOf(person: SignedIn, page: string): Promise<Entry[]> {
  const text = await (await person.get(page)).text();
  const plain = (part = '') =>
    decodeEntities(part.replaceAll(/<[^>]*>/g, ''))
      .replaceAll(/\s+/g, ' ')
      .trim();
  return [...text.matchAll(/<tr><td.*?<\/tr>/gs)].map(([row]) => {
    const [, sentence = ''] = /<p>(.*?)<\/p>/s.exec(row) ?? [];
    const [, changes = ''] = /<ul class="bare changes">(.*?)<\/ul>/s.exec(row) ?? [];
    return {
      sentence: plain(sentence),
      links: [...sentence.matchAll(/href="([^"]*)"/g)].map(([, href = '']) => decodeEntities(href)),
      changes: [...changes.matchAll(/<li[^>]*>(.*?)<\/li>/gs)].map(([, line]) => plain(line)),
      ids: plain(/<details.*?<\/details>/s.exec(row)?.[0]),
      outcome: plain(/data-label="Outcome">(.*?)<\/td>/s.exec(row)?.[1]),
    };
  });
}

test('the audit log describes every console, API and MCP action in a sentence', async () => {
  const ofConsole = registeredRoutes.flatMap((route) => (route.method === 'post' && route.action !== null ? [route.action] : []));
  const folder = new URL('../../src/http/routes/provision/', import.meta.url);
  const files = (await readdir(folder)).filter((name) => name.endsWith('-routes.ts'));
  const texts = await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')));
  const ofApi = texts.flatMap((text) =>
    [...text.matchAll(/(?:change|changeProject|streamProject)\((?:\s*'(?:post|put|patch|delete)',)?\s*'[^']+',\s*'([\w.]+)'/g)].map(
      ([, name = '']) => name,
    ),
  );
  expect(ofApi.length).toBeGreaterThan(20);
  const all = new Set([...ofConsole, ...ofApi, 'project.create', 'project.change', 'session.start', 'memory.update']);
  expect([...all].filter((action) => !describedActions.includes(action))).toEqual([]);
});

test('the audit log says who issued, changed and revoked a key', async () => {
  const issued = await (await owner.post(`${path}/keys`, { name: 'Shop <b>' })).text();
  const prefix = /sk-gw-([a-z0-9]{8})-/.exec(issued)?.[1] ?? '';
  const read = hiddenValue(await (await owner.get(`${path}/keys/${prefix}/edit`)).text(), 'read');
  await owner.post(`${path}/keys/${prefix}/edit`, {
    name: 'Shop <b>',
    'ceilings.cost': '5',
    'ceilings.rpm': '60',
    'windows.cost': 'day',
    read,
  });
  await owner.post(`${path}/keys/${prefix}/revoke`, { confirmation: 'wrong' });
  await owner.post(`${path}/keys/${prefix}/revoke`, { confirmation: prefix });
  const links = [`${path}/audit?${new URLSearchParams({ person: owner.email })}`, `${path}/keys/${prefix}`];
  const [revoked, refused, changed, created] = await entriesOf(owner, `${path}/audit`);
  expect(created).toMatchObject({ sentence: 'Olga issued the key Shop <b>.', links, outcome: 'ok' });
  expect(changed).toMatchObject({ sentence: 'Olga changed the key Shop <b>.', links, outcome: 'ok' });
  expect(changed?.changes).toEqual(expect.arrayContaining(['Ceilings, cost: not set → 5', 'Ceilings, calls per minute: not set → 60']));
  expect(refused).toMatchObject({ sentence: `Olga tried to revoke the key sk-gw-${prefix}.`, links, outcome: 'refused bad_request' });
  expect(revoked).toMatchObject({ sentence: 'Olga revoked the key Shop <b>.', links });
  expect(revoked?.ids).toMatch(new RegExp(`^Details ?action key\\.revoke ?target ${prefix} ?by ${owner.personId}`));
  expect(revoked?.sentence).not.toContain(prefix);
});

test('audit log entries still name people who have left the project', async () => {
  const person = await signIn(gateway(), 'member', 'Petra');
  await owner.post(`${path}/members/${person.personId}/role`, { role: 'owner' });
  await owner.post(`${path}/members/${person.personId}/remove`);
  const [removed, promoted] = await entriesOf(owner, `${path}/audit`);
  expect([removed?.sentence, promoted?.sentence]).toEqual([
    'Olga removed Petra, who was an owner, from the project.',
    'Olga made Petra an owner, who was a member before.',
  ]);
  const [forAdmin] = await entriesOf(admin, `${path}/audit`);
  expect(forAdmin?.links).toContain(`/console/admin/people/${person.personId}`);
  await gateway().database.query('delete from people where id = $1::uuid', [person.personId]);
  const [later] = await entriesOf(owner, `${path}/audit`);
  expect(later?.sentence).toBe('Olga removed a person whose account no longer exists, who was an owner, from the project.');
});

test("the audit log doesn't tell project owners the names of people from outside the project", async () => {
  const stranger = await signIn(gateway(), 'stranger', 'Stella');
  for (const action of ['role', 'remove', 'sign-in-link'])
    expect((await owner.post(`${path}/members/${stranger.personId}/${action}`, { role: 'owner' })).status).toBe(404);
  const refused = await entriesOf(owner, `${path}/audit`);
  expect(refused[0]?.sentence).toBe('Olga tried to create a sign-in link for a person who is not a member.');
  expect(JSON.stringify(refused)).not.toContain('Stella');
  expect((await entriesOf(admin, '/console/admin/audit'))[0]?.sentence).toContain('Stella');
});

test('the audit log says who removed a memory and links to it', async () => {
  const written = await owner.post(`${path}/memory`, { text: 'Ann drinks tea', kind: 'fact', importance: '3', subject: 'ann' });
  const memory = written.headers.get('location') ?? '';
  await owner.post(`${memory}/remove`);
  const read = async () => (await entriesOf(owner, `${path}/audit?action=memory_item.remove`))[0];
  expect(await read()).toMatchObject({ sentence: 'Olga removed the memory “Ann drinks tea”.', links: [expect.any(String), memory] });
  expect(await textOf(owner.get(memory))).toMatch(/Removed by Olga ?, 20\d\d-/);
  const [row] = await gateway().database.query<{ detail: unknown }>(
    `select detail from audit_log where action = 'memory_item.remove' order by id desc limit 1`,
  );
  expect(JSON.stringify(row)).not.toContain('tea');
  await owner.post(`${path}/erase`, { subject: 'ann', confirmation: 'ann' });
  expect(await read()).toMatchObject({ sentence: 'Olga removed a memory that is no longer stored.', links: [expect.any(String)] });
});

test('the audit log shows the old and new text of a corrected memory', async () => {
  const text = `Bob works in ${'Oslo and '.repeat(20)}Rome`;
  const written = await owner.post(`${path}/memory`, { text, kind: 'fact', importance: '3' });
  const old = written.headers.get('location') ?? '';
  const corrected = (await owner.post(`${old}/correct`, { text: 'Bob <b> works in Rome' })).headers.get('location') ?? '';
  const [entry] = await entriesOf(owner, `${path}/audit?action=memory_item.correct`);
  expect(entry?.sentence).toMatch(/^Olga corrected the memory “Bob works in Oslo and [^”]*…” to “Bob <b> works in Rome”\.$/);
  expect(entry?.links).toEqual([expect.any(String), old, corrected]);
  const page = await textOf(owner.get(old));
  expect(page).toMatch(/Corrected by Olga ?, 20\d\d-[^.]*\. See what took its place/);
});

test("the audit log doesn't show the text of another project's memory", async () => {
  const elsewhere = await gateway().withProject('elsewhere');
  const other = await signIn(elsewhere, 'owner', 'Otto');
  const written = await other.post('/console/p/elsewhere/memory', { text: 'Secret plan', kind: 'fact', importance: '3' });
  const id = written.headers.get('location')?.split('/').at(-1) ?? '';
  expect((await owner.post(`${path}/memory/${id}/remove`)).status).toBe(404);
  const [entry] = await entriesOf(owner, `${path}/audit?action=memory_item.remove`);
  expect(entry?.sentence).toBe('Olga tried to remove a memory.');
  expect((await entriesOf(admin, '/console/admin/audit?action=memory_item.write'))[0]?.sentence).toBe(
    'Otto wrote the memory “Secret plan”.',
  );
});

test('the audit log describes changes that were made with the admin token', async () => {
  await gateway().admin('PUT', '/provision/teams/acme', { monthly_cap: 20 });
  const [entry] = await entriesOf(admin, '/console/admin/audit');
  expect(entry).toMatchObject({ sentence: 'The admin token changed the settings of the project acme.', links: [path] });
  expect(entry?.changes).toEqual(['Monthly cap: not set → 20']);
});

test('the audit log shows unknown actions by their internal name', async () => {
  await gateway().database.query(
    `insert into audit_log (at, actor, project_id, action, target, detail)
     select now(), 'admin_token', id, 'future.action', 'thing', '{}' from projects where slug = 'acme'`,
  );
  const [entry] = await entriesOf(owner, `${path}/audit`);
  expect(entry).toMatchObject({ sentence: 'The admin token made the change future.action to thing.', outcome: 'not finished' });
});
