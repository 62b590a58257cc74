/** Tests that nobody loses work. Removals can be undone, and forms warn you if somebody else has changed something. */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { type SignedIn, signIn } from '../support/console.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';
import { hiddenValue, textOf } from '../support/page-text.ts';

const gateway = shareGateway({ database: 'any' });
const path = '/console/p/acme';
let owner: SignedIn;
let member: SignedIn;

beforeAll(async () => {
  [owner, member] = await Promise.all([signIn(gateway(), 'owner'), signIn(gateway(), 'member')]);
});

/** Follows a redirect like a browser, with the cookies that it set. Returns the page. */
async function follow({ cookie }: SignedIn, response: Response): Promise<string> {
  const cookies = [cookie, ...response.headers.getSetCookie().map((set) => set.split(';')[0] ?? '')];
  expect(response.status).toBe(303);
  return (await fetch(gateway().url + (response.headers.get('location') ?? ''), { headers: { cookie: cookies.join('; ') } })).text();
}

const lastAudit = async (): Promise<unknown> =>
  (await gateway().database.query('select action, outcome, detail from audit_log order by id desc limit 1'))[0];

describe('undoing the removal of a member', () => {
  const rowOf = async (email: string): Promise<unknown> => {
    const csv = (await (await owner.get(`${path}/members.csv`)).text()).split('\r\n');
    return csv.find((line) => line.startsWith(email));
  };

  test('restores a removed member with the same role', async () => {
    const person = await signIn(gateway(), 'member', 'Petra');
    const before = await rowOf(person.email);
    const page = await follow(owner, await owner.post(`${path}/members/${person.personId}/remove`));
    expect(page).toContain('Petra is no longer a member.');
    expect((await person.get(`${path}/keys`)).status).toBe(404);

    const undo = { removed: hiddenValue(page, 'removed') };
    expect((await member.post(`${path}/members/restore`, undo)).status).toBe(403);
    expect(await follow(owner, await owner.post(`${path}/members/restore`, undo))).toContain('Petra is a member again.');
    expect((await person.get(`${path}/keys`)).status).toBe(200);
    expect(await rowOf(person.email)).toBe(before);
    expect(await lastAudit()).toEqual({ action: 'member.restore', outcome: 'ok', detail: { person_id: person.personId, role: 'member' } });
    expect(await textOf(owner.post(`${path}/members/restore`, undo), 422)).toContain('Petra is already a member');

    // An owner adds the address again, which creates an unconfirmed account, and somebody else has the page with the
    // undo button open.
    await owner.post(`${path}/members/${person.personId}/remove`);
    await owner.post(`${path}/members`, { email: person.email, name: 'Petra again', role: 'member' });
    expect(await textOf(owner.post(`${path}/members/restore`, undo), 422)).toContain('Petra is already a member');
    expect(await rowOf(person.email)).toContain('Petra again');
  });

  test('restoring a removed member whose account was never confirmed creates a new account', async () => {
    await owner.post(`${path}/members`, { email: 'nora@example.com', name: 'Nora', role: 'owner' });
    const [row] = await gateway().database.query<{ id: string }>(`select id from people where claimed_email = 'nora@example.com'`);
    const page = await follow(owner, await owner.post(`${path}/members/${row?.id}/remove`));
    expect(await rowOf('nora@example.com')).toBeUndefined();
    const restored = await textOf(owner.post(`${path}/members/restore`, { removed: hiddenValue(page, 'removed') }));
    expect(restored).toContain('/console/sign-in/link?token=');
    expect(await rowOf('nora@example.com')).toContain('Nora,owner');
  });

  test('restores only members who were removed from the project within the last hour', async () => {
    const [person, other] = [await signIn(gateway(), 'member', 'Oskar'), await signIn(gateway(), 'owner')];
    const remove = async () => hiddenValue(await follow(owner, await owner.post(`${path}/members/${person.personId}/remove`)), 'removed');
    const restore = (removed: string, project = 'acme') => other.post(`/console/p/${project}/members/restore`, { removed });
    const removed = await remove();
    const stranger = await signIn(gateway(), 'stranger', 'Stella');
    expect(await textOf(restore(removed.replace(person.personId, stranger.personId)), 422)).toContain('can no longer be undone');
    expect(await (await owner.get(`${path}/members.csv`)).text()).not.toContain('Stella');
    for (const value of ['', 'x.y', '{}', removed.replace('"member"', '"admin"')]) expect((await restore(value)).status).toBe(422);
    const elsewhere = await gateway().withProject('elsewhere');
    const admin = await signIn(gateway(), 'admin');
    expect((await admin.post(`/console/p/${elsewhere.project}/members/restore`, { removed })).status).toBe(422);
    expect((await restore(removed)).status).toBe(303);

    const removedAgain = await remove();
    await gateway().database.query(`update audit_log set at = at - interval '61 minutes' where action = 'member.remove'`);
    expect(await textOf(restore(removedAgain), 422)).toContain('can no longer be undone');
  });
});

