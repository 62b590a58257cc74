/** Tests what we count and list about an end user if more is stored than we read. */
import { expect, test } from '@jest/globals';
import { countSubject, readConversationTimes } from '../../../src/memory/records/subjects.ts';
import { listFactsOfSubject } from '../../../src/memory/search/graph.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject } from '../calls.ts';

describeDatabases('what we know about an end user', (database, testOnAny) => {
  testOnAny("counts an end user's live memories even if more than 10,000 have been closed", async () => {
    const projectId = await createProject(database());
    const store = (state: string, pinned: boolean, count: number) =>
      database().query(
        `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author, state, pinned)
         select gen_random_uuid(), $1::uuid, 'ann', 'x', 'fact', 3, 'person', 'person:1', $2::text, $3::boolean
           from generate_series(1, $4::integer)`,
        [projectId, state, pinned, count],
      );
    await store('closed', false, 10_001);
    await store('live', false, 2);
    await store('live', true, 1);
    const { live, pinned, closed } = await countSubject(database(), projectId, 'ann');
    expect([live, pinned]).toEqual([
      { count: 3, isMore: false },
      { count: 1, isMore: false },
    ]);
    expect(closed.isMore).toBe(true);
  });

  test("reports when an end user's first conversation began, even if it ended last", async () => {
    const projectId = await createProject(database());
    for (const [started, last] of [
      ['2026-01-01', '2026-11-01'],
      ['2026-05-01', '2026-05-02'],
    ])
      await database().query(
        `insert into conversations (id, project_id, subject, source, state, calls, messages, tip_key, tip_message_key, started_at, last_turn_at)
         values (gen_random_uuid(), $1::uuid, 'ann', 'app', 'stored', 1, 1, '\\x00', '\\x00', $2::timestamptz, $3::timestamptz)`,
        [projectId, `${started}T00:00:00Z`, `${last}T00:00:00Z`],
      );
    expect(await readConversationTimes(database(), projectId, 'ann')).toEqual({
      first: new Date('2026-01-01T00:00:00Z'),
      last: new Date('2026-11-01T00:00:00Z'),
    });
    expect(await readConversationTimes(database(), projectId, 'nobody')).toBeNull();
  });

  test('reads only the newest 10,000 facts of an end user', async () => {
    const projectId = await createProject(database());
    await database().query(
      `insert into memory_entities (id, project_id, subject, name, folded_name) values (gen_random_uuid(), $1::uuid, 'ann', 'Ann', 'ann')`,
      [projectId],
    );
    const store = (fact: string, createdAt: string, validTo: string | null, count: number) =>
      database().query(
        `insert into memory_facts (id, project_id, subject, source_id, relation, target_id, fact, lexemes, valid_from, valid_to, created_at)
         select gen_random_uuid(), $1::uuid, 'ann', id, 'knows', id, $2::text, '', $3::timestamptz, $4::timestamptz, $3::timestamptz
           from memory_entities, generate_series(1, $5::integer) where project_id = $1::uuid`,
        [projectId, fact, createdAt, validTo, count],
      );
    const listed = async () => (await listFactsOfSubject(database(), projectId, 'ann', 5)).map(({ fact }) => fact);
    await store('ended', '2026-02-01T00:00:00Z', '2026-03-01T00:00:00Z', 9_999);
    await store('old', '2026-01-01T00:00:00Z', null, 1);
    expect(await listed()).toEqual(['old']);
    await store('ended', '2026-02-01T00:00:00Z', '2026-03-01T00:00:00Z', 1);
    expect(await listed()).toEqual([]);
    const { facts, endedFacts } = await countSubject(database(), projectId, 'ann');
    expect([facts, endedFacts]).toEqual([
      { count: 0, isMore: true },
      { count: 10_000, isMore: true },
    ]);
  });
});
