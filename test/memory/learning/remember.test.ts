/** Tests how many batches callers can start with `remember`. */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import type { Database } from '../../../src/db/database.ts';
import { createBatchStarter } from '../../../src/memory/learning/begin-batch.ts';
import { maxOpenRememberBatches } from '../../../src/memory/learning/remember.ts';
import { describeDatabases } from '../../db/databases.ts';
import { chatBody, createProject, record, settledCall } from '../calls.ts';
import { createTestLearning, storeReadConversation } from '../learning.ts';

describeDatabases('remember', (database) => {
  const learning = () => createTestLearning(database());
  const listBatches = (projectId: string) =>
    database().query<{ id: string; state: string; messages: number; starts: number }>(
      `select id, state, (select sum(messages)::integer from memory_batch_groups where batch_id = batch.id) as messages,
              (select count(*)::integer from outbox where workflow_id like '%/batch/' || batch.id) as starts
         from memory_batches batch where project_id = $1::uuid order by id`,
      [projectId],
    );
  const createTalk = async (texts: readonly string[] = ['I am Ann.']) => {
    const projectId = await createProject(database());
    return { projectId, id: await storeReadConversation(database(), { projectId, texts }) };
  };

  test('returns the open batch if a caller repeats a remember request', async () => {
    const { projectId, id } = await createTalk();
    const { remember } = learning();
    const focus = 'the password=hunter2hunter2';
    const receipts = await Promise.all(Array.from({ length: 5 }, () => remember(projectId, id, focus)));
    receipts.push(await remember(projectId, id, focus));
    const [batch, ...others] = await listBatches(projectId);
    expect(others).toEqual([]);
    expect(batch).toMatchObject({ state: 'running', messages: 2, starts: 1 });
    for (const receipt of receipts) expect(receipt).toEqual({ ...receipts[0], conversationId: id, batchId: batch?.id });
    expect(receipts[0]?.focus).not.toContain('hunter2');
    const focuses = [null, 'names', null, 'names', focus];
    const ids: string[] = [];
    for (const other of focuses) ids.push((await remember(projectId, id, other)).batchId);
    expect(ids).toEqual([ids[0], ids[1], ids[0], ids[1], batch?.id]);
    expect(new Set(ids).size).toBe(3);
  });

  test('starts another batch if the conversation has continued since the last request', async () => {
    const projectId = await createProject(database());
    const at = 1_000;
    await record(database(), [settledCall({ projectId, at, body: chatBody('u I am Ann.'), answer: 'Noted.' })]);
    const [{ id } = { id: '' }] = await database().query<{ id: string }>('select id from conversations where project_id = $1::uuid', [
      projectId,
    ]);
    const { remember } = learning();
    const first = await remember(projectId, id, null);
    const body = chatBody('u I am Ann.', 'a Noted.', 'u I live in Oslo.');
    await record(database(), [settledCall({ projectId, at: at + 2, body, answer: 'Noted.' })]);
    const second = await remember(projectId, id, null);
    expect(second.batchId).not.toBe(first.batchId);
    expect(await remember(projectId, id, null)).toEqual(second);
    expect((await listBatches(projectId)).map(({ messages }) => messages)).toEqual([2, 4]);
  });

  test('returns the open batch of a conversation that is too long for one batch', async () => {
    const { projectId, id } = await createTalk();
    // The batch can't read the last message.
    await database().query('update conversations set messages = messages + 1 where id = $1::uuid', [id]);
    const { remember } = learning();
    const first = await remember(projectId, id, null);
    expect(await remember(projectId, id, null)).toEqual(first);
  });

  test.each(['done', 'stopped', 'failed'])('starts another batch if the first one is %s', async (state) => {
    const { projectId, id } = await createTalk();
    const learner = learning();
    const first = await learner.remember(projectId, id, null);
    if (state === 'done') await learner.runBatches(projectId);
    else await database().query('update memory_batches set state = $2::text where id = $1::uuid', [first.batchId, state]);
    const second = await learner.remember(projectId, id, null);
    expect(second.batchId).not.toBe(first.batchId);
    if (state === 'done') return;
    // If an operator replays the first one, both read the same messages. Then callers get the older batch.
    await learner.batches.replay(projectId, first.batchId);
    expect(await learner.remember(projectId, id, null)).toEqual(first);
    expect((await listBatches(projectId)).map((batch) => batch.state)).toEqual(['running', 'running']);
    await learner.runBatches(projectId);
    expect((await listBatches(projectId)).map((batch) => batch.state)).toEqual(['done', 'done']);
  });

  test('limits the number of open remember batches per project', async () => {
    const { projectId, id } = await createTalk();
    const learner = learning();
    const focuses = Array.from({ length: maxOpenRememberBatches + 3 }, (_, index) => `focus ${index}`);
    const results = await Promise.allSettled(focuses.map((focus) => learner.remember(projectId, id, focus)));
    const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
    expect(refused).toHaveLength(3);
    for (const error of refused) expect(error).toMatchObject({ code: 'budget_unavailable', retryAfterSeconds: 60 });
    expect(await listBatches(projectId)).toHaveLength(maxOpenRememberBatches);
    const started = results.findIndex(({ status }) => status === 'fulfilled');
    await expect(learner.remember(projectId, id, focuses[started] ?? null)).resolves.toMatchObject({ focus: focuses[started] });
    const other = await createTalk();
    await expect(learner.remember(other.projectId, other.id, null)).resolves.toMatchObject({ focus: null });
    await learner.runBatches(projectId);
    await expect(learner.remember(projectId, id, 'something else')).resolves.toMatchObject({ focus: 'something else' });
  });

  test('restarts any number of batches with the same number of queries', async () => {
    const projectId = await createProject(database());
    const countQueries = async (): Promise<number> => {
      let queries = 0;
      const counting: Database = {
        ...database(),
        transaction: (work, settings) =>
          database().transaction(
            (tx) =>
              work({
                query: (text, values) => {
                  queries += 1;
                  return tx.query(text, values);
                },
              }),
            settings,
          ),
      };
      await createBatchStarter({ database: counting, clock: systemClock }).checkLearning(projectId);
      return queries;
    };
    const addBatches = (count: number) =>
      database().query(
        `insert into memory_batches (id, project_id, kind) select gen_random_uuid(), $1::uuid, 'remember' from generate_series(1, $2::integer)`,
        [projectId, count],
      );
    await addBatches(1);
    const queries = await countQueries();
    await addBatches(50);
    expect(await countQueries()).toBe(queries);
    expect(new Set((await listBatches(projectId)).map(({ starts }) => starts))).toEqual(new Set([1]));
    await countQueries();
    expect(new Set((await listBatches(projectId)).map(({ starts }) => starts))).toEqual(new Set([1]));
  });
});
