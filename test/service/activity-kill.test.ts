/**
 * Kills the worker with kill -9 at each activity. This happens when the activity is about to commit its write, and
 * again when it has committed but Temporal doesn't have the result yet. A single kill stops activities of several
 * projects, each at its own point, and a project may crash once in each kill. At the end, its rows have to equal those
 * of a project without a crash. Crashes during a model call are tested in learning-kill.test.ts, and crashes during a
 * video in video-processes.test.ts.
 */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/client';
import { type Activities, wakeSignal } from '../../workflows/contract.ts';
import { type CrashService, createCrashService, type Project } from '../support/crash-service.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { describePostgres } from '../support/postgres.ts';
import { openWorkOf, rowsOf } from '../support/project-rows.ts';

/** Work that a request causes. */
type Work = 'cleanup' | 'embedding' | 'erasure' | 'learning' | 'replay' | 'reset' | 'video';
/** Only runs of older versions call `readConversation`. */
type Point = `${Exclude<keyof Activities, 'readConversation'>} ${'after' | `before ${string}`}`;

/**
 * For each kind of work, the points at which it crashes (see test/support/crash-worker.ts). Each list belongs to one
 * project, which crashes at its first point in the first kill, at its second point in the second kill, and so on. There
 * are few projects and few kills, because a project costs a second of CPU time, and the worker of a kill several.
 *
 * The work may not get past a point before its kill, so it has to need the result of the activity that crashed in the
 * kill before. A batch doesn't need the results of `readIdleConversations` and `lookAtLearning`, for example. Embedding
 * waits a minute after a crash, so each of its projects only crashes once. The cleanup is about all projects, so it can
 * only crash once in each kill. A kill must have fewer crashes than a worker has activity slots and connections.
 */
const projects: Readonly<Record<Work, readonly (readonly Point[])[]>> = {
  cleanup: [['cleanUp before conversations', 'cleanUp before memory_items', 'cleanUp after']],
  embedding: [['embedPassages before memory_passages'], ['embedPassages before memory_embeddings'], ['embedPassages after']],
  erasure: [
    ['lookAtErasure before erasures', 'lookAtErasure after', 'purgeErasedRuns before erasure_runs'],
    ['purgeErasedRuns before erasures', 'purgeErasedRuns after', 'finishErasure before erasures'],
    ['finishErasure after'],
  ],
  learning: [
    ['readIdleConversations before conversations', 'lookAtLearning before memory_batches', 'lookAtLearning after'],
    ['readIdleConversations after'],
    ['openBatch after', 'learnGroup before memory_batch_groups', 'learnGroup before memory_items'],
    ['learnGroup after', 'consolidateGroup before memory_batch_groups', 'consolidateGroup before memory_pages'],
    ['consolidateGroup after', 'finishBatch before memory_batches', 'finishBatch after'],
  ],
  replay: [['replayBatches before memory_batches', 'replayBatches after']],
  // Only the first activity after a reset writes to this table.
  reset: [['openBatch before memory_batches']],
  video: [['pollVideo before videos', 'pollVideo after']],
};
const works = Object.keys(projects) as readonly Work[];

interface Crash {
  readonly activity: keyof Activities;
  readonly point: string;
  readonly work: Work;
  /** The name of its project. */
  readonly project: string;
  readonly kill: number;
}
const crashes: readonly Crash[] = works.flatMap((work) =>
  projects[work].flatMap((points, index) =>
    points.map((point, kill) => {
      const [activity, ...rest] = point.split(' ');
      return { activity: activity as keyof Activities, point: rest.join(' '), work, project: `${work} ${index}`, kill };
    }),
  ),
);

/** Creates a project with everything that the work needs, such as data to erase or vectors to replace. */
async function arrange(service: CrashService, work: Work, slug: string): Promise<Project> {
  const project = await service.addProject(slug, work === 'embedding' ? { tiers: { embed: ['one/vectors'] } } : {});
  await service.serving.admin('PUT', `/provision/teams/${slug}/memory`, {
    batch_of: ['learning', 'replay', 'reset'].includes(work) ? 2 : 1_000,
  });
  if (work === 'learning' || work === 'video') return project;
  if (work === 'replay' || work === 'reset') {
    await say(project, `I live in ${project.slug}.`, 'ada');
    return project;
  }
  await say(project, `Greetings from ${slug}`, work === 'erasure' ? 'ada' : null);
  if (work !== 'cleanup') return project;
  for (const text of ['to be kept', 'to be removed']) expect((await project.call('/v1/memory/items', { text })).status).toBe(201);
  return project;
}

