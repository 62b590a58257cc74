/** What happens to a batch while it is under way: settings that change, other batches beside it, runs that somebody has ended. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Queries } from '../../../src/db/database.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject, putMemorySettings } from '../calls.ts';
import { createTestLearning, listGroups, listItems, storeReadConversation } from '../learning.ts';

const learned = (...words: readonly string[]) => ({
  memories: words.map((text) => ({ text, kind: 'fact', importance: 3, evidence: text })),
});
const nothingToMerge = { merges: [], facts: [], page: '' };

/** Rows for Temporal that speak of batches, in order; they are taken as delivered. */
async function deliver(queries: Queries, projectId: string): Promise<readonly { workflowId: string; signal: string | null }[]> {
  const rows = await queries.query<{ id: number; workflowId: string; signal: string | null }>(
    `delete from outbox where project_id = $1::uuid and workflow = 'learningBatch'
     returning id, workflow_id as "workflowId", signal`,
    [projectId],
  );
  return rows.toSorted((left, right) => left.id - right.id).map(({ workflowId, signal }) => ({ workflowId, signal }));
}

describeDatabases('a batch under way', (database) => {
  const begin = async (subject = 'ann') => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { batch_of: 1 });
    const parts = createTestLearning(database());
    parts.respond = ({ job }) => (job === 'extract' ? learned('I am Ann.') : nothingToMerge);
    const conversationId = await storeReadConversation(database(), { projectId, subject, words: ['I am Ann.'] });
    expect(await parts.activities.checkLearning(projectId)).toEqual({ kind: 'running' });
    const [batch] = (await parts.batches.list(projectId, null)) as { id: string }[];
    return { projectId, parts, conversationId, batchId: batch?.id ?? '', workflowId: `learning/${projectId}/batch/${batch?.id}` };
  };

  test('asks nothing while memory is off, and is told when it is on again', async () => {
    const { projectId, parts, workflowId } = await begin();
    await putMemorySettings(database(), projectId, { enabled: false });
    await deliver(database(), projectId);
    expect(await parts.runBatches(projectId)).toEqual([expect.any(Number)]);
    expect(parts.requests).toEqual([]);
    expect(await parts.batches.list(projectId, 'waiting')).toMatchObject([{ attempts: 0, error: { code: 'memory_off' } }]);
    expect(await parts.activities.checkLearning(projectId)).toEqual({ kind: 'idle' });
    await putMemorySettings(database(), projectId, { enabled: true });
    expect(await deliver(database(), projectId)).toEqual([{ workflowId, signal: 'look' }]);
    expect(await parts.runBatches(projectId)).toEqual([]);
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I am Ann.' }]);
    expect(await parts.batches.list(projectId, 'done')).toHaveLength(1);
  });

  test('keeps what it has learned when memory is turned off before it is put in order, and goes on from there', async () => {
    const { projectId, parts } = await begin();
    parts.respond = async ({ job }) => {
      if (job === 'consolidate') return nothingToMerge;
      await putMemorySettings(database(), projectId, { enabled: false });
      return learned('I am Ann.');
    };
    expect(await parts.runBatches(projectId)).toEqual([expect.any(Number)]);
    expect(await listGroups(database(), projectId)).toMatchObject([{ state: 'learned', attempts: 1, error: 'memory_off' }]);
    await putMemorySettings(database(), projectId, { enabled: true });
    await parts.runBatches(projectId);
    expect(parts.requests.map(({ job }) => job)).toEqual(['extract', 'consolidate']);
  });

  test('two remembers at the same moment and the batch beside them store a memory once', async () => {
    const { projectId, parts, conversationId } = await begin();
    await parts.remember(projectId, conversationId, null);
    await parts.remember(projectId, conversationId, 'names');
    const batches = (await parts.batches.list(projectId, 'running')) as { id: string }[];
    expect(batches).toHaveLength(3);
    // All have their answer before any of them can store it.
    let release: () => void = () => undefined;
    const allAsked = new Promise<void>((resolve) => {
      release = resolve;
    });
    parts.respond = async ({ job }) => {
      if (job === 'consolidate') return nothingToMerge;
      if (parts.requests.length === batches.length) release();
      await allAsked;
      return learned('I am Ann.');
    };
    const { signal } = new AbortController();
    await Promise.all(batches.map(({ id }) => parts.activities.learnGroup({ batchId: id, position: 0 }, signal)));
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I am Ann.', state: 'live' }]);
    const groups = await listGroups(database(), projectId);
    expect(groups.map(({ written, repeated }) => [written, repeated]).toSorted()).toEqual([
      [0, 1],
      [0, 1],
      [1, 0],
    ]);
  });

  test('is started again by the next look, in case its run was ended in Temporal; one that waits for its next try is left alone', async () => {
    const { projectId, parts, workflowId } = await begin();
    await deliver(database(), projectId);
    const look = () => parts.activities.checkLearning(projectId);
    expect(await look()).toEqual({ kind: 'running' });
    expect(await look()).toEqual({ kind: 'running' });
    expect(await deliver(database(), projectId)).toEqual([{ workflowId, signal: null }]);
    parts.respond = () => ({ kind: 'failure', failure: { kind: 'vendor', code: 'upstream_failed', message: 'no answer' } });
    await parts.runBatches(projectId);
    expect(await look()).toEqual({ kind: 'running' });
    expect(await deliver(database(), projectId)).toEqual([]);
  });

  test('that has ended tells its project once, however often its end is asked for', async () => {
    const { projectId, parts, batchId } = await begin();
    await parts.runBatches(projectId);
    await database().query(`delete from outbox where project_id = $1::uuid`, [projectId]);
    expect(await parts.activities.finishBatch(batchId)).toBe(true);
    expect(await parts.activities.openBatch(batchId)).toEqual([]);
    expect(await database().query(`select 1 from outbox where project_id = $1::uuid`, [projectId])).toEqual([]);
  });

  test('takes an answer that stands in a code block', async () => {
    const { projectId, parts } = await begin();
    parts.respond = ({ job }) =>
      `\`\`\`json\n${JSON.stringify(job === 'extract' ? learned('I am Ann.') : { ...nothingToMerge, page: 'Ann' })}\n\`\`\`\n`;
    expect(await parts.runBatches(projectId)).toEqual([]);
    expect(await listItems(database(), projectId)).toMatchObject([{ text: 'I am Ann.' }]);
    const pages = `select text from memory_pages where project_id = $1::uuid`;
    expect(await database().query(pages, [projectId])).toEqual([{ text: 'Ann' }]);
  });

  test('keeps no credential that stands in what it is to look for', async () => {
    const { projectId, parts, conversationId } = await begin();
    const secret = `sk-proj-${randomUUID().replaceAll('-', '')}${randomUUID().replaceAll('-', '')}`;
    const { focus } = await parts.remember(projectId, conversationId, `who has ${secret}?`);
    expect(focus).toMatch(/^who has \S+\?$/);
    expect(focus).not.toContain(secret.slice(8, 30));
    const stored = `select focus from memory_batch_groups where project_id = $1::uuid and focus is not null`;
    expect(await database().query(stored, [projectId])).toEqual([{ focus }]);
  });
});
