/** What is not learned again: what is known word for word, what was removed, what recall itself has told. */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, markAllRead, putMemorySettings, record, settledCall } from '../calls.ts';
import { createTestLearning, learnEveryMessage, listGroups, listItems, memory, storeReadConversation } from '../learning.ts';

describeDatabases('repeats', (database) => {
  const learning = () => createTestLearning(database());
  const look = (projectId: string) => learning().activities.checkLearning(projectId);

  test('word for word is so in every alphabet, whatever the case and the form of the letters', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.respond = learnEveryMessage;
    await storeReadConversation(database(), {
      projectId,
      subject: 'ann',
      words: ['Öl und Übermut', 'МОСКВА зимой', 'Café au lait', 'Ｔｅａ'],
    });
    await look(projectId);
    await parts.runBatches(projectId);
    await storeReadConversation(database(), {
      projectId,
      subject: 'ann',
      words: ['öl UND übermut.', 'Москва Зимой', 'CAFE\u0301 au lait', 'tea', 'Zug'],
    });
    await look(projectId);
    await parts.runBatches(projectId);
    expect((await listGroups(database(), projectId)).map(({ written, repeated }) => [written, repeated])).toEqual([
      [4, 0],
      [1, 4],
    ]);
  });

  test('what was removed is not learned again from what had been said before, only from what is said anew', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.respond = learnEveryMessage;
    const id = await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I like tea.'] });
    await look(projectId);
    await parts.runBatches(projectId);
    const [item] = await listItems(database(), projectId);
    const items = createItems({ database: database(), clock: systemClock });
    await items.remove(projectId, item?.id ?? '', { origin: 'person', author: 'ann@example.org' });
    await parts.remember(projectId, id, null);
    await parts.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ state }) => state)).toEqual(['closed']);

    const tomorrow = 3 * 24 * 3_600 + Math.round((Date.now() - Date.UTC(2026, 10, 20)) / 1_000);
    const said = { projectId, subject: 'ann', source: 'later', at: tomorrow, body: chatBody('u I like tea.'), answer: 'Noted.' };
    await record(database(), [settledCall(said)]);
    await markAllRead(database(), projectId);
    await look(projectId);
    await parts.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ state }) => state)).toEqual(['closed', 'live']);
  });

  test('a memory of a server that does not know its words yet is kept, and may be learned beside it', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await database().query(
      `insert into memory_items (id, project_id, subject, text, kind, importance, origin, author)
       values (gen_random_uuid(), $1::uuid, 'ann', 'I like tea.', 'fact', 3, 'agent', 'key:x')`,
      [projectId],
    );
    const parts = learning();
    parts.respond = learnEveryMessage;
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I like tea.'] });
    await look(projectId);
    await parts.runBatches(projectId);
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I like tea.' }, { text: 'I like tea.' }]);
  });

  test('what recall put into a conversation is not learned from it word for word, whosever it is', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    const items = createItems({ database: database(), clock: systemClock });
    const wish = { text: 'Ann likes tea.', kind: 'preference' as const, importance: 3, subject: 'ann', pinned: false };
    const known = await items.write(projectId, wish, { origin: 'agent', author: 'key:a' });
    const call = settledCall({ projectId, explicitWrite: true, body: chatBody('u Who likes tea?'), answer: 'Ann likes tea.' });
    await record(database(), [{ ...call, content: call.content && { ...call.content, recalled: [known.id] } }]);
    await markAllRead(database(), projectId);
    parts.respond = ({ job }) =>
      job === 'extract' ? { memories: [memory('Ann likes tea', 'likes tea')] } : { merges: [], facts: [], page: '' };
    await look(projectId);
    await parts.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ subject }) => subject)).toEqual(['ann']);
  });
});
