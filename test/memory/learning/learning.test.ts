/** Tests which messages are learned and when, and how the model's responses are stored. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { toBatchJson, toRememberJson } from '../../../src/http/shapes/memory-json.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { createGraph } from '../../../src/memory/search/graph.ts';
import { describeDatabases } from '../../db/databases.ts';
import { aMinuteAgo, chatBody, createProject, markAllRead, putMemorySettings, record, settledCall } from '../calls.ts';
import { createTestLearning, learnEveryMessage, listGroups, listItems, memory, retry, storeReadConversation } from '../learning.ts';

describeDatabases('learning', (database, testOnAny) => {
  const learning = () => createTestLearning(database());
  const check = (projectId: string) => learning().activities.checkLearning(projectId);

  test('starts a learning batch once enough messages are waiting', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 6, at_least_every_minutes: 43_200 });
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.', 'I like tea.'], at: aMinuteAgo() });
    expect(await check(projectId)).toMatchObject({ kind: 'wait', waitMs: expect.any(Number), messages: 4, batchOf: 6 });
    await storeReadConversation(database(), { projectId, subject: 'bob', texts: ['I am Bob.'], at: aMinuteAgo() + 10 });
    expect(await check(projectId)).toMatchObject({ kind: 'running' });
    expect(await listGroups(database(), projectId)).toMatchObject([
      { subject: 'ann', messages: 4 },
      { subject: 'bob', messages: 2 },
    ]);
  });

  test('starts a learning batch once the oldest message has waited long enough', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1_000, at_least_every_minutes: 1 });
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.'] });
    expect(await check(projectId)).toMatchObject({ kind: 'running' });
  });

  test('runs one learning batch at a time for each project', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = learnEveryMessage;
    const id = await storeReadConversation(database(), { projectId, texts: ['I am Ann.', 'I like tea.'] });
    await check(projectId);
    await storeReadConversation(database(), { projectId, subject: 'bob', texts: ['I am Bob.'] });
    expect(await check(projectId)).toMatchObject({ kind: 'running' });
    expect(await learner.runBatches(projectId)).toEqual([]);
    const lines = ['u I am Ann.', 'a Noted.', 'u I like tea.', 'a Noted.', 'u I live in Oslo.'];
    await record(database(), [settledCall({ projectId, at: 50_000, body: chatBody(...lines), answer: 'Noted.' })]);
    await markAllRead(database(), projectId);
    expect(await check(projectId)).toMatchObject({ kind: 'running' });
    await learner.runBatches(projectId);
    expect(await check(projectId)).toMatchObject({ kind: 'idle' });
    const questions = learner.requests.filter(({ job }) => job === 'extract').map(({ text }) => text.match(/I [^"]*\./g));
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

  test('learns from a conversation with a single call only if the call asks for it', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await record(database(), [settledCall({ projectId, body: chatBody('u I am Ann.'), answer: 'Noted.' })]);
    await markAllRead(database(), projectId);
    expect(await check(projectId)).toMatchObject({ kind: 'idle' });
    await record(database(), [settledCall({ projectId, explicitWrite: true, body: chatBody('u I am Bob.'), answer: 'Noted.' })]);
    await markAllRead(database(), projectId);
    expect(await check(projectId)).toMatchObject({ kind: 'running' });
    expect(await listGroups(database(), projectId)).toMatchObject([{ messages: 2 }]);
  });

  test('learns no memories while memory is off', async () => {
    const projectId = await createProject(database());
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.'] });
    await putMemorySettings(database(), projectId, { enabled: false, batch_of: 1 });
    expect(await check(projectId)).toMatchObject({ kind: 'idle', memoryOff: true, messages: 2 });
    await putMemorySettings(database(), projectId, { enabled: true });
    expect(await check(projectId)).toMatchObject({ kind: 'running' });
  });

  test("doesn't consolidate a learned memory that is already stored", async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = learnEveryMessage;
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I like tea.'] });
    await check(projectId);
    await learner.runBatches(projectId);
    const before = learner.requests.length;
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I  like\ntea'] });
    await check(projectId);
    await learner.runBatches(projectId);
    expect(learner.requests.slice(before).map(({ job }) => job)).toEqual(['extract']);
    // Memories of other end users don't count.
    await storeReadConversation(database(), { projectId, subject: 'bob', texts: ['I like tea.'] });
    await check(projectId);
    await learner.runBatches(projectId);
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

  test('drops memories that the model has invented', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = (call) =>
      call.job === 'consolidate'
        ? learnEveryMessage(call)
        : { memories: [memory('Has three cats', 'I have three cats'), memory('Is called Ann', 'I am Ann')] };
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.'] });
    await check(projectId);
    await learner.runBatches(projectId);
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'Is called Ann', evidence: 'I am Ann', subject: 'ann' }]);
    expect(await listGroups(database(), projectId)).toMatchObject([{ state: 'done', written: 1, dropped: 1 }]);
  });

  test('keeps retrying an unavailable vendor and then learns the messages once', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = () => ({ kind: 'failure', failure: { kind: 'vendor', code: 'upstream_failed', message: 'connection refused' } });
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.'] });
    await check(projectId);
    const waits: number[] = [];
    for (let attempt = 0; attempt < 7; attempt += 1) waits.push(...(await learner.runBatches(projectId)));
    expect(waits).toEqual([60_000, 120_000, 240_000, 480_000, 600_000, 600_000, 600_000]);
    expect(await listGroups(database(), projectId)).toMatchObject([
      { state: 'waiting', attempts: 7, failures: 7, unusable: 0, error: 'upstream_failed' },
    ]);
    learner.respond = learnEveryMessage;
    expect(await learner.runBatches(projectId)).toEqual([]);
    expect(await listItems(database(), projectId)).toHaveLength(1);
    expect(await listGroups(database(), projectId)).toMatchObject([{ state: 'done', error: null, failures: 0 }]);
  });

  testOnAny('retries only once a day if the memory model keeps returning unusable responses', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = (call) => (call.text.includes('I am Ann.') ? 'I cannot help with that.' : learnEveryMessage(call));
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.'] });
    await storeReadConversation(database(), { projectId, subject: 'bob', texts: ['I am Bob.'] });
    await check(projectId);
    const waits: number[] = [];
    for (let attempt = 0; attempt < 14; attempt += 1) waits.push(...(await learner.runBatches(projectId)));
    const minutes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440, 1440];
    expect(waits.map((waitMs) => waitMs / 60_000)).toEqual(minutes);
    expect(await listGroups(database(), projectId)).toMatchObject([
      { subject: 'ann', state: 'waiting', unusable: 14, error: 'unusable_answer' },
      { subject: 'bob', state: 'done', written: 1 },
    ]);
    const [failing] = await learner.batches.list(projectId, 'failing');
    expect(failing).toMatchObject({ state: 'failing', nextTryAt: expect.any(Date) });
    await storeReadConversation(database(), { projectId, subject: 'cid', texts: ['I am Cid.'] });
    expect(await check(projectId)).toMatchObject({ kind: 'running', batch: expect.any(String), failed: 0, failing: 1 });
    await learner.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ subject }) => subject)).toEqual(['bob', 'cid']);
    const [project] = await database().query<{ slug: string }>('select slug from projects where id = $1::uuid', [projectId]);
    expect(learner.lines).toEqual([
      {
        level: 'error',
        message: 'learning batch keeps failing; retrying at most once a day',
        fields: { batch: failing?.id, project: project?.slug, code: 'unusable_answer' },
      },
    ]);
    learner.respond = learnEveryMessage;
    await learner.runBatches(projectId);
    expect((await listItems(database(), projectId)).map(({ subject }) => subject)).toEqual(['bob', 'cid', 'ann']);
    expect(await learner.batches.list(projectId, 'failing')).toEqual([]);
  });

  test("doesn't start another learning batch while three are failing", async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = () => 'I cannot help with that.';
    const fail = async (subject: string): Promise<void> => {
      await storeReadConversation(database(), { projectId, subject, texts: ['I am somebody.'] });
      await check(projectId);
      for (let attempt = 0; attempt < 5; attempt += 1) await learner.runBatches(projectId);
    };
    for (const subject of ['ann', 'bob', 'cid']) await fail(subject);
    const batches = await learner.batches.list(projectId, 'failing');
    expect(batches).toHaveLength(3);
    expect(await learner.batches.count(projectId)).toEqual({ running: 0, failing: 3, failed: 0, stopped: 0 });
    await fail('dan');
    expect(await learner.batches.list(projectId, null)).toHaveLength(3);

    const id = batches[0]?.id ?? '';
    expect(await learner.batches.stop(null, id)).toMatchObject({ state: 'stopped', groups: [{ state: 'waiting', nextTryAt: null }] });
    const asked = learner.requests.length;
    const run = { batchId: id, runId: 'run-1' };
    expect(await learner.activities.openBatch(run)).toEqual({ groups: [], total: 1 });
    expect(await learner.activities.learnGroup({ ...run, position: 0 }, new AbortController().signal)).toEqual({ kind: 'settled' });
    expect(await learner.activities.finishBatch(run)).toMatchObject({ finished: true, stopped: true, batch: { parked: 1 } });
    expect(learner.requests).toHaveLength(asked);
    await expect(learner.batches.stop(null, id)).resolves.toMatchObject({ state: 'stopped' });
    expect(await check(projectId)).toMatchObject({ kind: 'running', failing: 2, stopped: 1 });

    // The operator resets the run that ended when the batch was stopped.
    learner.respond = learnEveryMessage;
    expect((await learner.activities.openBatch({ batchId: id, runId: 'run-2' })).groups).toHaveLength(1);
    expect(await learner.batches.show(projectId, id)).toMatchObject({ state: 'running' });
    await learner.runBatches(projectId, 'run-2');
    await expect(learner.batches.stop(null, id)).rejects.toMatchObject({ code: 'conflict' });
  });

  test('postpones learning until there is a route to a memory model', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.hasRoute = false;
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.'] });
    await check(projectId);
    for (let attempt = 0; attempt < 7; attempt += 1) expect(await learner.runBatches(projectId)).toEqual([expect.any(Number)]);
    expect(await listGroups(database(), projectId)).toMatchObject([{ state: 'waiting', attempts: 0, error: 'no_route' }]);
    learner.hasRoute = true;
    learner.respond = learnEveryMessage;
    await learner.runBatches(projectId);
    expect(await listItems(database(), projectId)).toHaveLength(1);
  });

  test('stores learned memories only once if two workers run the same step', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const [one, other] = [learning(), learning()];
    one.respond = other.respond = learnEveryMessage;
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.', 'I like tea.'] });
    await check(projectId);
    await Promise.all([one.runBatches(projectId), other.runBatches(projectId)]);
    expect(await listItems(database(), projectId)).toHaveLength(2);
    const before = one.requests.length + other.requests.length;
    await one.runBatches(projectId);
    expect(one.requests.length + other.requests.length).toBe(before);
  });

  test('stores nothing about a subject that is erased during the call to the memory model', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = async (call) => {
      await database().query(`delete from memory_batch_groups where project_id = $1::uuid and subject = 'ann'`, [projectId]);
      return learnEveryMessage(call);
    };
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.'] });
    await check(projectId);
    expect(await learner.runBatches(projectId)).toEqual([]);
    expect(await listItems(database(), projectId)).toEqual([]);
    expect(await check(projectId)).toMatchObject({ kind: 'idle' });
  });

  test('learns from the whole conversation again if a caller asks to remember it', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1_000 });
    const learner = learning();
    learner.respond = learnEveryMessage;
    await record(database(), [settledCall({ projectId, body: chatBody('u I am Ann.'), answer: 'Noted.' })]);
    const [{ id } = { id: '' }] = await database().query<{ id: string }>('select id from conversations where project_id = $1::uuid', [
      projectId,
    ]);
    const receipt = await learner.remember(projectId, id, 'names');
    expect(toRememberJson(receipt)).toEqual({ episode_id: id, batch_id: expect.any(String), status: 'queued', focus: 'names' });
    await learner.runBatches(projectId);
    expect(learner.requests[0]?.text).toContain('"look_for":"names"');
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I am Ann.' }]);
    await learner.remember(projectId, id, null);
    await learner.runBatches(projectId);
    expect(learner.requests.filter(({ job }) => job === 'extract')).toHaveLength(2);
    expect(await listItems(database(), projectId)).toHaveLength(1);
    await expect(learner.remember(await createProject(database()), id, null)).rejects.toMatchObject({ code: 'not_found' });
    await expect(learner.remember(projectId, randomUUID(), null)).rejects.toMatchObject({ code: 'not_found' });
    await putMemorySettings(database(), projectId, { enabled: false });
    await expect(learner.remember(projectId, id, null)).rejects.toMatchObject({ code: 'memory_off' });
  });

  test('splits a conversation that is too long for one call to the memory model', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    const texts = ['one', 'two', 'three', 'four', 'five', 'six'].map((word) => `${word} ${'x'.repeat(15_000)}`);
    const id = await storeReadConversation(database(), { projectId, texts });
    await check(projectId);
    await learner.runBatches(projectId);
    expect(await check(projectId)).toMatchObject({ kind: 'running' });
    await learner.runBatches(projectId);
    expect(await check(projectId)).toMatchObject({ kind: 'idle' });
    const seen = learner.requests.map(({ text }) => text.match(/one|two|three|four|five|six/g));
    expect(seen).toHaveLength(2);
    expect(seen.flat()).toEqual(['one', 'two', 'three', 'four', 'five', 'six']);
    await learner.remember(projectId, id, null);
    await learner.runBatches(projectId);
    expect(learner.requests.slice(2).flatMap(({ text }) => text.match(/one|two|three|four|five|six/g))).toEqual(seen.flat());
    expect(retry.factor).toBe(2);
  });

  /** Runs a batch in which each message of the user is a memory. The model consolidates as scripted. */
  async function learn(
    projectId: string,
    texts: string | readonly string[],
    consolidate: (prompt: PromptJson) => object | Promise<object>,
  ): Promise<void> {
    const learner = learning();
    learner.respond = async (call) =>
      call.job === 'extract'
        ? learnEveryMessage(call)
        : { merges: [], facts: [], page: '', ...(await consolidate(JSON.parse(call.text) as PromptJson)) };
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: [texts].flat() });
    await check(projectId);
    expect(await learner.runBatches(projectId)).toEqual([]);
  }
  const factOf = ({ new: added, facts }: PromptJson, target: string, replace = false) => ({
    item_id: added[0]?.id,
    source: 'user',
    relation: 'lives_in',
    target,
    fact: `The user lives in ${target}`,
    reason: '',
    replaces: replace ? (facts[0]?.id ?? null) : null,
  });
  const getFacts = (projectId: string) =>
    createGraph({ database: database() })(projectId, { query: null, entity: null, relation: null, subject: 'ann', limit: 50 });
  const pagesOf = (projectId: string) =>
    database().query<{ kind: string; subject: string | null; text: string }>(
      'select kind, subject, text from memory_pages where project_id = $1::uuid',
      [projectId],
    );

  const closedBy = async (projectId: string): Promise<(string | null)[]> => {
    const rows = await database().query<{ author: string | null }>(
      `select closed_by as author from memory_items where project_id = $1::uuid and state = 'closed'`,
      [projectId],
    );
    return rows.map(({ author }) => author);
  };

  test('merges duplicates but keeps memories that an application wrote', async () => {
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
    expect(await closedBy(projectId)).toEqual(['gateway-memory']);
  });

  test("doesn't merge memories into one that is excluded from recall in the meantime", async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const items = createItems({ database: database(), clock: systemClock });
    await learn(projectId, ['I like tea.', 'Tea is what I like.'], async ({ new: added }) => {
      const keep = added[0]?.id ?? '';
      for (const rating of ['wrong', 'wrong'] as const) await items.rate(projectId, keep, rating);
      return { merges: [{ reason: 'same', keep, drop: [added[1]?.id] }] };
    });
    expect((await listItems(database(), projectId)).map(({ state }) => state)).toEqual(['live', 'live']);
  });

  test('replaces a fact with a newer one about the same relation', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await learn(projectId, 'I live in Oslo.', (question) => ({ facts: [factOf(question, 'Oslo')], page: '- Oslo' }));
    expect(await getFacts(projectId)).toMatchObject([{ fact: 'The user lives in Oslo', itemIds: [expect.any(String)] }]);
    expect(await pagesOf(projectId)).toEqual([{ kind: 'profile', subject: 'ann', text: '- Oslo' }]);
    await learn(projectId, 'I live in Bergen.', (question) => ({ facts: [factOf(question, 'Bergen', true)], page: '- Bergen' }));
    expect((await getFacts(projectId)).map(({ fact }) => fact)).toEqual(['The user lives in Bergen']);
    const items = await listItems(database(), projectId);
    expect(items.map(({ text, state }) => [text, state]).toSorted()).toEqual([
      ['I live in Bergen.', 'live'],
      ['I live in Oslo.', 'closed'],
    ]);
    expect(await closedBy(projectId)).toEqual(['gateway-memory']);
    expect(await pagesOf(projectId)).toEqual([{ kind: 'profile', subject: 'ann', text: '- Bergen' }]);
  });

  test('deletes the page after a fact was replaced, if the new page is unusable', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await learn(projectId, 'I live in Oslo.', (question) => ({ facts: [factOf(question, 'Oslo')], page: '- Oslo' }));
    await learn(projectId, 'I like tea.', () => ({}));
    expect(await pagesOf(projectId)).toMatchObject([{ text: '- Oslo' }]);
    await learn(projectId, 'I live in Bergen.', (question) => ({ facts: [factOf(question, 'Bergen', true)], page: '' }));
    expect(await pagesOf(projectId)).toEqual([]);
    expect((await listGroups(database(), projectId)).map(({ state }) => state)).toEqual(['done', 'done', 'done', 'learned']);
  });

  test('bases the facts of a merged memory on the one that was kept', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    let kept: string | undefined;
    await learn(projectId, ['I live in Oslo.', 'Oslo is where I live.'], (question) => {
      kept = question.new[1]?.id;
      return { merges: [{ reason: 'same', keep: kept, drop: [question.new[0]?.id] }], facts: [factOf(question, 'Oslo')] };
    });
    expect(await getFacts(projectId)).toMatchObject([{ fact: 'The user lives in Oslo', itemIds: [kept] }]);
  });

  test.each(['corrected', 'corrected and then removed'])('stores no fact about a memory that is %s in the meantime', async (change) => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await learn(projectId, 'I live in Rome.', (question) => ({ facts: [factOf(question, 'Rome')] }));
    const items = createItems({ database: database(), clock: systemClock });
    const writer = { origin: 'agent', author: 'key:x' } as const;
    await learn(projectId, 'I live in Oslo.', async (question) => {
      const { id } = await items.correct(projectId, question.new[0]?.id ?? '', 'I have never been to Oslo.', writer);
      if (change !== 'corrected') await items.remove(projectId, id, writer);
      return { facts: [factOf(question, 'Oslo', true)] };
    });
    expect(await getFacts(projectId)).toMatchObject([{ fact: 'The user lives in Rome' }]);
    expect((await listItems(database(), projectId)).find(({ text }) => text === 'I live in Rome.')).toMatchObject({ state: 'live' });
  });

  test('ends the facts of a removed memory and deletes the knowledge page', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    await learn(projectId, 'I live in Oslo.', (question) => ({ facts: [factOf(question, 'Oslo')], page: '- Oslo' }));
    const [item] = await listItems(database(), projectId);
    const items = createItems({ database: database(), clock: systemClock });
    await items.remove(projectId, item?.id ?? '', { origin: 'agent', author: 'key:x' });
    expect(await getFacts(projectId)).toEqual([]);
    expect(await pagesOf(projectId)).toEqual([]);
  });

  test("doesn't show the model one end user's memories when it consolidates another's", async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const items = createItems({ database: database(), clock: systemClock });
    for (const subject of [null, 'bob', 'ann'])
      await items.write(
        projectId,
        { text: `Tea for ${subject}`, kind: 'fact', importance: 3, subject, pinned: false },
        { origin: 'agent', author: 'key:x' },
      );
    let seen: PromptJson | null = null;
    await learn(projectId, 'I like tea.', (question) => {
      seen = question;
      return {};
    });
    expect(seen).toMatchObject({ new: [{ text: 'I like tea.' }], known: [{ text: 'Tea for ann' }] });
  });

  test('keeps newly learned memories even if consolidation fails', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = (call) => (call.job === 'extract' ? learnEveryMessage(call) : 'no');
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['I am Ann.'] });
    await check(projectId);
    for (let attempt = 0; attempt < 5; attempt += 1) await learner.runBatches(projectId);
    expect(await listItems(database(), projectId)).toHaveLength(1);
    const [batch] = await learner.batches.list(projectId, 'failing');
    expect(batch && toBatchJson(batch)).toMatchObject({
      state: 'failing',
      messages: 2,
      attempts: 6,
      error: { code: 'unusable_answer' },
      memories: { written: 1 },
    });
    const asked = learner.requests.length;
    learner.respond = learnEveryMessage;
    expect(await learner.batches.replay(projectId, batch?.id ?? '')).toMatchObject({ state: 'running', groups: [{ state: 'learned' }] });
    await learner.runBatches(projectId);
    expect(learner.requests.slice(asked).map(({ job }) => job)).toEqual(['consolidate']);
    expect(await learner.batches.replay(projectId, batch?.id ?? '')).toMatchObject({
      state: 'done',
      groups: [{ state: 'done', error: null }],
    });
    expect(await learner.batches.list(projectId, 'failing')).toEqual([]);
    await expect(learner.batches.show(await createProject(database()), batch?.id ?? '')).rejects.toMatchObject({ code: 'not_found' });
  });
});

interface PromptJson {
  readonly new: readonly { readonly id: string; readonly text: string }[];
  readonly known: readonly { readonly id: string; readonly text: string }[];
  readonly facts: readonly { readonly id: string }[];
}
