/** Which messages are learned from, when, and what becomes of the model's answers. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { createGraph } from '../../../src/memory/search/graph.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, markAllRead, putMemorySettings, record, settledCall } from '../calls.ts';
import { createTestLearning, learnEveryMessage, listGroups, listItems, memory, retry, storeReadConversation } from '../learning.ts';

describeDatabases('learning', (database) => {
  const learning = () => createTestLearning(database());
  const look = (projectId: string) => learning().activities.checkLearning(projectId);

  test('a batch begins when enough messages wait, and not before', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 6, at_least_every_minutes: 43_200 });
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.', 'I like tea.'] });
    expect(await look(projectId)).toEqual({ kind: 'wait', waitMs: expect.any(Number) });
    await storeReadConversation(database(), { projectId, subject: 'bob', words: ['I am Bob.'] });
    expect(await look(projectId)).toEqual({ kind: 'running' });
    expect(await listGroups(database(), projectId)).toMatchObject([
      { subject: 'ann', messages: 4 },
      { subject: 'bob', messages: 2 },
    ]);
  });

  test('a batch begins when the oldest message has waited long enough', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1_000, at_least_every_minutes: 1 });
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.'] });
    expect(await look(projectId)).toEqual({ kind: 'running' });
  });

  test('one batch runs at a time; only messages that came since the last are read by the next', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.respond = learnEveryMessage;
    const id = await storeReadConversation(database(), { projectId, words: ['I am Ann.', 'I like tea.'] });
    await look(projectId);
    await storeReadConversation(database(), { projectId, subject: 'bob', words: ['I am Bob.'] });
    expect(await look(projectId)).toEqual({ kind: 'running' });
    expect(await parts.runBatches(projectId)).toEqual([]);
    const lines = ['u I am Ann.', 'a Noted.', 'u I like tea.', 'a Noted.', 'u I live in Oslo.'];
    await record(database(), [settledCall({ projectId, at: 50_000, body: chatBody(...lines), answer: 'Noted.' })]);
    await markAllRead(database(), projectId);
    expect(await look(projectId)).toEqual({ kind: 'running' });
    await parts.runBatches(projectId);
    expect(await look(projectId)).toEqual({ kind: 'idle' });
    const questions = parts.requests.filter(({ job }) => job === 'extract').map(({ text }) => text.match(/I [^"]*\./g));
    expect(questions).toHaveLength(3);
    expect(questions).toEqual(expect.arrayContaining([['I am Ann.', 'I like tea.'], ['I live in Oslo.'], ['I am Bob.']]));
    const items = await listItems(database(), projectId);
    expect(items.map(({ text, subject }) => [text, subject])).toEqual(
      expect.arrayContaining([
        ['I am Ann.', null],
        ['I am Bob.', 'bob'],
        ['I like tea.', null],
        ['I live in Oslo.', null],
      ]),
    );
    expect(items).toHaveLength(4);
    expect(new Set(items.map(({ origin }) => origin))).toEqual(new Set(['observed']));
    expect(id).not.toBe('');
  });

  test('a single call without subject and header is only stored; the header makes it one to learn from', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await record(database(), [settledCall({ projectId, body: chatBody('u I am Ann.'), answer: 'Noted.' })]);
    await markAllRead(database(), projectId);
    expect(await look(projectId)).toEqual({ kind: 'idle' });
    await record(database(), [settledCall({ projectId, explicitWrite: true, body: chatBody('u I am Bob.'), answer: 'Noted.' })]);
    await markAllRead(database(), projectId);
    expect(await look(projectId)).toEqual({ kind: 'running' });
    expect(await listGroups(database(), projectId)).toMatchObject([{ messages: 2 }]);
  });

  test('nothing is learned while memory is off', async () => {
    const projectId = await createProject(database());
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.'] });
    await putMemorySettings(database(), projectId, { enabled: false, batch_of: 1 });
    expect(await look(projectId)).toEqual({ kind: 'idle' });
    await putMemorySettings(database(), projectId, { enabled: true });
    expect(await look(projectId)).toEqual({ kind: 'running' });
  });

  test('what is known word for word is not stored again, and no model is asked about it', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.respond = learnEveryMessage;
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I like tea.'] });
    await look(projectId);
    await parts.runBatches(projectId);
    const before = parts.requests.length;
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I  like\ntea'] });
    await look(projectId);
    await parts.runBatches(projectId);
    expect(parts.requests.slice(before).map(({ job }) => job)).toEqual(['extract']);
    // Another end user's words are that user's.
    await storeReadConversation(database(), { projectId, subject: 'bob', words: ['I like tea.'] });
    await look(projectId);
    await parts.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ subject, state }) => [subject, state])).toEqual([
      ['ann', 'live'],
      ['bob', 'live'],
    ]);
    expect((await listGroups(database(), projectId)).map(({ written, repeated }) => [written, repeated])).toEqual([
      [1, 0],
      [0, 1],
      [1, 0],
    ]);
  });

  test('what the model makes up is dropped', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.respond = (call) =>
      call.job === 'consolidate'
        ? learnEveryMessage(call)
        : { memories: [memory('Has three cats', 'I have three cats'), memory('Is called Ann', 'I am Ann')] };
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.'] });
    await look(projectId);
    await parts.runBatches(projectId);
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'Is called Ann', evidence: 'I am Ann', subject: 'ann' }]);
    expect(await listGroups(database(), projectId)).toMatchObject([{ state: 'done', written: 1, dropped: 1 }]);
  });

  test('a vendor that is down is tried again with growing waits, without end; then the messages are learned once', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.respond = () => ({ kind: 'failure', failure: { kind: 'vendor', code: 'upstream_failed', message: 'connection refused' } });
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.'] });
    await look(projectId);
    const waits: number[] = [];
    for (let attempt = 0; attempt < 7; attempt += 1) waits.push(...(await parts.runBatches(projectId)));
    expect(waits).toEqual([60_000, 120_000, 240_000, 480_000, 600_000, 600_000, 600_000]);
    expect(await listGroups(database(), projectId)).toMatchObject([
      { state: 'waiting', attempts: 7, failures: 7, unusable: 0, error: 'upstream_failed' },
    ]);
    parts.respond = learnEveryMessage;
    expect(await parts.runBatches(projectId)).toEqual([]);
    expect(await listItems(database(), projectId)).toHaveLength(1);
    expect(await listGroups(database(), projectId)).toMatchObject([{ state: 'done', error: null, failures: 0 }]);
  });

  test('a group whose answers are of no use five times is parked; it blocks neither the others nor the next batch', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.respond = (call) => (call.text.includes('I am Ann.') ? 'I cannot help with that.' : learnEveryMessage(call));
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.'] });
    await storeReadConversation(database(), { projectId, subject: 'bob', words: ['I am Bob.'] });
    await look(projectId);
    for (let attempt = 0; attempt < 5; attempt += 1) await parts.runBatches(projectId);
    expect(await parts.runBatches(projectId)).toEqual([]);
    expect(await listGroups(database(), projectId)).toMatchObject([
      { subject: 'ann', state: 'failed', unusable: 5, error: 'unusable_answer' },
      { subject: 'bob', state: 'done', written: 1 },
    ]);
    await storeReadConversation(database(), { projectId, subject: 'cid', words: ['I am Cid.'] });
    expect(await look(projectId)).toEqual({ kind: 'running' });
    await parts.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ subject }) => subject)).toEqual(['bob', 'cid']);
  });

  test('without a chain for any tier nothing is tried, and the batch waits', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.hasRoute = false;
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.'] });
    await look(projectId);
    for (let attempt = 0; attempt < 7; attempt += 1) expect(await parts.runBatches(projectId)).toEqual([expect.any(Number)]);
    expect(await listGroups(database(), projectId)).toMatchObject([{ state: 'waiting', attempts: 0, error: 'no_route' }]);
    parts.hasRoute = true;
    parts.respond = learnEveryMessage;
    await parts.runBatches(projectId);
    expect(await listItems(database(), projectId)).toHaveLength(1);
  });

  test('two workers that have the same answer store it once, and a step that is repeated asks nobody', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const [one, other] = [learning(), learning()];
    one.respond = other.respond = learnEveryMessage;
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.', 'I like tea.'] });
    await look(projectId);
    await Promise.all([one.runBatches(projectId), other.runBatches(projectId)]);
    expect(await listItems(database(), projectId)).toHaveLength(2);
    const before = one.requests.length + other.requests.length;
    await one.runBatches(projectId);
    expect(one.requests.length + other.requests.length).toBe(before);
  });

  test('a group that is erased while its model is asked commits nothing', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.respond = async (call) => {
      await database().query(`delete from memory_batch_groups where project_id = $1::uuid and subject = 'ann'`, [projectId]);
      return learnEveryMessage(call);
    };
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.'] });
    await look(projectId);
    expect(await parts.runBatches(projectId)).toEqual([]);
    expect(await listItems(database(), projectId)).toEqual([]);
    expect(await look(projectId)).toEqual({ kind: 'idle' });
  });

  test('remember reads a conversation from its start, whatever was learned of it, and looks for what is asked', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1_000 });
    const parts = learning();
    parts.respond = learnEveryMessage;
    await record(database(), [settledCall({ projectId, body: chatBody('u I am Ann.'), answer: 'Noted.' })]);
    const [{ id } = { id: '' }] = await database().query<{ id: string }>('select id from conversations where project_id = $1::uuid', [
      projectId,
    ]);
    const answer = await parts.remember(projectId, id, 'names');
    expect(answer).toEqual({ episode_id: id, batch_id: expect.any(String), status: 'queued', focus: 'names' });
    await parts.runBatches(projectId);
    expect(parts.requests[0]?.text).toContain('"look_for":"names"');
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I am Ann.' }]);
    await parts.remember(projectId, id, null);
    await parts.runBatches(projectId);
    expect(parts.requests.filter(({ job }) => job === 'extract')).toHaveLength(2);
    expect(await listItems(database(), projectId)).toHaveLength(1);
    await expect(parts.remember(await createProject(database()), id, null)).rejects.toMatchObject({ code: 'not_found' });
    await expect(parts.remember(projectId, randomUUID(), null)).rejects.toMatchObject({ code: 'not_found' });
    await putMemorySettings(database(), projectId, { enabled: false });
    await expect(parts.remember(projectId, id, null)).rejects.toMatchObject({ code: 'memory_off' });
  });

  test('a conversation too long for one call is read in parts; remember reads all of them at once', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    const words = ['one', 'two', 'three', 'four', 'five', 'six'].map((word) => `${word} ${'x'.repeat(15_000)}`);
    const id = await storeReadConversation(database(), { projectId, words });
    await look(projectId);
    await parts.runBatches(projectId);
    expect(await look(projectId)).toEqual({ kind: 'running' });
    await parts.runBatches(projectId);
    expect(await look(projectId)).toEqual({ kind: 'idle' });
    const seen = parts.requests.map(({ text }) => text.match(/one|two|three|four|five|six/g));
    expect(seen).toHaveLength(2);
    expect(seen.flat()).toEqual(['one', 'two', 'three', 'four', 'five', 'six']);
    await parts.remember(projectId, id, null);
    await parts.runBatches(projectId);
    expect(parts.requests.slice(2).flatMap(({ text }) => text.match(/one|two|three|four|five|six/g))).toEqual(seen.flat());
    expect(retry.factor).toBe(2);
  });

  /** One batch in which the user says these words, each a memory; the model consolidates as the test says. */
  async function learn(projectId: string, words: string, consolidate: (question: Question) => object): Promise<void> {
    const parts = learning();
    parts.respond = (call) =>
      call.job === 'extract'
        ? learnEveryMessage(call)
        : { merges: [], facts: [], page: '', ...consolidate(JSON.parse(call.text) as Question) };
    await storeReadConversation(database(), { projectId, subject: 'ann', words: [words] });
    await look(projectId);
    expect(await parts.runBatches(projectId)).toEqual([]);
  }
  const factOf = ({ new: added, facts }: Question, target: string, replace = false) => ({
    item_id: added[0]?.id,
    source: 'user',
    relation: 'lives_in',
    target,
    fact: `The user lives in ${target}`,
    reason: '',
    replaces: replace ? (facts[0]?.id ?? null) : null,
  });
  const factsOf = async (projectId: string) =>
    (await createGraph({ database: database() })(projectId, { query: null, entity: null, relation: null, subject: 'ann', limit: 50 })) as {
      facts: { fact: string; item_ids: string[] }[];
    };
  const pagesOf = (projectId: string) =>
    database().query<{ kind: string; subject: string | null; text: string }>(
      'select kind, subject, text from memory_pages where project_id = $1::uuid',
      [projectId],
    );

  test('memories that say the same are merged; what an application saved stays', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await learn(projectId, 'I like tea.', () => ({}));
    await learn(projectId, 'Tea is what I like.', ({ new: added, known }) => ({
      merges: [{ reason: 'same', keep: added[0]?.id, drop: known.map(({ id }) => id) }],
    }));
    const items = await listItems(database(), projectId);
    const kept = items.find(({ text }) => text === 'Tea is what I like.');
    expect(items.map(({ text, state, supersededBy }) => [text, state, supersededBy]).toSorted()).toEqual([
      ['I like tea.', 'closed', kept?.id],
      ['Tea is what I like.', 'live', null],
    ]);
    expect(await listGroups(database(), projectId)).toMatchObject([{ merged: 0 }, { merged: 1 }]);
  });

  test('a fact holds until one of the same source and relation supersedes it; the memory that told it is closed with it', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await learn(projectId, 'I live in Oslo.', (question) => ({ facts: [factOf(question, 'Oslo')], page: '- Oslo' }));
    expect((await factsOf(projectId)).facts).toMatchObject([{ fact: 'The user lives in Oslo', item_ids: [expect.any(String)] }]);
    expect(await pagesOf(projectId)).toEqual([{ kind: 'profile', subject: 'ann', text: '- Oslo' }]);
    await learn(projectId, 'I live in Bergen.', (question) => ({ facts: [factOf(question, 'Bergen', true)], page: '- Bergen' }));
    expect((await factsOf(projectId)).facts.map(({ fact }) => fact)).toEqual(['The user lives in Bergen']);
    const items = await listItems(database(), projectId);
    expect(items.map(({ text, state }) => [text, state]).toSorted()).toEqual([
      ['I live in Bergen.', 'live'],
      ['I live in Oslo.', 'closed'],
    ]);
    expect(await pagesOf(projectId)).toEqual([{ kind: 'profile', subject: 'ann', text: '- Bergen' }]);
  });

  test('a memory that is removed takes its facts and the page that may tell it', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await learn(projectId, 'I live in Oslo.', (question) => ({ facts: [factOf(question, 'Oslo')], page: '- Oslo' }));
    const [item] = await listItems(database(), projectId);
    const items = createItems({ database: database(), clock: systemClock });
    await items.remove(projectId, item?.id ?? '', { origin: 'agent', author: 'key:x' });
    expect((await factsOf(projectId)).facts).toEqual([]);
    expect(await pagesOf(projectId)).toEqual([]);
  });

  test('consolidation never sees another end user, nor the project when it is about one', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const items = createItems({ database: database(), clock: systemClock });
    for (const subject of [null, 'bob', 'ann'])
      await items.write(
        projectId,
        { text: `Tea for ${subject}`, kind: 'fact', importance: 3, subject, pinned: false },
        { origin: 'agent', author: 'key:x' },
      );
    let seen: Question | null = null;
    await learn(projectId, 'I like tea.', (question) => {
      seen = question;
      return {};
    });
    expect(seen).toMatchObject({ new: [{ text: 'I like tea.' }], known: [{ text: 'Tea for ann' }] });
  });

  test('a consolidation of no use is parked with its group, what was learned stays, and a replay asks for the rest alone', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    parts.respond = (call) => (call.job === 'extract' ? learnEveryMessage(call) : 'no');
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['I am Ann.'] });
    await look(projectId);
    for (let attempt = 0; attempt < 5; attempt += 1) await parts.runBatches(projectId);
    expect(await listItems(database(), projectId)).toHaveLength(1);
    const [batch] = (await parts.batches.list(projectId, 'failed')) as { id: string }[];
    expect(batch).toMatchObject({
      state: 'failed',
      messages: 2,
      attempts: 6,
      error: { code: 'unusable_answer' },
      memories: { written: 1 },
    });
    const asked = parts.requests.length;
    parts.respond = learnEveryMessage;
    expect(await parts.batches.replay(projectId, batch?.id ?? '')).toMatchObject({ state: 'running', groups: [{ state: 'learned' }] });
    await parts.runBatches(projectId);
    expect(parts.requests.slice(asked).map(({ job }) => job)).toEqual(['consolidate']);
    expect(await parts.batches.replay(projectId, batch?.id ?? '')).toMatchObject({
      state: 'done',
      groups: [{ state: 'done', error: null }],
    });
    expect(await parts.batches.list(projectId, 'failed')).toEqual([]);
    await expect(parts.batches.show(await createProject(database()), batch?.id ?? '')).rejects.toMatchObject({ code: 'not_found' });
  });
});

interface Question {
  readonly new: readonly { readonly id: string; readonly text: string }[];
  readonly known: readonly { readonly id: string; readonly text: string }[];
  readonly facts: readonly { readonly id: string }[];
}
