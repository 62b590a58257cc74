/** Tests the text of a call in the way in which people read it. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { readCallMemory, readCallText } from '../../../src/memory/conversations/read-call-text.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, record, settledCall } from '../calls.ts';

describeDatabases('the text of a call', (database) => {
  test('contains the newest messages and the response, truncated to the maximum size', async () => {
    const projectId = await createProject(database());
    const body = chatBody('s be brief', 'u one', 'a two', 'u three');
    const call = settledCall({ projectId, at: 1, body, answer: 'four' });
    await record(database(), [call]);
    const { id } = call.metadata;
    const read = (maxMessages: number, maxText = 100) => readCallText(database(), projectId, id, { maxMessages, maxText });
    const all = await read(10);
    expect(all?.messages.map(({ role, text }) => `${role} ${text}`)).toEqual(['user one', 'assistant two', 'user three', 'assistant four']);
    const system = { kind: 'system', type: 'system', text: 'be brief' };
    expect(all).toMatchObject({ answered: true, hasOlder: false, extras: [system], hasMoreExtras: false });
    const short = await read(2, 3);
    expect(short?.messages.map(({ text, textLength }) => [text, textLength])).toEqual([
      ['thr', 5],
      ['fou', 4],
    ]);
    expect(short).toMatchObject({ hasOlder: true, extras: [{ text: 'be ', isCut: true }] });
    expect([...(all?.messages ?? []), ...(all?.extras ?? [])].some(({ isCut }) => isCut)).toBe(false);
    const other = await createProject(database());
    expect(await readCallText(database(), other, id, { maxMessages: 10, maxText: 10 })).toBeNull();
    expect(await readCallMemory(database(), other, id)).toBeNull();
  });

  test('reports which texts are truncated, even if they contain emoji', async () => {
    const projectId = await createProject(database());
    const call = settledCall({ projectId, at: 1, body: chatBody('s 😀😀😀😀', 'u 😀😀😀😀', 'a 😀😀', 'u 😀'), answer: '😀😀😀😀😀' });
    await record(database(), [call]);
    const text = await readCallText(database(), projectId, call.metadata.id, { maxMessages: 10, maxText: 3 });
    expect(text?.messages.map((message) => [message.text, message.textLength, message.isCut])).toEqual([
      ['😀😀😀', 4, true],
      ['😀😀', 2, false],
      ['😀', 1, false],
      ['😀😀😀', 5, true],
    ]);
    expect(text?.extras).toMatchObject([{ isCut: true }]);
  });

  test('reports which tool call arguments are truncated', async () => {
    const projectId = await createProject(database());
    const called = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"city":"Oslo"}' } };
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: null, tool_calls: [called] },
      { role: 'tool', tool_call_id: 'c', content: 'rain' },
    ];
    const call = settledCall({ projectId, at: 1, body: { model: 'm', messages }, answer: 'wet' });
    await record(database(), [call]);
    const cuts = async (maxText: number) => {
      const text = await readCallText(database(), projectId, call.metadata.id, { maxMessages: 10, maxText });
      return text?.messages.map(({ isCut, toolCalls }) => [isCut, toolCalls.map((one) => one.arguments)]);
    };
    expect(await cuts(15)).toEqual([
      [false, []],
      [false, ['{"city":"Oslo"}']],
      [false, []],
    ]);
    expect(await cuts(5)).toEqual([
      [false, []],
      [true, ['{"cit']],
      [false, []],
    ]);
  });

  test('reports if a prompt has more system messages than were returned', async () => {
    const projectId = await createProject(database());
    const call = settledCall({ projectId, at: 1, body: chatBody('s one', 's two', 's three', 'u hi'), answer: 'hello' });
    await record(database(), [call]);
    const read = (maxMessages: number) => readCallText(database(), projectId, call.metadata.id, { maxMessages, maxText: 100 });
    expect(await read(3)).toMatchObject({ extras: [{ text: 'one' }, { text: 'two' }, { text: 'three' }], hasMoreExtras: false });
    expect(await read(2)).toMatchObject({ extras: [{ text: 'two' }, { text: 'three' }], hasMoreExtras: true });
  });

  test("shows a call's conversation and recalled memories, including memories deleted since", async () => {
    const projectId = await createProject(database());
    const call = settledCall({ projectId, at: 1, body: chatBody('u one'), answer: 'two' });
    await record(database(), [call]);
    const [kept, deleted] = [randomUUID(), randomUUID()];
    await database().query(
      `insert into memory_items (id, project_id, text, kind, importance, origin, author, state, created_at, updated_at)
       values ($1::uuid, $2::uuid, 'x', 'fact', 0.5, 'agent', 'k', 'live', now(), now())`,
      [kept, projectId],
    );
    await database().query('update call_texts set recalled_items = $2::uuid[] where call_id = $1::uuid', [
      call.metadata.id,
      [deleted, kept],
    ]);
    expect(await readCallMemory(database(), projectId, call.metadata.id)).toEqual({
      conversationId: expect.any(String),
      recalled: [
        { id: deleted, kind: null, text: null },
        { id: kept, kind: 'fact', text: 'x' },
      ],
      recalledTokens: null,
    });
  });
});
