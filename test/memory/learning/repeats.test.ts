/** Tests that memories aren't learned again if they are identical to another one, or were removed or recalled. */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, markAllRead, putMemorySettings, record, settledCall } from '../calls.ts';
import { createTestLearning, learnEveryMessage, listGroups, listItems, memory, storeReadConversation } from '../learning.ts';

describeDatabases('memories that are learned again', (database) => {
  const learning = () => createTestLearning(database());
  const check = (projectId: string) => learning().activities.checkLearning(projectId);

  test('recognizes a known memory in any script, regardless of case and Unicode form', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = learnEveryMessage;
    await storeReadConversation(database(), {
      projectId,
      subject: 'ann',
      texts: ['Öl und Übermut', 'МОСКВА зимой', 'Café au lait', 'Ｔｅａ ｔｉｍｅ'],
    });
    await check(projectId);
    await learner.runBatches(projectId);
    await storeReadConversation(database(), {
      projectId,
      subject: 'ann',
      texts: ['öl UND übermut.', 'Москва Зимой', 'CAFE\u0301 au lait', 'tea time', 'Bahnhof'],
    });
    await check(projectId);
    await learner.runBatches(projectId);
    expect((await listGroups(database(), projectId)).map(({ written, repeated }) => [written, repeated])).toEqual([
      [4, 0],
      [1, 4],
    ]);
  });

  test('relearns a removed memory only from newer messages', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = learnEveryMessage;
    const id = await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I like tea.'] });
    await check(projectId);
    await learner.runBatches(projectId);
    const [item] = await listItems(database(), projectId);
    const items = createItems({ database: database(), clock: systemClock });
    await items.remove(projectId, item?.id ?? '', { origin: 'person', author: 'ann@example.org' });
    await learner.remember(projectId, id, null);
    await learner.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ state }) => state)).toEqual(['closed']);

    const tomorrow = 3 * 24 * 3_600 + Math.round((Date.now() - Date.UTC(2026, 10, 20)) / 1_000);
    const said = { projectId, subject: 'ann', source: 'later', at: tomorrow, body: chatBody('u I like tea.'), answer: 'Noted.' };
    await record(database(), [settledCall(said)]);
    await markAllRead(database(), projectId);
    await check(projectId);
    await learner.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ state }) => state)).toEqual(['closed', 'live']);
  });

  test('still excludes a memory that was rated wrong twice if it is removed and learned again', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const items = createItems({ database: database(), clock: systemClock });
    const writer = { origin: 'agent', author: 'key:x' } as const;
    const fields = { subject: 'ann', kind: 'fact', importance: 3, pinned: false } as const;
    const { id } = await items.write(projectId, { ...fields, text: 'I like tea.' }, writer);
    for (const rating of ['wrong', 'wrong'] as const) await items.rate(projectId, id, rating);
    await items.remove(projectId, id, writer);
    const learner = learning();
    learner.respond = learnEveryMessage;
    const tomorrow = 24 * 3_600 + Math.round((Date.now() - Date.UTC(2026, 10, 20)) / 1_000);
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I like tea.', 'I like cake.'], at: tomorrow });
    await check(projectId);
    await learner.runBatches(projectId);
    const learned = await database().query(
      `select text, ratings_wrong as wrong from memory_items where project_id = $1::uuid and origin = 'observed' order by text`,
      [projectId],
    );
    expect(learned).toEqual([
      { text: 'I like cake.', wrong: 0 },
      { text: 'I like tea.', wrong: 2 },
    ]);
  });

  test('keeps a memory that an older version stored without a text hash', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await database().query(
      `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author)
       values (gen_random_uuid(), $1::uuid, 'ann', 'I like tea.', 'fact', 3, 'agent', 'key:x')`,
      [projectId],
    );
    const learner = learning();
    learner.respond = learnEveryMessage;
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I like tea.'] });
    await check(projectId);
    await learner.runBatches(projectId);
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I like tea.' }, { text: 'I like tea.' }]);
  });

  test("doesn't learn a memory from a conversation in which it was recalled", async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    const items = createItems({ database: database(), clock: systemClock });
    const item = { text: 'Ann likes tea.', kind: 'preference' as const, importance: 3, subject: 'ann', pinned: false };
    const known = await items.write(projectId, item, { origin: 'agent', author: 'key:a' });
    const call = settledCall({ projectId, explicitWrite: true, body: chatBody('u Who likes tea?'), answer: 'Ann likes tea.' });
    await record(database(), [{ ...call, content: call.content && { ...call.content, recalled: [known.id] } }]);
    await markAllRead(database(), projectId);
    learner.respond = ({ job }) =>
      job === 'extract' ? { memories: [memory('Ann likes tea', 'likes tea')] } : { merges: [], facts: [], page: '' };
    await check(projectId);
    await learner.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ subject }) => subject)).toEqual(['ann']);
  });
});
