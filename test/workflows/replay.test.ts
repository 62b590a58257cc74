import { readdir, readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { Worker } from '@temporalio/worker';
import { installRuntime } from '../../src/jobs/worker/temporal-worker.ts';
import { workflowQueues } from '../../workflows/contract.ts';
import { parseHistory, readCommittedHistory } from '../support/histories.ts';
import { createTestLog, prepareTestBundle } from '../support/temporal.ts';

/**
 * One history for each path through a workflow that a released version has taken, of a real run with made-up ids. A change of ours that
 * cannot replay one would break the runs that are under way, and needs `patched`.
 */
const names = (await readdir(new URL('../fixtures/histories/', import.meta.url))).map((file) => file.replace(/\.json$/, ''));

describe('a committed history', () => {
  let codePath: string;
  beforeAll(async () => {
    installRuntime(createTestLog().logger);
    codePath = await prepareTestBundle();
  });

  test.each(names)('is replayed by the workflows of today: %s', async (name) => {
    await Worker.runReplayHistory({ workflowBundle: { codePath } }, parseHistory(await readCommittedHistory(name)));
  });

  test.each(Object.keys(workflowQueues))('is there for the workflow %s', async (workflow) => {
    const recorded = await Promise.all(names.map(async (name) => parseHistory(await readCommittedHistory(name))));
    const types = recorded.map(({ events }) => events[0]?.workflowExecutionStartedEventAttributes?.workflowType?.name);
    expect(types).toContain(workflow);
  });

  test('is looked for under the name of every workflow that a worker runs', async () => {
    const index = await readFile(new URL('../../workflows/index.ts', import.meta.url), 'utf8');
    const exported = [...index.matchAll(/^export \{ (\w+) \}/gm)].map(([, name]) => name);
    expect(exported.sort()).toEqual(Object.keys(workflowQueues).sort());
  });

  test('that the workflows of today could not have made is refused', async () => {
    const changed = (await readCommittedHistory('embed-memory')).replaceAll('embedPassages', 'readAnotherThing');
    const replay = Worker.runReplayHistory({ workflowBundle: { codePath } }, parseHistory(changed));
    await expect(replay).rejects.toMatchObject({ name: 'DeterminismViolationError' });
  });
});