describe('undoing the removal of a memory', () => {
  const write = async (fields: Record<string, string> = {}): Promise<string> => {
    const form = { text: 'Ann drinks tea', kind: 'preference', importance: '4', subject: 'ann', ...fields };
    return (await member.post(`${path}/memory`, form)).headers.get('location')?.split('/').at(-1) ?? '';
  };

  test('restores a memory with the same text, end user and pin', async () => {
    const id = await write({ pinned: 'on' });
    const page = await follow(member, await member.post(`${path}/memory/${id}/remove`));
    expect(page).toMatch(new RegExp(`action="${path}/memory/${id}/restore".*Undo`));
    expect(await textOf(member.get(`${path}/memory/${id}`))).toContain('Restore');
    const restored = await member.post(`${path}/memory/${id}/restore`);
    const newId = restored.headers.get('location')?.split('/').at(-1) ?? '';
    expect(newId).not.toBe(id);
    const shown = await textOf(member.get(`${path}/memory/${newId}`));
    expect(shown).toMatch(/Ann drinks tea Preference.*Pinned.*Subject ann Importance 4 of 5/);
    expect(shown).toContain('Removed, then restored');
    expect(await lastAudit()).toMatchObject({ action: 'memory_item.restore', outcome: 'ok', detail: { memory: newId, restores: id } });
    expect(await textOf(member.get(`${path}/memory?q=tea`))).toContain('Ann drinks tea');
  });

  test('restores a removed memory only once', async () => {
    const [removed, live, corrected] = [await write(), await write(), await write()];
    await member.post(`${path}/memory/${removed}/remove`);
    const both = await Promise.all([1, 2].map(() => member.post(`${path}/memory/${removed}/restore`)));
    expect(both.map(({ status }) => status).toSorted()).toEqual([303, 422]);
    expect(await textOf(member.post(`${path}/memory/${live}/restore`), 422)).toContain('This memory is already live');
    await member.post(`${path}/memory/${corrected}/correct`, { text: 'Ann drinks coffee' });
    expect(await textOf(member.post(`${path}/memory/${corrected}/restore`), 422)).toContain('replaced by another one; see its history');
    expect(await textOf(member.get(`${path}/memory/${corrected}`))).not.toContain('Restore');
  });

  test("doesn't restore a memory of an erased end user", async () => {
    const id = await write({ subject: 'leaving' });
    await member.post(`${path}/memory/${id}/remove`);
    await owner.post(`${path}/erase`, { subject: 'leaving', confirmation: 'leaving' });
    expect((await member.post(`${path}/memory/${id}/restore`)).status).toBe(404);
  });
});

describe('a form whose settings have changed in the meantime', () => {
  test('warns before overwriting a project name that somebody else has just changed', async () => {
    const opened = await (await owner.get(`${path}/project/edit`)).text();
    const form = { name: 'Mine', time_zone: 'UTC', may_call: 'on', 'cache.ttl_seconds': '300', read: hiddenValue(opened, 'read') };
    const ttl = /name="cache.ttl_seconds"[^>]*value="(\d+)"/.exec(opened)?.[1] ?? '';
    await gateway().admin('PUT', '/provision/teams/acme', { name: 'Theirs' });
    const refused = await owner.post(`${path}/project/edit`, { ...form, 'cache.ttl_seconds': ttl });
    const page = await refused.text();
    expect([refused.status, page.includes('Someone else saved these settings')]).toEqual([422, true]);
    expect(page).toMatch(/Name: was <code>acme<\/code>, is now <code>Theirs<\/code>/);
    expect(page).toMatch(/name="name"[^>]*value="Mine"/);
    expect((await owner.post(`${path}/project/edit`, { ...form, 'cache.ttl_seconds': ttl, read: hiddenValue(page, 'read') })).status).toBe(
      303,
    );
    expect(await textOf(owner.get(`${path}/project`))).toContain('Name Mine');
  });

  test('warns before overwriting memory settings that somebody else has just changed', async () => {
    const memory = '/provision/teams/acme/memory';
    const read = hiddenValue(await (await member.get(`${path}/settings`)).text(), 'read');
    const form = { enabled: 'on', only_senders: '', delete_conversations_after_days: '', batch_of: '30', at_least_every_minutes: '60' };
    await gateway().admin('PUT', memory, { batch_of: 10, at_least_every_minutes: 90 });
    const page = await (await member.post(`${path}/settings`, { ...form, read })).text();
    expect(page).toContain('Batch of: was <code>20</code>, is now <code>10</code>');
    expect(page).not.toContain('At least every: was');
    expect(page).toMatch(/name="batch_of"[^>]*value="30"/);
    expect((await member.post(`${path}/settings`, { ...form, read: hiddenValue(page, 'read') })).status).toBe(303);
    expect(await jsonOf(gateway().admin('GET', memory))).toMatchObject({ batch_of: 30, at_least_every_minutes: 90 });

    const before = hiddenValue(await (await member.get(`${path}/settings`)).text(), 'read');
    await gateway().database.query(
      `update memory_settings set pending_deletion = '{"delete_conversations_after_days":7,"delete_unlearned":false,"effective_at":"2099-01-01T00:00:00Z","conversations":3}'`,
    );
    const period = { ...form, delete_conversations_after_days: '90', at_least_every_minutes: '90' };
    const warned = await (await member.post(`${path}/settings`, { ...period, read: before })).text();
    expect(warned).toMatch(/Pending deletion: was not set, is now <code>delete_conversations_after_days 7/);
    expect(await jsonOf(gateway().admin('GET', memory))).toMatchObject({ pending_deletion: { delete_conversations_after_days: 7 } });
    await gateway().database.query('update memory_settings set pending_deletion = null');
  });
});
