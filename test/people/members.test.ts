import { beforeEach, expect, test } from '@jest/globals';
import { createMembers, type Members } from '../../src/people/members.ts';
import { describeDatabases } from '../db/databases.ts';
import { disable, insertPerson, insertProject } from './rows.ts';

describeDatabases('members', (database) => {
  let members: Members;
  let project = '';
  beforeEach(async () => {
    members = createMembers({ database: database(), clock: { now: () => 0 } });
    project = await insertProject(database());
  });

  test('a role holds in its project only; a deployment admin owns every project; a disabled person has no role', async () => {
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

  test('the last owner who can sign in stays', async () => {
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

  test('of two owners who leave at the same time, one stays', async () => {
    const owners = [await insertPerson(database()), await insertPerson(database())];
    for (const { id } of owners) await members.put(project, id, 'owner');
    const results = await Promise.allSettled(owners.map(({ id }) => members.remove(project, id)));
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await members.list(project)).toHaveLength(1);
  });
});
