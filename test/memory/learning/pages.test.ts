/** Pages after a memory that they may tell is gone. */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject, putMemorySettings } from '../calls.ts';
import { createTestLearning, learnEveryMessage, listGroups, listItems, storeReadConversation } from '../learning.ts';

interface Question {
  readonly new: readonly { readonly id: string; readonly text: string }[];
  readonly known: readonly { readonly id: string; readonly text: string }[];
}

describeDatabases('pages', (database) => {
  const learning = () => createTestLearning(database());
  const look = (projectId: string) => learning().activities.checkLearning(projectId);
  const pagesOf = (projectId: string) =>
    database().query<{ text: string }>('select text from memory_pages where project_id = $1::uuid', [projectId]);

  test('the page is written anew without the memory that was removed, once for all that are removed together', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    const pageOf = ({ new: added, known }: Question): string =>
      [...added, ...known]
        .map(({ text }) => text)
        .sort()
        .join(' ');
    parts.respond = (call) =>
      call.job === 'extract' ? learnEveryMessage(call) : { merges: [], facts: [], page: pageOf(JSON.parse(call.text) as Question) };
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['A ann.', 'B ann.', 'C ann.'] });
    await look(projectId);
    await parts.runBatches(projectId);
    expect(await pagesOf(projectId)).toMatchObject([{ text: 'A ann. B ann. C ann.' }]);
    const asked = parts.requests.length;
    const [a, b, c] = await listItems(database(), projectId);
    const items = createItems({ database: database(), clock: systemClock });
    await items.remove(projectId, a?.id ?? '', { origin: 'agent', author: 'key:x' });
    await items.correct(projectId, b?.id ?? '', 'D ann.', { origin: 'agent', author: 'key:x' });
    expect(await pagesOf(projectId)).toEqual([]);
    await parts.runBatches(projectId);
    expect(await pagesOf(projectId)).toMatchObject([{ text: 'C ann. D ann.' }]);
    expect(parts.requests.slice(asked).map(({ job }) => job)).toEqual(['consolidate']);
    expect(await listGroups(database(), projectId)).toMatchObject([
      { written: 3 },
      { subject: 'ann', state: 'done', messages: 0, merged: 0 },
    ]);

    // Of nothing there is no page, and no model is asked.
    for (const item of [c, ...(await listItems(database(), projectId)).filter(({ text }) => text === 'D ann.')])
      await items.remove(projectId, item?.id ?? '', { origin: 'agent', author: 'key:x' });
    await parts.runBatches(projectId);
    expect([await pagesOf(projectId), parts.requests.length]).toEqual([[], asked + 1]);
  });

  test('the page is written anew without the memory that a second rating calls wrong, once', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    const items = createItems({ database: database(), clock: systemClock });
    let mustRate = true;
    parts.respond = async (call) => {
      if (call.job === 'extract') return learnEveryMessage(call);
      const { new: added, known } = JSON.parse(call.text) as Question;
      const page = [...added, ...known].map(({ text }) => text).join(' ');
      const wrong = added.find(({ text }) => text === 'Wrong.');
      // Also one that was being written then.
      if (wrong && mustRate) {
        await items.rate(projectId, wrong.id, 'wrong');
        await items.rate(projectId, wrong.id, 'wrong');
        mustRate = false;
      }
      return { merges: [], facts: [], page };
    };
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['Right.', 'Wrong.', 'Odd.'] });
    await look(projectId);
    await parts.runBatches(projectId);
    expect(await pagesOf(projectId)).toEqual([]);
    await parts.runBatches(projectId);
    expect((await pagesOf(projectId))[0]?.text.split(' ').toSorted()).toEqual(['Odd.', 'Right.']);

    const odd = (await listItems(database(), projectId)).find(({ text }) => text === 'Odd.');
    await items.rate(projectId, odd?.id ?? '', 'wrong');
    expect(await pagesOf(projectId)).toHaveLength(1);
    await items.rate(projectId, odd?.id ?? '', 'wrong');
    expect(await pagesOf(projectId)).toEqual([]);
    await parts.runBatches(projectId);
    expect(await pagesOf(projectId)).toEqual([{ text: 'Right.' }]);
    const asked = parts.requests.length;
    await items.rate(projectId, odd?.id ?? '', 'wrong');
    await parts.runBatches(projectId);
    expect([await pagesOf(projectId), parts.requests.length]).toEqual([[{ text: 'Right.' }], asked]);
  });

  test('a page that was asked for before a memory was removed is not stored; another is written', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = learning();
    const items = createItems({ database: database(), clock: systemClock });
    parts.respond = async (call) => {
      if (call.job === 'extract') return learnEveryMessage(call);
      const { new: added, known } = JSON.parse(call.text) as Question;
      const page = [...added, ...known].map(({ text }) => text).join(' ');
      const secret = added.find(({ text }) => text === 'Secret.');
      if (secret) await items.remove(projectId, secret.id, { origin: 'agent', author: 'key:x' });
      return { merges: [], facts: [], page };
    };
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['Open.'] });
    await look(projectId);
    await parts.runBatches(projectId);
    expect(await pagesOf(projectId)).toMatchObject([{ text: 'Open.' }]);
    await storeReadConversation(database(), { projectId, subject: 'ann', words: ['Secret.'] });
    await look(projectId);
    await parts.runBatches(projectId);
    expect(await pagesOf(projectId)).toEqual([]);
    await parts.runBatches(projectId);
    expect(await pagesOf(projectId)).toMatchObject([{ text: 'Open.' }]);
    // The page that was there goes with the memory, and is asked for once.
    expect((await listGroups(database(), projectId)).map(({ messages }) => messages)).toEqual([2, 2, 0]);
  });
});
