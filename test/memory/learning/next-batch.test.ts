/**
 * Tests that the prediction of the next batch agrees with when it actually starts, and that lists of batches can
 * continue after an id.
 */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { readNextBatch } from '../../../src/memory/learning/next-batch.ts';
import { createMemorySettings } from '../../../src/memory/records/settings.ts';
import { describeDatabases } from '../../db/databases.ts';
import { aMinuteAgo, createProject } from '../calls.ts';
import { createTestLearning, storeReadConversation } from '../learning.ts';

describeDatabases('the next batch', (database) => {
  test('reports what the next learning batch is waiting for', async () => {
    const projectId = await createProject(database());
    const settings = createMemorySettings({ database: database(), clock: systemClock });
    const next = async (change: object = {}) => readNextBatch(database(), projectId, await settings.update(projectId, change));
    const learning = createTestLearning(database());
    expect(await next()).toEqual({ kind: 'none' });
    await storeReadConversation(database(), { projectId, subject: 'ann', texts: ['Hello.'], at: aMinuteAgo() });
    const waits = await next({ at_least_every_minutes: 43_200 });
    expect(waits).toMatchObject({ kind: 'due', messages: 2, batchOf: 20 });
    const check = await learning.activities.checkLearning(projectId);
    expect(check.kind === 'wait' && waits.kind === 'due' && waits.waitMs >= check.waitMs && waits.waitMs < check.waitMs + 60_000).toBe(
      true,
    );
    expect(await next({ enabled: false })).toEqual({ kind: 'off', messages: 2 });
    expect(await next({ enabled: true, batch_of: 2 })).toMatchObject({ kind: 'due', waitMs: 0 });
    await learning.activities.checkLearning(projectId);
    expect(await next()).toEqual({ kind: 'none' });
    await storeReadConversation(database(), { projectId, subject: 'bob', texts: ['Hello again.'] });
    expect(await next()).toEqual({ kind: 'after_running', messages: 2 });

    const [batch] = await learning.batches.listPage(projectId, { state: null, before: null, limit: 1 });
    expect(batch?.state).toBe('running');
    expect(await learning.batches.listPage(projectId, { state: null, before: batch?.id ?? '', limit: 1 })).toEqual([]);
  });
});
