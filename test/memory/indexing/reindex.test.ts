/** Tests that texts can be found after reindexing, if they were indexed by an older version of the tokenizer. */
import { expect, test } from '@jest/globals';
import { createCleanupSteps } from '../../../src/app/cleanup.ts';
import { systemClock } from '../../../src/core/time.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { createGraph } from '../../../src/memory/search/graph.ts';
import { createSearch } from '../../../src/memory/search/search.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createTestLog } from '../../support/temporal.ts';
import { createProject, putMemorySettings } from '../calls.ts';
import { createTestLearning, learnEveryMessage, storeReadConversation } from '../learning.ts';

describeDatabases('texts indexed by an earlier tokenizer version', (database) => {
  test('finds old texts again after the daily cleanup has reindexed them', async () => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learning = createTestLearning(database());
    learning.respond = (call) => {
      if (call.job === 'extract') return learnEveryMessage(call);
      const { new: added } = JSON.parse(call.text) as { new: { id: string }[] };
      const fact = { source: 'user', relation: 'drinks', target: 'café', fact: 'Drinks café', replaces: null };
      return { merges: [], facts: added.map(({ id }) => ({ ...fact, item_id: id })), page: '' };
    };
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['Drinks café.'] });
    await learning.activities.checkLearning(projectId);
    await learning.runBatches(projectId);
    const items = createItems({ database: database(), clock: systemClock });
    const item = { kind: 'fact', importance: 3, subject: null, pinned: false } as const;
    for (let n = 0; n < 120; n += 1) await items.write(projectId, { ...item, text: `Café ${n}` }, { origin: 'agent', author: 'key:x' });

    const find = async (): Promise<readonly number[]> => {
      const request = { query: 'café', subject: null, limit: 50, kinds: [], include: [], min_score: 0 };
      const limits = { embedTimeoutMs: 1_000, queryTimeoutMs: 60_000 };
      const { memories } = await createSearch({ database: database() })(request, { projectId, embed: async () => null, ...limits });
      const graph = createGraph({ database: database() });
      const facts = await graph(projectId, { subject: 'ann', entity: null, relation: null, query: 'café', limit: 10 });
      return [memories.length, facts.length];
    };
    expect(await find()).toEqual([50, 1]);
    // Simulates the previous version, which didn't know the column and left it at its default.
    const old = (column: string) =>
      `lexemes = setweight(to_tsvector('english', lower(${column})), 'A') || setweight(to_tsvector('simple', lower(${column})), 'B'), words_version = default`;
    await database().query(`update memory_passages set ${old('text')} where project_id = $1::uuid`, [projectId]);
    await database().query(`update memory_facts set ${old('fact')} where project_id = $1::uuid`, [projectId]);
    expect(await find()).toEqual([0, 0]);

    const { logger } = createTestLog();
    const steps = createCleanupSteps({
      database: database(),
      clock: systemClock,
      logger,
      periods: () => ({ errorRetentionMs: 1, refusedCallRetentionMs: 1 }),
    });
    const step = steps.find(({ name }) => name === 'old-words');
    const counts: (number | undefined)[] = [];
    do counts.push(await step?.run(AbortSignal.timeout(60_000)));
    while (counts.at(-1));
    // There are 121 memories, a conversation, and a fact.
    expect(counts).toEqual([100, 22, 1, 0]);
    expect(await find()).toEqual([50, 1]);
  });
});
