/** Tests conversations in the way in which people list and read them. */
import { expect, test } from '@jest/globals';
import {
  type ConversationFilter,
  listConversationCalls,
  listConversations,
  listMessages,
  readConversation,
} from '../../../src/memory/conversations/list-conversations.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, markAllRead, record, settledCall } from '../calls.ts';

const any: ConversationFilter = { source: null, subject: null, state: null };

describeDatabases('lists of conversations', (database) => {
  test('lists conversations page by page, sorted by their last turn', async () => {
    const projectId = await createProject(database());
    const talk = (n: number, at: number, more: object = {}) =>
      settledCall({ projectId, at, body: chatBody(`u question ${n}`), answer: `answer ${n}`, ...more });
    await record(database(), [talk(1, 1), talk(2, 5), talk(3, 5), talk(4, 9, { subject: 'ann' }), talk(5, 9, { source: 'web' })]);
    await database().query(`update conversations set last_turn_at = last_turn_at + interval '7 microseconds' where project_id = $1::uuid`, [
      projectId,
    ]);
    const seen: string[] = [];
    for (let before: string | null = null; ; ) {
      const page = await listConversations(database(), projectId, any, { before, limit: 2 });
      seen.push(...page.map(({ id }) => id));
      before = page.at(-1)?.cursor ?? null;
      if (page.length < 2) break;
    }
    expect(seen).toHaveLength(5);
    expect(new Set(seen).size).toBe(5);
    const count = async (filter: Partial<ConversationFilter>) =>
      (await listConversations(database(), projectId, { ...any, ...filter }, { before: 'x', limit: 10 })).length;
    expect([await count({ subject: 'ann' }), await count({ source: 'web' }), await count({ state: 'read' })]).toEqual([1, 1, 0]);
    expect(await listConversations(database(), await createProject(database()), any, { before: null, limit: 10 })).toEqual([]);
  });

  test('lists the messages and calls of a conversation page by page', async () => {
    const projectId = await createProject(database());
    const first = settledCall({ projectId, at: 1, body: chatBody('u one'), answer: 'two' });
    const second = settledCall({ projectId, at: 3, body: chatBody('u one', 'a two', 'u three'), answer: 'four' });
    await record(database(), [first, second]);
    await markAllRead(database(), projectId);
    const [{ id = '' } = {}] = await listConversations(database(), projectId, any, { before: null, limit: 1 });
    await database().query(`update conversations set text = 'user: one' where id = $1::uuid`, [id]);
    expect(await readConversation(database(), projectId, id, 6)).toMatchObject({ calls: 2, messages: 4, text: 'user: ', textLength: 9 });
    const messages = await listMessages(database(), id, { from: 1, limit: 2, maxText: 3 });
    expect(messages.map(({ position, role, text, callId }) => [position, role, text, callId])).toEqual([
      [1, 'assistant', 'two', first.metadata.id],
      [2, 'user', 'thr', null],
    ]);
    expect(messages[1]?.textLength).toBe(5);
    // In production, the drain stores the rows of calls. Here, we only store the prompts.
    expect(await listConversationCalls(database(), id, 10)).toEqual([]);
    expect(await readConversation(database(), await createProject(database()), id, 6)).toBeNull();
    expect(await readConversation(database(), projectId, 'x', 6)).toBeNull();
  });
});
