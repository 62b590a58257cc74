/** Tests changes while a batch is running, i.e. new settings, concurrent batches and terminated runs. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Queries } from '../../../src/db/database.ts';
import { describeAnyDatabase } from '../../db/databases.ts';
import { createProject, putMemorySettings } from '../calls.ts';
import { createTestLearning, listGroups, listItems, storeReadConversation } from '../learning.ts';

const learned = (...texts: readonly string[]) => ({
  memories: texts.map((text) => ({ text, names: [], kind: 'fact', importance: 3, evidence: text })),
});
const nothingToMerge = { merges: [], facts: [], page: '' };

/** Returns outbox rows about batches in order, and marks them as delivered. */
async function deliver(queries: Queries, projectId: string): Promise<readonly { workflowId: string; signal: string | null }[]> {
  const rows = await queries.query<{ id: number; workflowId: string; signal: string | null }>(
    `delete from outbox where project_id = $1::uuid and workflow = 'learningBatch'
     returning id, workflow_id as "workflowId", signal`,
    [projectId],
  );
  return rows.toSorted((left, right) => left.id - right.id).map(({ workflowId, signal }) => ({ workflowId, signal }));
}

describeAnyDatabase('a running learning batch', (database) => {
  const begin = async (subject = 'ann') => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const learner = createTestLearning(database());
    learner.respond = ({ job }) => (job === 'extract' ? learned('I am Ann.') : nothingToMerge);
    const conversationId = await storeReadConversation(database(), { projectId, subject, texts: ['I am Ann.'] });
    expect(await learner.activities.checkLearning(projectId)).toMatchObject({ kind: 'running' });
    const [batch] = await learner.batches.list(projectId, null);
    return { projectId, learner, conversationId, batchId: batch?.id ?? '', workflowId: `learning/${projectId}/batch/${batch?.id}` };
  };

  test("doesn't call the memory model while memory is off, and continues when it's turned on again", async () => {
    const { projectId, learner, workflowId } = await begin();
    await putMemorySettings(database(), projectId, { enabled: false });
    await deliver(database(), projectId);
    expect(await learner.runBatches(projectId)).toEqual([expect.any(Number)]);
    expect(learner.requests).toEqual([]);
    expect(await learner.batches.list(projectId, 'waiting')).toMatchObject([{ attempts: 0, error: 'memory_off' }]);
    expect(await learner.activities.checkLearning(projectId)).toMatchObject({ kind: 'idle' });
    await putMemorySettings(database(), projectId, { enabled: true });
    expect(await deliver(database(), projectId)).toEqual([{ workflowId, signal: 'look' }]);
    expect(await learner.runBatches(projectId)).toEqual([]);
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I am Ann.' }]);
    expect(await learner.batches.list(projectId, 'done')).toHaveLength(1);
  });

  test('resumes learning at consolidation if memory was turned off after extraction', async () => {
    const { projectId, learner } = await begin();
    learner.respond = async ({ job }) => {
      if (job === 'consolidate') return nothingToMerge;
      await putMemorySettings(database(), projectId, { enabled: false });
      return learned('I am Ann.');
    };
    expect(await learner.runBatches(projectId)).toEqual([expect.any(Number)]);
    expect(await listGroups(database(), projectId)).toMatchObject([{ state: 'learned', attempts: 1, error: 'memory_off' }]);
    await putMemorySettings(database(), projectId, { enabled: true });
    await learner.runBatches(projectId);
    expect(learner.requests.map(({ job }) => job)).toEqual(['extract', 'consolidate']);
  });

  test('stores a memory once when several batches learn it concurrently', async () => {
    const { projectId, learner, conversationId } = await begin();
    await learner.remember(projectId, conversationId, null);
    await learner.remember(projectId, conversationId, 'names');
    const batches = await learner.batches.list(projectId, 'running');
    expect(batches).toHaveLength(3);
    // All of them get a response before any of them can store it.
    let release: () => void = () => undefined;
    const allAsked = new Promise<void>((resolve) => {
      release = resolve;
    });
    learner.respond = async ({ job }) => {
      if (job === 'consolidate') return nothingToMerge;
      if (learner.requests.length === batches.length) release();
      await allAsked;
      return learned('I am Ann.');
    };
    const { signal } = new AbortController();
    await Promise.all(batches.map(({ id }) => learner.activities.learnGroup({ batchId: id, position: 0, runId: 'run-1' }, signal)));
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I am Ann.', state: 'live' }]);
    const groups = await listGroups(database(), projectId);
    expect(groups.map(({ written, repeated }) => [written, repeated]).toSorted()).toEqual([
      [0, 1],
      [0, 1],
      [1, 0],
    ]);
  });

  test('restarts a learning batch at the next check if its Temporal run was terminated', async () => {
    const { projectId, learner, workflowId } = await begin();
    await deliver(database(), projectId);
    const check = () => learner.activities.checkLearning(projectId);
    expect(await check()).toMatchObject({ kind: 'running' });
    expect(await check()).toMatchObject({ kind: 'running' });
    expect(await deliver(database(), projectId)).toEqual([{ workflowId, signal: null }]);
    learner.respond = () => ({ kind: 'failure', failure: { kind: 'vendor', code: 'upstream_failed', message: 'no answer' } });
    await learner.runBatches(projectId);
    expect(await check()).toMatchObject({ kind: 'running' });
    expect(await deliver(database(), projectId)).toEqual([]);
  });

  test("notifies the project's workflow only once when a learning batch finishes", async () => {
    const { projectId, learner, batchId } = await begin();
    await learner.runBatches(projectId);
    await database().query(`delete from outbox where project_id = $1::uuid`, [projectId]);
    const run = { batchId, runId: 'run-1' };
    expect(await learner.activities.finishBatch(run)).toMatchObject({ finished: true, batch: { groups: 1, parked: 0 } });
    expect(await learner.activities.openBatch(run)).toEqual({ groups: [], total: 1 });
    expect(await database().query(`select 1 from outbox where project_id = $1::uuid`, [projectId])).toEqual([]);
  });

  test("accepts a memory model's response in a Markdown code block", async () => {
    const { projectId, learner } = await begin();
    learner.respond = ({ job }) =>
      `\`\`\`json\n${JSON.stringify(job === 'extract' ? learned('I am Ann.') : { ...nothingToMerge, page: 'Ann' })}\n\`\`\`\n`;
    expect(await learner.runBatches(projectId)).toEqual([]);
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I am Ann.' }]);
    const pages = `select text from memory_pages where project_id = $1::uuid`;
    expect(await database().query(pages, [projectId])).toEqual([{ text: 'Ann' }]);
  });

  test('masks credentials in the focus of a remember request', async () => {
    const { projectId, learner, conversationId } = await begin();
    const secret = `sk-proj-${randomUUID().replaceAll('-', '')}${randomUUID().replaceAll('-', '')}`;
    const { focus } = await learner.remember(projectId, conversationId, `who has ${secret}?`);
    expect(focus).toMatch(/^who has \S+\?$/);
    expect(focus).not.toContain(secret.slice(8, 30));
    const stored = `select focus from memory_batch_groups where project_id = $1::uuid and focus is not null`;
    expect(await database().query(stored, [projectId])).toEqual([{ focus }]);
  });
});
