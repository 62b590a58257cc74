/**
 * kill -9 of the worker in the middle of each activity: when what it does is about to be committed, and when it is committed and Temporal does
 * not know yet. Each death befalls a project of its own; in the end its rows are those of a project that nothing befell. Deaths while a model
 * is asked are in learning-kill.test.ts, while a video is made in video-processes.test.ts.
 */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Activities } from '../../workflows/contract.ts';
import { createDoomedService, type DoomedService, type Project } from '../support/crash-service.ts';
import { eventually } from '../support/gateway.ts';
import { describePostgres } from '../support/postgres.ts';
import { openWorkOf, rowsOf } from '../support/project-rows.ts';

/** What somebody asks for. */
type Work = 'cleanup' | 'embedding' | 'erasure' | 'learning' | 'video';

/** Of each activity: what leads to it, and the points at which its worker dies (test/support/crash-worker.ts). */
const table: Readonly<Record<keyof Activities, readonly [Work, ...string[]]>> = {
  // Temporal tries these again after a minute and a half: the others die meanwhile.
  embedPassages: ['embedding', 'before memory_passages', 'before memory_embeddings', 'after'],
  cleanUp: ['cleanup', 'before conversations', 'before memory_items', 'after'],
  lookAtErasure: ['erasure', 'before erasures', 'after'],
  purgeErasedRuns: ['erasure', 'before erasure_runs', 'before erasures', 'after'],
  finishErasure: ['erasure', 'before erasures', 'after'],
  readConversation: ['learning', 'before conversations', 'after'],
  lookAtLearning: ['learning', 'before memory_batches', 'after'],
  openBatch: ['learning', 'after'],
  learnGroup: ['learning', 'before memory_batch_groups', 'before memory_items', 'after'],
  consolidateGroup: ['learning', 'before memory_batch_groups', 'before memory_pages', 'after'],
  finishBatch: ['learning', 'before memory_batches', 'after'],
  pollVideo: ['video', 'before videos', 'after'],
};
const works: readonly Work[] = ['cleanup', 'embedding', 'erasure', 'learning', 'video'];
const deaths = Object.entries(table).flatMap(([activity, [work, ...points]]) =>
  points.map((point) => ({ activity: activity as keyof Activities, point, work })),
);

/** What has to be there before anything is asked for: something to be erased or cleaned up, with a run in Temporal; vectors of before. */
async function arrange(service: DoomedService, work: Work, slug: string): Promise<Project> {
  const project = await service.addProject(slug, work === 'embedding' ? { tiers: { embed: ['one/vectors'] } } : {});
  await service.serving.admin('PUT', `/provision/teams/${slug}/memory`, { batch_of: work === 'learning' ? 2 : 1_000 });
  if (work === 'learning' || work === 'video') return project;
  await say(project, `Greetings from ${slug}`, work === 'erasure' ? 'ada' : null);
  if (work !== 'cleanup') return project;
  for (const text of ['to be kept', 'to be removed']) expect((await project.call('/v1/memory/items', { text })).status).toBe(201);
  return project;
}

const ask: Readonly<Record<Work, (service: DoomedService, project: Project) => Promise<unknown>>> = {
  async cleanup({ database, serving, temporal }, { id, slug }) {
    await database.query(
      `update memory_items set state = 'closed', closed_at = now() - interval '3 days' where project_id = $1::uuid and text = 'to be removed'`,
      [id],
    );
    await database.query(`update conversations set last_turn_at = now() - interval '3 days' where project_id = $1::uuid`, [id]);
    await serving.admin('PUT', `/provision/teams/${slug}/memory`, { delete_conversations_after_days: 1 });
    // Beside the run that waits for its next try.
    await temporal.client.schedule.getHandle('daily-cleanup').trigger('ALLOW_ALL');
  },
  async embedding(_, { slug, call }) {
    expect((await call('/v1/memory/items', { text: `Notes of ${slug}` })).status).toBe(201);
  },
  async erasure(_, { erase }) {
    expect((await erase('ada')).status).toBe(200);
  },
  learning: (_, project) => say(project, `I live in ${project.slug}.`, 'ada'),
  async video(_, { call }) {
    const wish = { prompt: 'a cat', model: 'film/clip:video-polls-0', duration_seconds: 4 };
    expect((await call('/v1/video/generations', wish)).status).toBe(200);
  },
};

async function say({ call }: Project, content: string, subject: string | null): Promise<void> {
  const body = { model: 'one/echo', messages: [{ role: 'user', content }] };
  const answer = await call('/v1/chat/completions', body, subject === null ? {} : { 'x-gateway-memory-subject': subject });
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining(content)]);
  // It answers when the call is stored.
  expect((await call('/usage/me')).status).toBe(200);
}

