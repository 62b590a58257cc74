/**
 * Tests that workflows whose history becomes too long continue in a new run. The Temporal server of this test suggests
 * this after 30 events. All workflows share one worker, because they spend most of their time waiting.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import { createTemporal, type Temporal } from '../../src/temporal/client/temporal.ts';
import type { RunningWorker } from '../../src/temporal/worker/temporal-worker.ts';
import type {
  Activities,
  CloseIdleResult,
  EmbedProgress,
  ErasureStatus,
  GroupStepResult,
  IdleCheckResult,
  Progress,
  VideoPollResult,
  WorkflowName,
} from '../../workflows/contract.ts';
import { startTogether } from '../support/start-together.ts';
import { createTestLog, until } from '../support/temporal.ts';
import { createTemporalServer, type TemporalServer } from '../support/temporal-server.ts';
import { prepareTestBundle } from '../support/workflow-bundle.ts';

/** A workflow with the activities that only it calls. */
interface Scenario {
  readonly title: string;
  readonly activities: Partial<Activities>;
  /** Resolves once the workflow has completed. */
  run(): Promise<void>;
  /** Checks the inputs of the activities. */
  check(): void;
}

interface Started {
  readonly workflowId: string;
  readonly signalAgain: () => Promise<unknown>;
}

async function start(
  workflow: WorkflowName,
  input: Readonly<Record<string, string | number | null>>,
  project: { projectId?: string; projectSlug?: string } = {},
): Promise<Started> {
  const workflowId = `${workflow}/${randomUUID()}`;
  const learns = workflow === 'learningBatch' || workflow === 'projectLearning';
  const entry = { workflow, workflowId, input, ...project, ...(learns && { signal: { name: 'look', input: {} } }) };
  const signalAgain = () => temporal.start(entry);
  await signalAgain();
  return { workflowId, signalAgain };
}

/** Returns the statuses of the workflow's runs, oldest first. */
async function endsOf(workflowId: string): Promise<readonly string[]> {
  const runs: { readonly at: number; readonly status: string }[] = [];
  for await (const { startTime, status } of temporal.client.workflow.list({ query: `WorkflowId = "${workflowId}"` }))
    runs.push({ at: startTime.getTime(), status: status.name });
  return runs.toSorted((left, right) => left.at - right.at).map(({ status }) => status);
}

async function expectRenewed(workflowId: string): Promise<void> {
  await temporal.client.workflow.getHandle(workflowId).result();
  await until('the list shows how all runs have ended', async () => {
    const ends = await endsOf(workflowId);
    return ends.at(-1) === 'COMPLETED' && !ends.includes('RUNNING');
  });
  const ends = await endsOf(workflowId);
  expect(ends.length).toBeGreaterThan(1);
  expect(new Set(ends.slice(0, -1))).toEqual(new Set(['CONTINUED_AS_NEW']));
}

/** An activity that returns the results in order and then repeats the last one. It also records its inputs. */
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

function createConversationIdle(): Scenario {
  const input = { conversation_id: randomUUID(), opened: 3 };
  const { inputs, respond } = responding<IdleCheckResult>(...times(8, wait), { kind: 'read' });
  return {
    title: 'continues conversationIdle as new',
    activities: { readConversation: respond },
    run: async () => expectRenewed((await start('conversationIdle', input)).workflowId),
    check: () => expect(inputs).toEqual(times(9, input)),
  };
}

function createIdleConversations(): Scenario {
  const input = { project_id: randomUUID(), run: 2 };
  const { inputs, respond } = responding<CloseIdleResult>(...times(8, { ...wait, read: 3, waiting: 2 }), { kind: 'done', read: 1 });
  return {
    title: 'continues idleConversations as new',
    activities: { readIdleConversations: respond },
    run: async () => expectRenewed((await start('idleConversations', input)).workflowId),
    check: () => expect(inputs).toEqual(times(9, input)),
  };
}

function createVideoOperation(): Scenario {
  const input = { call_id: randomUUID() };
  const { inputs, respond } = responding<VideoPollResult>(...times(6, { ...wait, unreachable: false }), {
    kind: 'settled',
    outcome: 'completed',
    code: null,
  });
  return {
    title: 'continues videoOperation as new',
    activities: { pollVideo: respond },
    run: async () => expectRenewed((await start('videoOperation', input)).workflowId),
    check: () => expect(inputs).toEqual(times(7, input)),
  };
}

function createEmbedMemory(): Scenario {
  const input = { project_id: randomUUID(), run: 2 };
  const { inputs, respond } = responding<EmbedProgress>(...times(12, more), { kind: 'done', passages: 0 });
  return {
    title: 'keeps the description of embedMemory in every run',
    activities: { embedPassages: respond },
    async run() {
      const { workflowId } = await start('embedMemory', input, { projectId: input.project_id, projectSlug: 'acme' });
      await expectRenewed(workflowId);
      await expectDescribed(workflowId);
    },
    check: () => expect(inputs).toEqual(times(13, input)),
  };
}

