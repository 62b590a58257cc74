import { beforeEach, expect, test } from '@jest/globals';
import { type Audit, createAudit } from '../../src/people/audit.ts';
import { describeAnyDatabase } from '../db/databases.ts';
import { insertPerson, insertProject } from './rows.ts';

describeAnyDatabase('the audit log', (database) => {
  let now = 0;
  let audit: Audit;
  let project = '';
  beforeEach(async () => {
    now = Date.parse('2026-11-20T10:00:00Z');
    audit = createAudit({ database: database(), clock: { now: () => now } });
    project = await insertProject(database());
  });

  const write = (action: string, personId: string | null = null) =>
    audit.begin({ actor: personId ? 'person' : 'admin_token', personId, projectId: project, action, target: 'a1' });

  test('writes an audit row before a change, and adds the outcome afterwards', async () => {
    const person = await insertPerson(database());
    const id = await write('key.issue', person.id);
    const list = () => audit.list({ projectId: project, limit: 10 });
    expect(await list()).toMatchObject([{ id, at: now, action: 'key.issue', target: 'a1', outcome: null, detail: {} }]);
    await audit.finish(id, 'refused', { name: ['a', 'b'] });
    const { email, name } = person;
    expect(await list()).toMatchObject([{ outcome: 'refused', detail: { name: ['a', 'b'] }, actor: 'person', person: { email, name } }]);
  });

  test('filters audit rows and returns them page by page, newest first', async () => {
    const ann = await insertPerson(database());
    const ids: number[] = [];
    for (const action of ['a', 'b', 'a', 'b']) {
      ids.push(await write(action, action === 'a' ? ann.id : null));
      now += 1_000;
    }
    const list = async (filter: object) =>
      (await audit.list({ projectId: project, limit: 10, ...filter })).map(({ id }) => ids.indexOf(id));
    expect(await list({ limit: 3 })).toEqual([3, 2, 1]);
    expect(await list({ before: ids[1] })).toEqual([0]);
    expect(await list({ action: 'b' })).toEqual([3, 1]);
    expect(await list({ personId: ann.id })).toEqual([2, 0]);
    expect(await list({ from: now - 3_000, to: now - 1_000 })).toEqual([2, 1]);
    expect(await list({ projectId: await insertProject(database()) })).toEqual([]);
  });

  test('keeps only the id of a deleted person in audit rows', async () => {
    const ann = await insertPerson(database());
    await write('a', ann.id);
    await database().query('delete from people where id = $1::uuid', [ann.id]);
    expect(await audit.list({ projectId: project, limit: 1 })).toMatchObject([{ personId: ann.id, person: null }]);
    expect(JSON.stringify(await database().query('select * from audit_log'))).not.toContain(ann.email);
  });
});