describePostgres('kill -9 of the worker', () => {
  let service: DoomedService;
  /** Nothing is killed while these are worked for. */
  const calm = new Map<Work, Project>();
  /** By their deaths. */
  const struck = new Map<string, Project>();
  /** Which activities there are, and the points that were passed without a death. */
  let activities: readonly string[] = [];
  const passed = new Set<string>();

  /** The cleanup is nobody's own: one project lives through its deaths. */
  const nameOf = ({ activity, point, work }: (typeof deaths)[number]): string => (work === 'cleanup' ? activity : `${activity} ${point}`);
  const untilDone = (projects: readonly Project[], limitMs: number): Promise<void> =>
    eventually(async () => {
      const open = await Promise.all(projects.map((project) => openWorkOf(service.database, project)));
      expect(open.flat()).toEqual([]);
    }, limitMs);

  beforeAll(async () => {
    service = await createDoomedService();
    let n = 10;
    for (const work of works) calm.set(work, await arrange(service, work, `p-${n++}`));
    for (const death of deaths) if (!struck.has(nameOf(death))) struck.set(nameOf(death), await arrange(service, death.work, `p-${n++}`));
    const worker = await service.startNoting();
    await untilDone([...calm.values(), ...struck.values()], 100_000);
    // Nothing is cleaned up but when it is asked for.
    await service.temporal.client.schedule.getHandle('daily-cleanup').pause();
    for (const [work, project] of calm) await ask[work](service, project);
    await untilDone([...calm.values()], 100_000);
    expect(await worker.end('SIGTERM')).toBe(0);
    for (const line of worker.logs()) {
      if (line.msg === 'passed') passed.add(`${line.activity} ${line.point}`);
      if (line.msg === 'activities') activities = line.activities as string[];
    }
  }, 300_000);
  afterAll(() => service?.takeBack());

  it('is shown for every activity that a worker runs, before what it writes', () => {
    expect(activities.toSorted()).toEqual(Object.keys(table).toSorted());
    for (const { activity, point } of deaths) expect(passed).toContain(`${activity} ${point}`);
    const writing = new Set([...passed].filter((point) => point.includes(' before ')).map((point) => point.split(' ')[0]));
    expect(new Set(deaths.filter(({ point }) => point !== 'after').map(({ activity }) => activity))).toEqual(writing);
  });

  it.each(deaths)(
    'in $activity $point',
    async (death) => {
      const project = struck.get(nameOf(death));
      if (!project) throw new Error('it has no project');
      await ask[death.work](service, project);
      await service.runUntil({ ...death, projectId: death.work === 'cleanup' ? null : project.id });
    },
    300_000,
  );

  it('leaves nothing undone, no run that failed, and every row as if it had not been', async () => {
    const { database, temporal } = service;
    const worker = await service.startWorker();
    await untilDone([...struck.values()], 500_000);
    const rows = async (project: Project | undefined) => project && rowsOf(database, project);
    for (const death of deaths) expect([death, await rows(struck.get(nameOf(death)))]).toEqual([death, await rows(calm.get(death.work))]);
    const idsOf = async (query: string): Promise<string[]> => {
      const ids: string[] = [];
      for await (const { workflowId } of temporal.client.workflow.list({ query })) ids.push(workflowId);
      return ids;
    };
    await eventually(async () => {
      const others = (await idsOf('ExecutionStatus = "Running"')).filter((id) => !/^learning\/[^/]+$/.test(id));
      expect(others).toEqual([]);
    }, 300_000);
    expect(await idsOf('ExecutionStatus IN ("Failed", "Terminated", "TimedOut", "Canceled")')).toEqual([]);
    expect(await worker.end('SIGTERM')).toBe(0);
  }, 900_000);

  it('asks no model for what is finished, and each question that was asked is on the books', async () => {
    const { asked, database } = service;
    expect(asked.filter(({ isOpen }) => !isOpen)).toEqual([]);
    const countOf = (...jobs: string[]): number => asked.filter(({ job }) => jobs.includes(job)).length;
    // More is possible: a process may die when it has written that it will ask, and has not asked.
    await eventually(async () => {
      const [books] = await database.query<{ calls: number }>(
        `select count(*)::integer as calls from calls where source = 'gateway-memory'`,
      );
      expect(books?.calls).toBeGreaterThanOrEqual(countOf('memories', 'consolidation', 'embeddings'));
    }, 60_000);
    const [tries] = await database.query<{ n: number }>('select sum(attempts)::integer as n from memory_batch_groups');
    expect(tries?.n).toBeGreaterThanOrEqual(countOf('memories', 'consolidation'));
  });
});