/**
 * Makes the batch of the project, which has learned before, look as if it had been given up. Returns its workflow id.
 */
async function giveUp({ database }: CrashService, { id }: Project): Promise<string> {
  await database.query(`update memory_batch_groups set state = 'failed' where project_id = $1::uuid`, [id]);
  const [batch] = await database.query<{ id: string }>(
    `update memory_batches set state = 'failed' where project_id = $1::uuid returning id`,
    [id],
  );
  return `learning/${id}/batch/${batch?.id}`;
}

const requestWork: Readonly<Record<Work, (service: CrashService, project: Project) => Promise<unknown>>> = {
  async cleanup({ database, temporal }, { id }) {
    await database.query(
      `update memory_items set state = 'closed', closed_at = now() - interval '3 days' where project_id = $1::uuid and text = 'to be removed'`,
      [id],
    );
    await database.query(`update conversations set last_turn_at = now() - interval '3 days' where project_id = $1::uuid`, [id]);
    // We write the period to the database, because a change through the API would take effect only after a day.
    await database.query(
      `update memory_settings set settings = settings || '{"delete_conversations_after_days": 1}' where project_id = $1::uuid`,
      [id],
    );
    // Runs in parallel with the run that waits for its retry.
    await temporal.client.schedule.getHandle('daily-cleanup').trigger('ALLOW_ALL');
  },
  async embedding(_, { slug, call }) {
    expect((await call('/v1/memory/items', { text: `Notes of ${slug}` })).status).toBe(201);
  },
  async erasure(_, { erase }) {
    expect((await erase('ada')).status).toBe(200);
  },
  learning: (_, project) => say(project, `I live in ${project.slug}.`, 'ada'),
  async replay(service, project) {
    await giveUp(service, project);
    await service.temporal.client.workflow.getHandle(`learning/${project.id}`).signal('replay');
  },
  async reset(service, project) {
    const workflowId = await giveUp(service, project);
    await service.resetToStart(workflowId);
  },
  async video(_, { call }) {
    const request = { prompt: 'a cat', model: 'film/clip:video-polls-0', duration_seconds: 4 };
    expect((await call('/v1/video/generations', request)).status).toBe(200);
  },
};

async function say({ call }: Project, content: string, subject: string | null): Promise<void> {
  const body = { model: 'one/echo', messages: [{ role: 'user', content }] };
  const answer = await call('/v1/chat/completions', body, subject === null ? {} : { 'x-gateway-memory-subject': subject });
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining(content)]);
  // The response waits until the call is stored.
  expect((await call('/usage/me')).status).toBe(200);
}

