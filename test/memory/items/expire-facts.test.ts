/** Tests that a fact ends with its last live memory, and that pages don't contain facts that have ended. */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import type { Database } from '../../../src/db/database.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { describeDatabases } from '../../db/databases.ts';
import { eventually } from '../../support/gateway.ts';
import { createProject, putMemorySettings } from '../calls.ts';
import { createTestLearning, learnEveryMessage, listItems, memory, storeReadConversation } from '../learning.ts';

const agent = { origin: 'agent', author: 'key:x' } as const;

interface Question {
  readonly new: readonly { readonly id: string; readonly text: string }[];
  readonly known: readonly { readonly id: string; readonly text: string }[];
  readonly facts: readonly { readonly target: string }[];
}

/** Links one fact to all new memories. */
function fileFact(text: string): object {
  const { new: added } = JSON.parse(text) as Question;
  const facts = added.map(({ id }) => ({
    item_id: id,
    source: 'user',
    relation: 'likes',
    target: 'tea',
    fact: 'Likes tea',
    replaces: null,
  }));
  return { merges: [], facts, page: 'Likes tea.' };
}

describeDatabases('facts of removed memories', (database) => {
  const itemsOf = () => createItems({ database: database(), clock: systemClock });
  const validFacts = (projectId: string) =>
    database().query('select fact from memory_facts where project_id = $1::uuid and valid_to is null', [projectId]);
  const pages = (projectId: string) =>
    database().query<{ text: string }>('select text from memory_pages where project_id = $1::uuid', [projectId]);

  async function learnTea(texts: readonly string[]) {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learning = createTestLearning(database());
    learning.respond = (call) => (call.job === 'extract' ? learnEveryMessage(call) : fileFact(call.text));
    await storeReadConversation(database(), { projectId, subject: 'ann', texts });
    await learning.activities.checkLearning(projectId);
    await learning.runBatches(projectId);
    return { projectId, learning };
  }

  test('ends a fact if both of its memories are removed at the same time', async () => {
    const { projectId } = await learnTea(['I like tea.', 'Tea is what I like.']);
    const items = await listItems(database(), projectId);
    expect([items.length, await validFacts(projectId)]).toEqual([2, [{ fact: 'Likes tea' }]]);
    const removeAll = () => Promise.all(items.map(({ id }) => itemsOf().remove(projectId, id, agent)));
    // If there are several sessions, both transactions are open before one of them can end.
    if (database().kind === 'embedded') await removeAll();
    else await whilePageIsHeld(database(), projectId, removeAll);
    expect((await listItems(database(), projectId)).map(({ state }) => state)).toEqual(['closed', 'closed']);
    expect(await validFacts(projectId)).toEqual([]);
  });

  test('keeps a fact off the knowledge page if its memory is removed during consolidation', async () => {
    const { projectId, learning } = await learnTea(['I like tea.']);
    const [tea] = await listItems(database(), projectId);
    // There are so many more important memories that the model gets the fact, but not the memory it belongs to.
    for (let n = 0; n < 40; n += 1)
      await itemsOf().write(projectId, { text: `Number ${n}`, kind: 'fact', importance: 5, subject: 'ann', pinned: false }, agent);
    learning.respond = async ({ job, text }) => {
      if (job === 'extract') return { memories: [memory('Owns a bicycle.')] };
      const { new: added, known, facts } = JSON.parse(text) as Question;
      expect([...added, ...known].map(({ id }) => id)).not.toContain(tea?.id);
      if (added.length > 0) await itemsOf().remove(projectId, tea?.id ?? '', agent);
      return { merges: [], facts: [], page: `Likes ${facts.map(({ target }) => target).join()}.` };
    };
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['Owns a bicycle.'] });
    await learning.activities.checkLearning(projectId);
    await learning.runBatches(projectId);
    expect(await pages(projectId)).toEqual([]);
    await learning.runBatches(projectId);
    expect(await pages(projectId)).toEqual([{ text: 'Likes .' }]);
  });
});

/** Locks the project's page and starts `work`. The lock is released when two transactions are waiting. */
async function whilePageIsHeld(database: Database, projectId: string, work: () => Promise<unknown>): Promise<void> {
  let working: Promise<unknown> = Promise.resolve();
  await database.transaction(async (tx) => {
    await tx.query('select 1 from memory_pages where project_id = $1::uuid for update', [projectId]);
    working = work();
    working.catch(() => {}); // Awaited below.
    await eventually(async () => {
      const waiting = await database.query(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      expect(waiting.length).toBeGreaterThanOrEqual(2);
    });
  });
  await working;
}
