/** Tests what happens to pages if one of their memories is removed or excluded from recall. */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { createBatches } from '../../../src/memory/learning/batches.ts';
import { describeAnyDatabase } from '../../db/databases.ts';
import { createProject, putMemorySettings } from '../calls.ts';
import { createTestLearning, learnEveryMessage, listGroups, listItems, storeReadConversation } from '../learning.ts';

interface Question {
  readonly new: readonly { readonly id: string; readonly text: string }[];
  readonly known: readonly { readonly id: string; readonly text: string }[];
}

describeAnyDatabase('knowledge pages', (database) => {
  const learning = () => createTestLearning(database());
  const check = (projectId: string) => learning().activities.checkLearning(projectId);
  const pagesOf = (projectId: string) =>
    database().query<{ text: string }>('select text from memory_pages where project_id = $1::uuid', [projectId]);

  test('rebuilds a knowledge page only once after several memories are removed', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    const pageOf = ({ new: added, known }: Question): string =>
      [...added, ...known]
        .map(({ text }) => text)
        .sort()
        .join(' ');
    learner.respond = (call) =>
      call.job === 'extract' ? learnEveryMessage(call) : { merges: [], facts: [], page: pageOf(JSON.parse(call.text) as Question) };
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['Alpha ann.', 'Bravo ann.', 'Charlie ann.'] });
    await check(projectId);
    await learner.runBatches(projectId);
    expect(await pagesOf(projectId)).toMatchObject([{ text: 'Alpha ann. Bravo ann. Charlie ann.' }]);
    const asked = learner.requests.length;
    const [a, b, c] = await listItems(database(), projectId);
    const items = createItems({ database: database(), clock: systemClock });
    await items.remove(projectId, a?.id ?? '', { origin: 'agent', author: 'key:x' });
    await items.correct(projectId, b?.id ?? '', 'Delta ann.', { origin: 'agent', author: 'key:x' });
    expect(await pagesOf(projectId)).toEqual([]);
    await learner.runBatches(projectId);
    expect(await pagesOf(projectId)).toMatchObject([{ text: 'Charlie ann. Delta ann.' }]);
    expect(learner.requests.slice(asked).map(({ job }) => job)).toEqual(['consolidate']);
    expect(await listGroups(database(), projectId)).toMatchObject([
      { written: 3 },
      { subject: 'ann', state: 'done', messages: 0, merged: 0 },
    ]);

    // Without memories, there's no page and the model isn't called.
    for (const item of [c, ...(await listItems(database(), projectId)).filter(({ text }) => text === 'Delta ann.')])
      await items.remove(projectId, item?.id ?? '', { origin: 'agent', author: 'key:x' });
    await learner.runBatches(projectId);
    expect([await pagesOf(projectId), learner.requests.length]).toEqual([[], asked + 1]);
  });

  test('lists a batch as waiting while it only waits for the time to rebuild its page', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    learner.respond = (call) => (call.job === 'extract' ? learnEveryMessage(call) : { merges: [], facts: [], page: 'A page.' });
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['Alpha ann.', 'Bravo ann.'] });
    await check(projectId);
    await learner.runBatches(projectId);
    const [item] = await listItems(database(), projectId);
    await createItems({ database: database(), clock: systemClock }).remove(projectId, item?.id ?? '', { origin: 'agent', author: 'key:x' });
    const batches = createBatches({ database: database(), uiUrl: async () => null });
    const scheduled = { kind: 'page', state: 'waiting', attempts: 0, error: null, nextTryAt: expect.any(Date) };
    expect(await batches.list(projectId, 'waiting')).toMatchObject([scheduled]);
    expect(await batches.list(projectId, 'retrying')).toEqual([]);

    // If the first attempt fails, the batch is tried again.
    await database().query(
      `update memory_batch_groups set attempts = 1, error = 'upstream_failed' where project_id = $1::uuid and next_try_at is not null`,
      [projectId],
    );
    expect(await batches.list(projectId, 'waiting')).toEqual([]);
    expect(await batches.list(projectId, 'retrying')).toMatchObject([
      { ...scheduled, state: 'retrying', attempts: 1, error: 'upstream_failed' },
    ]);
  });

  test('rebuilds a knowledge page only once after a memory is rated wrong twice', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    const items = createItems({ database: database(), clock: systemClock });
    let mustRate = true;
    learner.respond = async (call) => {
      if (call.job === 'extract') return learnEveryMessage(call);
      const { new: added, known } = JSON.parse(call.text) as Question;
      const page = [...added, ...known].map(({ text }) => text).join(' ');
      const wrong = added.find(({ text }) => text === 'Mistaken.');
      // This includes a page that was being written at that time.
      if (wrong && mustRate) {
        await items.rate(projectId, wrong.id, 'wrong');
        await items.rate(projectId, wrong.id, 'wrong');
        mustRate = false;
      }
      return { merges: [], facts: [], page };
    };
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['Correct.', 'Mistaken.', 'Strange.'] });
    await check(projectId);
    await learner.runBatches(projectId);
    expect(await pagesOf(projectId)).toEqual([]);
    await learner.runBatches(projectId);
    expect((await pagesOf(projectId))[0]?.text.split(' ').toSorted()).toEqual(['Correct.', 'Strange.']);

    const odd = (await listItems(database(), projectId)).find(({ text }) => text === 'Strange.');
    await items.rate(projectId, odd?.id ?? '', 'wrong');
    expect(await pagesOf(projectId)).toHaveLength(1);
    await items.rate(projectId, odd?.id ?? '', 'wrong');
    expect(await pagesOf(projectId)).toEqual([]);
    await learner.runBatches(projectId);
    expect(await pagesOf(projectId)).toEqual([{ text: 'Correct.' }]);
    const asked = learner.requests.length;
    await items.rate(projectId, odd?.id ?? '', 'wrong');
    await learner.runBatches(projectId);
    expect([await pagesOf(projectId), learner.requests.length]).toEqual([[{ text: 'Correct.' }], asked]);
  });

  test('rebuilds a knowledge page again if a memory was removed during the rebuild', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = learning();
    const items = createItems({ database: database(), clock: systemClock });
    learner.respond = async (call) => {
      if (call.job === 'extract') return learnEveryMessage(call);
      const { new: added, known } = JSON.parse(call.text) as Question;
      const page = [...added, ...known].map(({ text }) => text).join(' ');
      const secret = added.find(({ text }) => text === 'Secret.');
      if (secret) await items.remove(projectId, secret.id, { origin: 'agent', author: 'key:x' });
      return { merges: [], facts: [], page };
    };
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['Opened.'] });
    await check(projectId);
    await learner.runBatches(projectId);
    expect(await pagesOf(projectId)).toMatchObject([{ text: 'Opened.' }]);
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['Secret.'] });
    await check(projectId);
    await learner.runBatches(projectId);
    expect(await pagesOf(projectId)).toEqual([]);
    await learner.runBatches(projectId);
    expect(await pagesOf(projectId)).toMatchObject([{ text: 'Opened.' }]);
    // The page is deleted together with the memory, and only requested once.
    expect((await listGroups(database(), projectId)).map(({ messages }) => messages)).toEqual([2, 2, 0]);
  });
});