describePostgres('kill -9 of the worker', () => {
  let service: CrashService;
  /** The projects without a crash. */
  const calm = new Map<Work, Project>();
  /** The projects with crashes, by name. */
  const crashed = new Map<string, Project>();
  /** The names of all activities, and the points that a worker passed without a crash. */
  let activities: readonly string[] = [];
  const passed = new Set<string>();
  /** The last worker, which isn't killed, and a project whose run was terminated before it started. */
  let lastWorker: GatewayProcess | undefined;
  let ended: Project | undefined;

  const untilDone = (projects: readonly Project[], limitMs?: number): Promise<void> =>
    eventually(async () => {
      expect(await openWorkOf(service.database, projects)).toEqual([]);
    }, limitMs);

  const idsOf = async (query: string): Promise<string[]> => {
    const ids: string[] = [];
    for await (const { workflowId } of service.temporal.client.workflow.list({ query })) ids.push(workflowId);
    return ids;
  };

  /** Wakes runs that wait for a minute after a crash, as an operator would. All others retry after a second. */
  async function endRetryDelays(): Promise<void> {
    for (const id of await idsOf('ExecutionStatus = "Running" AND WorkflowType IN ("embedMemory", "dailyCleanup")')) {
      const run = service.temporal.client.workflow.getHandle(id);
      await eventually(async () => {
        const { events } = await run.fetchHistory();
        // A run that hasn't crashed may finish without ever starting a timer.
        expect(events?.some((event) => event.timerStartedEventAttributes ?? event.workflowExecutionCompletedEventAttributes)).toBe(true);
      });
      await run.signal(wakeSignal).catch((error: unknown) => {
        if (!(error instanceof WorkflowNotFoundError)) throw error;
      });
    }
  }

  beforeAll(async () => {
    service = await createCrashService();
    let n = 10;
    for (const work of works) calm.set(work, await arrange(service, work, `p-${n++}`));
    for (const { project, work } of crashes) if (!crashed.has(project)) crashed.set(project, await arrange(service, work, `p-${n++}`));
    const worker = await service.startObserver();
    await untilDone([...calm.values(), ...crashed.values()]);
    // The cleanup runs on request only.
    await service.temporal.client.schedule.getHandle('daily-cleanup').pause();
    for (const [work, project] of calm) await requestWork[work](service, project);
    await untilDone([...calm.values()]);
    expect(await worker.end('SIGTERM')).toBe(0);
    for (const line of worker.logs()) {
      if (line.msg === 'passed') passed.add(`${line.activity} ${line.point}`);
      if (line.msg === 'activities') activities = line.activities as string[];
    }
  });
  afterAll(() => service?.stopAll());

  it('has a crash point before each database write of every activity', () => {
    expect(new Set(activities)).toEqual(new Set([...crashes.map(({ activity }) => activity), 'readConversation']));
    for (const { activity, point } of crashes) expect(passed).toContain(`${activity} ${point}`);
    const writing = new Set([...passed].filter((point) => point.includes(' before ')).map((point) => point.split(' ')[0]));
    expect(new Set(crashes.filter(({ point }) => point !== 'after').map(({ activity }) => activity))).toEqual(writing);
  });

  it('kills the worker at every crash point', async () => {
    for (const kill of [0, 1, 2]) {
      const points = await Promise.all(
        crashes
          .filter((crash) => crash.kill === kill)
          .map(async ({ activity, point, work, project: name }) => {
            const project = crashed.get(name);
            if (!project) throw new Error('the crash has no project');
            // Temporal retries whatever crashed, but the cleanup only after half a minute, so request it again.
            if (kill === 0 || work === 'cleanup') await requestWork[work](service, project);
            return { activity, point, projectId: work === 'cleanup' ? null : project.id };
          }),
      );
      await service.runUntilCrash(points);
    }
  });

  it('stops a learning batch whose run was terminated while no worker was running', async () => {
    const { database, serving, temporal } = service;
    const project = await service.addProject('ended');
    ended = project;
    await say(project, 'I live in ended.', 'ada');
    const [conversation] = await database.query<{ id: string }>('select id from conversations where project_id = $1::uuid', [project.id]);
    const { batch_id: batchId } = await jsonOf<{ batch_id: string }>(project.call(`/v1/memory/episodes/${conversation?.id}/remember`, {}));
    const run = temporal.client.workflow.getHandle(`learning/${project.id}/batch/${batchId}`);
    await eventually(() => run.terminate()); // Resolves once the API process has started it.
    lastWorker = await service.startWorker();
    const untilState = (state: string): Promise<void> =>
      eventually(
        async () => expect(await jsonOf(serving.admin('GET', `/provision/batches/${batchId}`))).toMatchObject({ state, project: 'ended' }),
        600_000,
      );
    await untilState('stopped');
    expect((await serving.admin('POST', `/provision/batches/${batchId}/replay`)).status).toBe(202);
    await untilState('done');
  });

  it('stores the same rows after a crash as without one', async () => {
    const { database } = service;
    await endRetryDelays();
    await untilDone([...crashed.values()], 600_000);
    const rows = async (project: Project | undefined) => project && rowsOf(database, project);
    for (const crash of crashes) expect([crash, await rows(crashed.get(crash.project))]).toEqual([crash, await rows(calm.get(crash.work))]);
    await eventually(async () => {
      const others = (await idsOf('ExecutionStatus = "Running"')).filter((id) => !/^learning\/[^/]+$/.test(id));
      expect(others).toEqual([]);
    });
    const unsuccessful = await idsOf('ExecutionStatus IN ("Failed", "Terminated", "TimedOut", "Canceled")');
    expect(unsuccessful.filter((id) => !id.startsWith(`learning/${ended?.id}/`))).toEqual([]);
    expect(await lastWorker?.end('SIGTERM')).toBe(0);
  });

  it("doesn't repeat a request to the memory model that finished before the crash", async () => {
    const { requests: asked, database } = service;
    expect(asked.filter(({ isOpen }) => !isOpen)).toEqual([]);
    const countOf = (...jobs: string[]): number => asked.filter(({ job }) => jobs.includes(job)).length;
    // There may be more records than requests, because a process may crash between the two.
    await eventually(async () => {
      const [records] = await database.query<{ calls: number }>(
        `select count(*)::integer as calls from calls where source = 'gateway-memory'`,
      );
      expect(records?.calls).toBeGreaterThanOrEqual(countOf('memories', 'consolidation', 'embeddings'));
    });
    const [tries] = await database.query<{ n: number }>('select sum(attempts)::integer as n from memory_batch_groups');
    expect(tries?.n).toBeGreaterThanOrEqual(countOf('memories', 'consolidation'));
  });
});
