/** A workflow whose history grows too long continues as new where the old run ended; this Temporal server suggests it after 30 events. */
import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTemporal, type Temporal } from '../../src/jobs/client/temporal.ts';
import type { RunningWorker } from '../../src/jobs/worker/temporal-worker.ts';
import type {
  Activities,
  EmbedProgress,
  ErasureStatus,
  GroupStepResult,
  IdleCheckResult,
  Progress,
  VideoPollResult,
  workflowNames,
} from '../../workflows/contract.ts';
import { createTestLog, prepareTestBundle, until } from '../support/temporal.ts';
import { createTemporalServer, type TemporalServer } from '../support/temporal-server.ts';

let server: TemporalServer;
let temporal: Temporal;
beforeAll(async () => {
  server = await createTemporalServer({ 'limit.historyCount.suggestContinueAsNew': 30 });
  temporal = createTemporal({ address: server.address, namespace: 'default', logger: createTestLog().logger });
  await temporal.probe();
}, 120_000);
afterAll(async () => {
  await temporal?.close();
  await server?.remove();
});

interface Started {
  readonly workflowId: string;
  readonly signalAgain: () => Promise<void>;
}

/** Runs `work` while a worker has these activities. */
async function withWorker(activities: Partial<Activities>, work: () => Promise<void>): Promise<void> {
  const bundle = (signal: AbortSignal): Promise<string> => prepareTestBundle(signal);
  const worker: RunningWorker = temporal.startWorker({ activities, bundle, graceMs: 1_000 });
  try {
    await work();
  } finally {
    await worker.stop();
  }
}

async function start(workflow: (typeof workflowNames)[number], input: Readonly<Record<string, string | number | null>>): Promise<Started> {
  const workflowId = `${workflow}/${randomUUID()}`;
  const learns = workflow === 'learningBatch' || workflow === 'projectLearning';
  const entry = { workflow, workflowId, input, ...(learns && { signal: { name: 'look', input: {} } }) };
  const signalAgain = () => temporal.start(entry);
  await signalAgain();
  return { workflowId, signalAgain };
}

/** The statuses of the workflow's runs, oldest first. */
async function endsOf(workflowId: string): Promise<readonly string[]> {
  const runs: { readonly at: number; readonly status: string }[] = [];
  for await (const { startTime, status } of temporal.client.workflow.list({ query: `WorkflowId = "${workflowId}"` }))
    runs.push({ at: startTime.getTime(), status: status.name });
  return runs.toSorted((left, right) => left.at - right.at).map(({ status }) => status);
}

async function expectRenewed(workflowId: string): Promise<void> {
  await until('the last run has completed', async () => (await endsOf(workflowId)).at(-1) === 'COMPLETED', 100_000);
  const ends = await endsOf(workflowId);
  expect(ends.length).toBeGreaterThan(1);
  expect(new Set(ends.slice(0, -1))).toEqual(new Set(['CONTINUED_AS_NEW']));
}

/** An activity that returns the results in order, the last one again and again, and the inputs that it got. */
function responding<Result>(...results: readonly Result[]) {
  const inputs: unknown[] = [];
  return {
    inputs,
    respond: async (input: unknown): Promise<Result> => {
      const result = results[Math.min(inputs.length, results.length - 1)];
      inputs.push(input);
      if (result === undefined) throw new Error('no result is scripted');
      return result;
    },
  };
}
const wait = { kind: 'wait', waitMs: 1 } as const;
const more = { kind: 'more', passages: 1 } as const;
const times = <Value>(count: number, value: Value): Value[] => Array.from({ length: count }, () => value);

test('conversationIdle', async () => {
  const input = { conversation_id: randomUUID(), opened: 3 };
  const { inputs, respond } = responding<IdleCheckResult>(...times(8, wait), { kind: 'read' });
  await withWorker({ readConversation: respond }, async () => expectRenewed((await start('conversationIdle', input)).workflowId));
  expect(inputs).toEqual(times(9, input));
}, 120_000);

test('videoOperation', async () => {
  const input = { call_id: randomUUID() };
  const { inputs, respond } = responding<VideoPollResult>(...times(6, { ...wait, unreachable: false }), {
    kind: 'settled',
    outcome: 'completed',
    code: null,
  });
  await withWorker({ pollVideo: respond }, async () => expectRenewed((await start('videoOperation', input)).workflowId));
  expect(inputs).toEqual(times(7, input));
}, 120_000);

test('embedMemory', async () => {
  const input = { project_id: randomUUID(), run: 2 };
  const { inputs, respond } = responding<EmbedProgress>(...times(12, more), { kind: 'done', passages: 0 });
  await withWorker({ embedPassages: respond }, async () => expectRenewed((await start('embedMemory', input)).workflowId));
  expect(inputs).toEqual(times(13, input));
}, 120_000);

