import { readdir, readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Worker } from '@temporalio/worker';
import { globalHandlers } from '@temporalio/worker/lib/workflow/vm-shared.js';
import { installRuntime } from '../../src/temporal/worker/temporal-worker.ts';
import { replaySignal, wakeSignal, workflowNames } from '../../workflows/contract.ts';
import { parseHistory, readCommittedHistory } from '../support/histories.ts';
import { createTestLog } from '../support/temporal.ts';
import { prepareTestBundle } from '../support/workflow-bundle.ts';

/**
 * One history for each path that a released version takes through a workflow, recorded from a real run with fictitious
 * ids. A change that cannot replay one of them breaks running workflows, so it needs `patched`.
 */
const names = (await readdir(new URL('../fixtures/histories/', import.meta.url))).map((file) => file.replace(/\.json$/, ''));

type History = ReturnType<typeof parseHistory>;

/** Makes a history look as if a newer version had started its run in a rolling deployment. */
function startedByNewerVersion(history: History): History {
  const started = history.events[0]?.workflowExecutionStartedEventAttributes;
  if (!started) throw new Error('the history has no start');
  const payload = { metadata: { encoding: Buffer.from('json/plain'), type: Buffer.from('Keyword') }, data: Buffer.from('"running"') };
  started.searchAttributes = { indexedFields: { ...started.searchAttributes?.indexedFields, GatewayState: payload } };
  return history;
}

describe('recorded histories of older versions', () => {
  let codePath: string;
  /** The error of each replay, or undefined if it succeeded. */
  const errors = new Map<string, unknown>();
  beforeAll(async () => {
    await installRuntime(createTestLog().logger);
    codePath = await prepareTestBundle();
    const committed = await Promise.all(names.map(async (name) => ({ name, text: await readCommittedHistory(name) })));
    // Starting a worker takes several times as long as a replay, so one worker replays all of them.
    const histories = committed.flatMap(({ name, text }) => [
      { workflowId: name, history: parseHistory(text) },
      { workflowId: `newer ${name}`, history: startedByNewerVersion(parseHistory(text)) },
    ]);
    for await (const { workflowId, error } of Worker.runReplayHistories({ workflowBundle: { codePath } }, histories))
      errors.set(workflowId, error);
    expect([...errors.keys()]).toEqual(histories.map(({ workflowId }) => workflowId));
  });

  // To replay, the SDK runs workflows on the main thread, where it hooks into all promises and leaves the hooks installed.
  // They would slow down all later tests in this process.
  afterAll(() => globalHandlers.uninstall());

  test.each(names)('replays the history %s with the current workflows', (name) => {
    expect(errors.get(name)).toBeUndefined();
  });

  test('replays a history in which an older version ignored the replay signal', async () => {
    const committed = await readCommittedHistory('project-learning');
    const history = parseHistory(committed.replace(`"signalName": "${wakeSignal}"`, `"signalName": "${replaySignal}"`));
    expect(history.events[1]?.workflowExecutionSignaledEventAttributes?.signalName).toBe(replaySignal);
    await Worker.runReplayHistory({ workflowBundle: { codePath } }, history);
  });

  test.each(names)('replays a history that a newer version started in a rolling deployment: %s', (name) => {
    expect(errors.get(`newer ${name}`)).toBeUndefined();
  });

  test.each(workflowNames)('includes a recorded history of the workflow %s', async (workflow) => {
    const recorded = await Promise.all(names.map(async (name) => parseHistory(await readCommittedHistory(name))));
    const types = recorded.map(({ events }) => events[0]?.workflowExecutionStartedEventAttributes?.workflowType?.name);
    expect(types).toContain(workflow);
  });

  test('includes a recorded history of every workflow that a worker runs', async () => {
    const index = await readFile(new URL('../../workflows/index.ts', import.meta.url), 'utf8');
    const exported = [...index.matchAll(/^export \{ (\w+) \}/gm)].map(([, name]) => name);
    expect(exported.sort()).toEqual([...workflowNames].sort());
  });

  test("fails the replay of a history that the current workflows wouldn't produce", async () => {
    const changed = (await readCommittedHistory('embed-memory')).replaceAll('embedPassages', 'readAnotherThing');
    const replay = Worker.runReplayHistory({ workflowBundle: { codePath } }, parseHistory(changed));
    await expect(replay).rejects.toMatchObject({ name: 'DeterminismViolationError' });
  });
});