/** The server gives a continued run no static summary, so the memo repeats it. */
async function expectDescribed(workflowId: string): Promise<void> {
  const runs: WorkflowExecutionDescription[] = [];
  for await (const { runId } of temporal.client.workflow.list({ query: `WorkflowId = "${workflowId}"` }))
    runs.push(await temporal.client.workflow.getHandle(workflowId, runId).describe());
  const [first, ...others] = runs.toSorted((left, right) => left.startTime.getTime() - right.startTime.getTime());
  expect(others.length).toBeGreaterThan(0);
  expect(await first?.staticSummary()).toBe('acme: compute embeddings, run 2');
  expect(await first?.staticDetails()).toContain('- Project: acme (');
  for (const { memo } of runs) expect(memo).toEqual({ summary: 'acme: compute embeddings, run 2' });
}

function createDailyCleanup(): Scenario {
  const steps = Array.from({ length: 12 }, (_, n) => `step-${n}`);
  const { inputs, respond } = responding(...[...steps, null].map((next) => ({ step: null, next, rows: 1 })));
  return {
    title: 'continues dailyCleanup with the step that it had reached',
    activities: { cleanUp: respond },
    run: async () => expectRenewed((await start('dailyCleanup', { step: null })).workflowId),
    check: () => expect(inputs).toEqual([null, ...steps].map((step) => ({ step }))),
  };
}

function createSubjectErasure(): Scenario {
  const input = { erasure_id: randomUUID() };
  const checks = responding<ErasureStatus>(...times(6, wait), { kind: 'clear' });
  const purges = responding<Progress>(...times(12, more), { kind: 'done' });
  const ends = responding(null);
  const finishErasure = async (given: unknown): Promise<void> => void (await ends.respond(given));
  return {
    title: 'finishes subjectErasure only once',
    activities: { lookAtErasure: checks.respond, purgeErasedRuns: purges.respond, finishErasure },
    run: async () => expectRenewed((await start('subjectErasure', input)).workflowId),
    check() {
      expect(purges.inputs).toEqual(times(13, input));
      expect(ends.inputs).toEqual([input]);
    },
  };
}

function createProjectLearning(): Scenario {
  let seen = 0;
  return {
    title: 'loses no signal of projectLearning',
    activities: {
      async lookAtLearning() {
        seen += 1;
        return { kind: seen < 20 ? 'running' : 'gone' };
      },
    },
    async run() {
      const { workflowId, signalAgain } = await start('projectLearning', { project_id: randomUUID() });
      while (seen < 20) {
        const before = seen;
        await signalAgain();
        await until('it checks', () => seen > before);
      }
      await expectRenewed(workflowId);
    },
    check: () => expect(seen).toBe(20),
  };
}

function createLearningBatch(): Scenario {
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
      // In the database, a step that has settled never changes again.
      if (!settled.includes(`${name} ${position}`)) settled.push(`${name} ${position}`);
      return { kind: 'settled' };
    };
  const isOpen = (position: number): boolean => !settled.includes(`consolidate ${position}`);
  const open = (): number[] => [...waits.keys()].filter(isOpen);
  return {
    title: 'repeats each step of learningBatch until it is settled',
    activities: {
      openBatch: async () => ({ groups: open().map((position) => ({ position, waitMs: 0, attempts: 0 })), total: waits.size }),
      learnGroup: stepOf('learn'),
      consolidateGroup: stepOf('consolidate'),
      finishBatch: async () => (open().length === 0 ? { finished: true, batch: null, runId: '' } : { finished: false, runId: '' }),
    },
    run: async () => expectRenewed((await start('learningBatch', input)).workflowId),
    check() {
      const groups = [...waits.keys()];
      expect(settled.toSorted()).toEqual(['consolidate', 'learn'].flatMap((name) => groups.map((position) => `${name} ${position}`)));
      for (const position of groups) expect(settled.indexOf(`learn ${position}`)).toBeLessThan(settled.indexOf(`consolidate ${position}`));
    },
  };
}

const scenarios = [
  createConversationIdle(),
  createIdleConversations(),
  createVideoOperation(),
  createEmbedMemory(),
  createDailyCleanup(),
  createSubjectErasure(),
  createProjectLearning(),
  createLearningBatch(),
];

let server: TemporalServer;
let temporal: Temporal;
let worker: RunningWorker;
beforeAll(async () => {
  server = await createTemporalServer({
    'limit.historyCount.suggestContinueAsNew': 30,
    // By default a server rejects more than 50 list requests per second.
    'frontend.namespaceRPS.visibility': 1_000,
  });
  temporal = createTemporal({ address: server.address, namespace: 'default', logger: createTestLog().logger });
  await temporal.probe();
  const activities: Partial<Activities> = Object.assign({}, ...scenarios.map((scenario) => scenario.activities));
  const bundle = (signal: AbortSignal): Promise<string> => prepareTestBundle(signal);
  worker = temporal.startWorker({ activities, bundle, graceMs: 1_000 });
});
afterAll(async () => {
  await worker?.stop();
  await temporal?.close();
  await server?.remove();
});

const completed = startTogether(scenarios, (scenario) => scenario.run());

test.each(scenarios)('$title', async (scenario) => {
  await completed(scenario);
  scenario.check();
});
