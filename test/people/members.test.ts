import { beforeEach, expect, test } from '@jest/globals';
import { createMembers, type Members } from '../../src/people/members.ts';
import { createPeople } from '../../src/people/people.ts';
import { describeDatabases } from '../db/databases.ts';
import { disable, insertPerson, insertProject, personOf, uniqueEmail } from './rows.ts';

const clock = { now: () => 0 };

describeDatabases('members of a project', (database) => {
  let members: Members;
  let project = '';
  beforeEach(async () => {
    members = createMembers({ database: database(), clock });
    project = await insertProject(database());
  });

  test('gives people a role only in the projects that they were added to', async () => {
    const [ann, admin] = [await insertPerson(database()), await insertPerson(database(), { isAdmin: true })];
    const other = await insertProject(database());
    await members.put(project, ann.id, 'member');
    expect(await members.roleOf(ann.id, project)).toBe('member');
    expect(await members.roleOf(ann.id, other)).toBeNull();
    expect(await members.roleOf(admin.id, other)).toBe('owner');
    expect((await members.projectsOf(ann)).map(({ projectId, role }) => [projectId, role])).toEqual([[project, 'member']]);
    expect((await members.projectsOf(admin)).map(({ projectId }) => projectId)).toEqual(expect.arrayContaining([project, other]));
    await disable(database(), ann.id);
    await disable(database(), admin.id);
    expect([await members.roleOf(ann.id, project), await members.roleOf(admin.id, project)]).toEqual([null, null]);
  });

  test("doesn't remove the last owner who can sign in", async () => {
    const [ann, bob, gone] = [await insertPerson(database()), await insertPerson(database()), await insertPerson(database())];
    expect(await members.put(project, ann.id, 'owner')).toMatchObject({ previous: null, member: { role: 'owner', email: ann.email } });
    await members.put(project, gone.id, 'owner');
    await disable(database(), gone.id);
    await expect(members.remove(project, ann.id)).rejects.toMatchObject({ code: 'conflict' });
    await expect(members.put(project, ann.id, 'member')).rejects.toMatchObject({ code: 'conflict' });
    await members.put(project, bob.id, 'owner');
    expect(await members.put(project, ann.id, 'member')).toMatchObject({ previous: 'owner' });
    await members.remove(project, gone.id);
    await expect(members.remove(project, gone.id)).rejects.toMatchObject({ code: 'not_found' });
    expect((await members.list(project)).map(({ personId }) => personId).sort()).toEqual([ann.id, bob.id].sort());
  });

  test("doesn't add a removed member again when their role is changed at the same time", async () => {
    for (let round = 0; round < 5; round += 1) {
      const [ann, bob] = [await insertPerson(database()), await insertPerson(database())];
      for (const { id } of [ann, bob]) await members.put(project, id, 'owner');
      const unconfirmed = (await members.invite(project, { email: uniqueEmail() }, 'member')).personId;
      for (const personId of [bob.id, unconfirmed]) {
        const [removed, changed] = await Promise.allSettled([
          members.remove(project, personId),
          members.changeRole(project, personId, 'owner'),
        ]);
        expect(removed).toMatchObject({ status: 'fulfilled' });
        if (changed.status === 'rejected') expect(changed.reason).toMatchObject({ code: 'not_found' });
        expect((await members.list(project)).filter((member) => member.personId === personId)).toEqual([]);
      }
    }
  });

  test('adds and removes members at the same time without a deadlock', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { personId } = await members.invite(project, { email: uniqueEmail() }, 'member');
      const done = await Promise.allSettled([
        members.put(project, personId, 'owner'),
        members.remove(project, personId),
        members.put(project, personId, 'member'),
      ]);
      for (const result of done)
        if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: expect.stringMatching(/^(?:not_found|conflict)$/) });
    }
  });

  test('creates an account limited to the project when an owner adds an e-mail address', async () => {
    const people = createPeople({ database: database(), clock });
    const other = await insertProject(database());
    const [known, unknown] = [(await insertPerson(database())).email, uniqueEmail()];
    const added = await Promise.all([known, unknown].map((email) => members.invite(project, { email, name: 'Ann' }, 'member')));
    const shape = { personId: expect.any(String), role: 'member', name: 'Ann', isConfirmed: false, isDisabled: false, createdAt: 0 };
    expect(added).toEqual([known, unknown].map((email) => ({ ...shape, email })));
    await expect(members.invite(project, { email: known.toUpperCase() }, 'owner')).rejects.toMatchObject({ code: 'conflict' });
    // The owner of another project adds an address for which somebody else has already created an account.
    const victim = await members.invite(other, { email: unknown }, 'owner');
    for (const { personId } of added) {
      const link = await people.links.issue(personId);
      await expect(people.links.use(link.secret, { email: '', name: '', password: 'correct horse battery' })).rejects.toMatchObject({
        code: 'bad_request',
      });
      const person = await people.links.use(link.secret, { email: '', name: '', password: '' });
      expect((await members.projectsOf(person)).map(({ projectId }) => projectId)).toEqual([project]);
      expect([await members.roleOf(personId, project), await members.roleOf(personId, other)]).toEqual(['member', null]);
      await expect(members.put(other, personId, 'member')).rejects.toMatchObject({ code: 'not_found' });
      await expect(people.accounts.change(personId, { admin: true })).rejects.toMatchObject({ code: 'conflict' });
    }
    expect(victim.personId).not.toBe(added[1]?.personId);
  });

  test('gives people their role in a project once they have confirmed their e-mail address', async () => {
    const people = createPeople({ database: database(), clock });
    const [ann, elsewhere] = [await insertPerson(database()), await insertProject(database())];
    await members.put(elsewhere, ann.id, 'member');
    const [known, unknown] = [ann.email, uniqueEmail()];
    const rows = async () => (await members.list(project)).map(({ email: _, personId: _id, ...row }) => row);
    for (const email of [known, unknown]) await members.invite(project, { email, name: 'Somebody' }, 'owner');
    expect(await members.roleOf(ann.id, project)).toBe('owner');
    expect((await members.projectsOf(ann)).map(({ projectId, role }) => [projectId, role])).toContainEqual([project, 'owner']);
    const before = await members.list(project);
    await people.sessions.start(ann.id, { userAgent: null });
    expect(await members.list(project)).toEqual(before);
    // Both look the same once the identity provider has confirmed them, and the ids don't contain when an account was
    // created.
    await database().query(`update people set oidc_issuer = 'https://id.example', oidc_sub = email where id = $1::uuid`, [ann.id]);
    const identity = (email: string) => ({ issuer: 'https://id.example', subject: email, verifiedEmail: email, name: ann.name });
    for (const email of [known, unknown]) await people.signIn.withOidc(identity(email), []);
    const confirmed = { name: ann.name, role: 'owner', isDisabled: false, isConfirmed: true, createdAt: 0 };
    expect(await rows()).toEqual([confirmed, confirmed]);
  });

  test("gives members ids that don't reveal when their account was created", async () => {
    const people = createPeople({ database: database(), clock });
    const created = await people.accounts.create({ email: uniqueEmail() });
    const invited = await members.invite(project, { email: uniqueEmail() }, 'member');
    expect([created.id, invited.personId].map((id) => id[14])).toEqual(['4', '4']);
  });

  test('ends access for every account with the same e-mail address when a person is disabled', async () => {
    let now = 1_000;
    const people = createPeople({ database: database(), clock: { now: () => now } });
    const ann = await people.accounts.create({ email: uniqueEmail() });
    const other = await insertProject(database());
    const [here, there] = await Promise.all([project, other].map((id) => members.invite(id, { email: ann.email }, 'member')));
    const invitedIds = [here?.personId ?? '', there?.personId ?? ''] as const;
    const stranger = await members.invite(other, { email: uniqueEmail() }, 'member');
    const start = (id: string) => people.sessions.start(id, { userAgent: null });
    const sessions = await Promise.all([ann.id, ...invitedIds].map(start));
    const alive = () => Promise.all(sessions.map(async ({ secret }) => (await people.sessions.find(secret)) !== null));
    const disabled = () =>
      Promise.all([ann.id, ...invitedIds, stranger.personId].map(async (id) => (await people.accounts.get(id)).disabledAt !== null));
    // An unconfirmed account may be another person's, so disabling it leaves the rest of the address alone.
    await people.accounts.change(invitedIds[0], { disabled: true });
    expect([await alive(), await disabled()]).toEqual([
      [true, false, true],
      [false, true, false, false],
    ]);
    now += 1;
    await people.accounts.change(ann.id, { disabled: true });
    expect([await alive(), await disabled()]).toEqual([
      [false, false, false],
      [true, true, true, false],
    ]);
    await people.accounts.change(ann.id, { disabled: false });
    expect(await disabled()).toEqual([false, true, false, false]);
    await people.accounts.remove(ann.id);
    for (const id of [ann.id, ...invitedIds]) await expect(people.accounts.get(id)).rejects.toMatchObject({ code: 'not_found' });
    expect(await people.accounts.get(stranger.personId)).toMatchObject({ disabledAt: null });
  });

  test('ends all existing access to an account when its e-mail address is confirmed', async () => {
    const people = createPeople({ database: database(), clock });
    const other = await insertProject(database());
    for (const confirm of [
      async (_personId: string, email: string) => people.accounts.create({ email, admin: true }),
      async (personId: string) => (await people.accounts.confirm(personId)).person,
      async (_personId: string, email: string) =>
        personOf(people.signIn.withOidc({ issuer: 'https://id.example', subject: email, verifiedEmail: email, name: 'Ann' }, [])),
    ]) {
      const email = uniqueEmail();
      const [here, there] = [await members.invite(project, { email }, 'owner'), await members.invite(other, { email }, 'member')];
      const session = await people.sessions.start(here.personId, { userAgent: null });
      const { token } = await people.personalTokens.create(here.personId, { name: 'x', scopes: ['usage:read'], days: 1 });
      const link = await people.links.issue(there.personId);
      expect((await people.accounts.listUnconfirmed()).filter((person) => person.email === email)).toHaveLength(2);
      const person = await confirm(here.personId, email);
      expect(person).toMatchObject({ email, onlyProject: null, hasPassword: false });
      expect([await people.sessions.find(session.secret), await people.personalTokens.find(token)]).toEqual([null, null]);
      expect(await people.links.find(link.secret)).toBeNull();
      const listed = [...(await members.list(project)), ...(await members.list(other))].filter((member) => member.email === email);
      expect(listed.map(({ personId, role }) => [personId, role])).toEqual([
        [person?.id, 'owner'],
        [person?.id, 'member'],
      ]);
      await expect(people.accounts.confirm(person?.id ?? '')).rejects.toMatchObject({ code: 'conflict' });
    }
  });

  test('deletes an unconfirmed account when the member is removed from the project', async () => {
    const people = createPeople({ database: database(), clock });
    const email = uniqueEmail();
    const { personId } = await members.invite(project, { email }, 'member');
    const session = await people.sessions.start(personId, { userAgent: null });
    expect(await members.remove(project, personId)).toMatchObject({ email });
    expect(await people.sessions.find(session.secret)).toBeNull();
    expect((await members.invite(project, { email }, 'member')).personId).not.toBe(personId);
  });

  test('keeps one owner if the last two leave at the same time', async () => {
    const owners = [await insertPerson(database()), await insertPerson(database())];
    for (const { id } of owners) await members.put(project, id, 'owner');
    const results = await Promise.allSettled(owners.map(({ id }) => members.remove(project, id)));
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await members.list(project)).toHaveLength(1);
  });
});
