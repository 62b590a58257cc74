/** Tests how we find out which recalled memories a response mentions. */
import { expect, test } from '@jest/globals';
import { findMentions, readMentions } from '../../../src/memory/conversations/mentions.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, record, settledCall } from '../calls.ts';

test.each<[string, { memory: string; response: string; prompt?: string; common?: string[] }, string[]]>([
  ['a name', { memory: 'The user works with Grace', response: 'Ask Grace.' }, ['grace']],
  ['a number', { memory: 'Has a budget of 4500 euros', response: 'You can spend 4,500, i.e. 4500.' }, ['4500']],
  [
    'two longer words',
    { memory: 'Prefers vegetarian restaurants', response: 'Vegetarian restaurants nearby: none' },
    ['vegetarian', 'restaurants'],
  ],
  ['nothing for a single word', { memory: 'Prefers vegetarian food', response: 'A vegetarian eats plants.' }, []],
  ['nothing for short words', { memory: 'It is as it was then', response: 'As it was then' }, []],
  ['nothing for a list number', { memory: 'Has 2 cats', response: '1. one\n2. two' }, []],
  ['nothing that the prompt contains', { memory: 'Lives in Oslo', response: 'Oslo is nice', prompt: 'Tell me about Oslo' }, []],
  ['nothing if the word is common', { memory: 'Writes invoices monthly', response: 'Invoices monthly', common: ['invoices'] }, []],
  ['nothing for a name at the beginning of the memory', { memory: 'Ada likes tea', response: 'Ada' }, []],
  ['words of scripts without spaces', { memory: '用户住在奥斯陆', response: '奥斯陆现在很冷' }, ['奥斯', '斯陆']],
  ['at most five terms', { memory: 'Uses 11 12 13 14 15 16', response: '11 12 13 14 15 16' }, ['11', '12', '13', '14', '15']],
])('searches a response for mentions of a memory and finds %s', (_title, { memory, response, prompt = '', common = [] }, expected) => {
  expect(findMentions({ memory, response, prompt, common: new Set(common) })).toEqual(expected);
});

describeDatabases('mentions of recalled memories in a response', (database) => {
  const memories = [
    { id: '01936b1e-0000-7000-8000-000000000001', kind: 'fact' as const, text: 'The office is in Bergen' },
    { id: '01936b1e-0000-7000-8000-000000000002', kind: 'fact' as const, text: 'The office is in Oslo' },
    { id: '01936b1e-0000-7000-8000-000000000003', kind: null, text: null },
  ];
  const read = async (body: ReturnType<typeof chatBody>, answer?: string) => {
    const projectId = await createProject(database());
    const call = settledCall({ projectId, at: 1, body, ...(answer !== undefined && { answer }) });
    await record(database(), [call]);
    const mentions = await readMentions(database(), projectId, call.metadata.id, memories);
    return mentions && [...mentions.values()];
  };

  test('finds words that the response has in common with a memory but not with the prompt', async () => {
    expect(await read(chatBody('u where?'), 'In Bergen and Oslo.')).toEqual([['bergen'], ['oslo'], []]);
    expect(await read(chatBody('s Oslo first', 'u where?'), 'In Bergen and Oslo.')).toEqual([['bergen'], [], []]);
    expect(await read(chatBody('u Bergen?', 'a yes', 'u where?'), 'In Bergen and Oslo.')).toEqual([[], ['oslo'], []]);
  });

  test("finds no mentions of a memory if the response isn't stored", async () => {
    expect(await read(chatBody('u where?'))).toBeNull();
  });
});