test('every run of a chain keeps what the first was started with, readable although payloads are encrypted', async () => {
  const encrypting = createTemporal({
    address: server.address,
    namespace: 'default',
    payloadKeys: [randomBytes(32)],
    logger: createTestLog().logger,
  });
  const [workflowId, projectId] = [`embedding/${randomUUID()}`, randomUUID()];
  const { inputs, respond } = responding<EmbedProgress>(...times(12, more), { kind: 'done', passages: 0 });
  const bundle = (signal: AbortSignal): Promise<string> => prepareTestBundle(signal);
  const worker = encrypting.startWorker({ activities: { embedPassages: respond }, bundle, graceMs: 1_000 });
  try {
    await until('search attributes are registered', async () => {
      await encrypting.probe();
      await encrypting.start({
        workflow: 'embedMemory',
        workflowId,
        projectId,
        projectSlug: 'acme',
        input: { project_id: projectId, run: inputs.length },
      });
      const { searchAttributes } = await temporal.client.workflow.getHandle(workflowId).describe();
      if ('GatewayKind' in searchAttributes) return true;
      await temporal.client.workflow.getHandle(workflowId).terminate();
      return false;
    });
    await expectRenewed(workflowId);
    for await (const { runId } of temporal.client.workflow.list({ query: `WorkflowId = "${workflowId}"` })) {
      const run = await temporal.client.workflow.getHandle(workflowId, runId).describe();
      if (run.status.name === 'TERMINATED') continue;
      // The server gives a continued run no static summary; the memo repeats it.
      if (run.raw.workflowExecutionInfo?.firstRunId === runId) {
        expect(await run.staticSummary()).toMatch(/^acme: compute embeddings, run \d+$/);
        expect(await run.staticDetails()).toMatch(`- Project: acme (${projectId})\n- Run: `);
      }
      expect(run.memo).toEqual({
        summary: expect.stringMatching(/^acme: compute embeddings, run \d+$/),
        kind: 'embedding',
        project: 'acme',
      });
      expect(run.searchAttributes).toMatchObject({ GatewayProjectSlug: ['acme'], GatewayProject: [projectId], GatewayKind: ['embedding'] });
    }
  } finally {
    await worker.stop();
    await encrypting.close();
  }
}, 120_000);

test('dailyCleanup continues with the step that it had reached', async () => {
  const steps = Array.from({ length: 12 }, (_, n) => `step-${n}`);
  const { inputs, respond } = responding(...[...steps, null].map((next) => ({ next, rows: 1 })));
  await withWorker({ cleanUp: respond }, async () => expectRenewed((await start('dailyCleanup', { step: null })).workflowId));
  expect(inputs).toEqual([null, ...steps].map((step) => ({ step })));
}, 120_000);

test('subjectErasure finishes once, after it continued as new while waiting and while deleting runs', async () => {
  const input = { erasure_id: randomUUID() };
  const checks = responding<ErasureStatus>(...times(6, wait), { kind: 'clear' });
  const purges = responding<Progress>(...times(12, more), { kind: 'done' });
  const ends = responding(null);
  const finishErasure = async (given: unknown): Promise<void> => void (await ends.respond(given));
  await withWorker({ lookAtErasure: checks.respond, purgeErasedRuns: purges.respond, finishErasure }, async () =>
    expectRenewed((await start('subjectErasure', input)).workflowId),
  );
  expect(purges.inputs).toEqual(times(13, input));
  expect(ends.inputs).toEqual([input]);
}, 120_000);

test('projectLearning loses no signal', async () => {
  const input = { project_id: randomUUID() };
  let seen = 0;
  const lookAtLearning: Activities['lookAtLearning'] = async () => {
    seen += 1;
    return { kind: seen < 20 ? 'running' : 'gone' };
  };
  await withWorker({ lookAtLearning }, async () => {
    const { workflowId, signalAgain } = await start('projectLearning', input);
    while (seen < 20) {
      const before = seen;
      await signalAgain();
      await until('it checks', () => seen > before);
    }
    await expectRenewed(workflowId);
  });
}, 120_000);

test('learningBatch repeats each step of each pending group until it is settled', async () => {
  const input = { batch_id: randomUUID() };
  // Each group waits several times before each of its steps.
  const waits = new Map([0, 1, 2, 3].map((position) => [position, { learn: 3, consolidate: 2 }]));
  const settled: string[] = [];
  const stepOf =
    (name: 'learn' | 'consolidate'): Activities['learnGroup'] =>
    async ({ position }): Promise<GroupStepResult> => {
      const left = waits.get(position);
      if (left !== undefined && left[name] > 0) {
        left[name] -= 1;
        return { kind: 'wait', waitMs: 1, attempts: 1, code: 'upstream_failed', blocked: false };
      }
      // As in a group's row: a settled step stays settled.
      if (!settled.includes(`${name} ${position}`)) settled.push(`${name} ${position}`);
      return { kind: 'settled' };
    };
  const isOpen = (position: number): boolean => !settled.includes(`consolidate ${position}`);
  const open = (): number[] => [...waits.keys()].filter(isOpen);
  await withWorker(
    {
      openBatch: async () => ({ groups: open().map((position) => ({ position, waitMs: 0, attempts: 0 })), total: waits.size }),
      learnGroup: stepOf('learn'),
      consolidateGroup: stepOf('consolidate'),
      finishBatch: async () => (open().length === 0 ? { finished: true, batch: null, runId: '' } : { finished: false, runId: '' }),
    },
    async () => expectRenewed((await start('learningBatch', input)).workflowId),
  );
  const groups = [...waits.keys()];
  expect(settled.toSorted()).toEqual(['consolidate', 'learn'].flatMap((name) => groups.map((position) => `${name} ${position}`)));
  for (const position of groups) expect(settled.indexOf(`learn ${position}`)).toBeLessThan(settled.indexOf(`consolidate ${position}`));
}, 120_000);
