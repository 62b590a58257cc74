/**
 * Tests what operators do with runs in Temporal (reset, signal, cancel, terminate) and through the API. Each message is
 * still learned and paid for exactly once.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import proto from '@temporalio/proto';
import { reenqueueLearning } from '../../src/memory/triggers/learning-triggers.ts';
import { createTemporal, type Temporal } from '../../src/temporal/client/temporal.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { createMemoryVendor } from '../support/memory-vendor.ts';
import { startTogether } from '../support/start-together.ts';
import { createTestLog, readServerRecord } from '../support/temporal.ts';

const { EVENT_TYPE_WORKFLOW_TASK_COMPLETED: taskCompleted } = proto.temporal.api.enums.v1.EventType;

interface Batch {
  readonly id: string;
  readonly state: string;
  readonly workflow_id: string;
  readonly attempts: number;
  readonly cost: number;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly run_url: string;
}

/** Picks the first, the middle and the last point, or all of them in exhaustive runs. */
const sample = (points: readonly number[]): readonly number[] =>
  isExhaustive ? points : [...new Set([0, points.length >> 1, points.length - 1])].flatMap((place) => points[place] ?? []);

const vendor = await createMemoryVendor();
afterAll(() => vendor.close());

describe('operator actions in Temporal', () => {
  const shared = shareGateway({ database: 'any', temporal: true, yaml: () => vendor.yaml.replace('factor: 2', 'factor: 1') });
  let temporal: Temporal;
  let namespace = '';
  beforeAll(async () => {
    const durable = shared().app.startDurable();
    await eventually(async () => expect(durable.state()).toBe('ready'));
    const server = await readServerRecord(shared().dataDir);
    namespace = server.namespace;
    temporal = createTemporal({ ...server, logger: createTestLog().logger });
  });
  afterAll(async () => {
    await temporal?.close();
  });

  async function lend(slug: string, batchOf = 2): Promise<TestGateway & { readonly learningId: string }> {
    const gateway = await shared().withProject(slug);
    await gateway.admin('PUT', `/provision/teams/${slug}/memory`, { batch_of: batchOf });
    const [row] = await gateway.database.query<{ id: string }>('select id from projects where slug = $1::text', [slug]);
    return { ...gateway, learningId: `learning/${row?.id}` };
  }
  async function say(gateway: TestGateway, subject: string, text: string): Promise<void> {
    const body = { model: 'standard', messages: [{ role: 'user', content: text }] };
    const response = await gateway.call('/v1/chat/completions', body, { 'x-gateway-memory-subject': subject });
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  }
  const batchesOf = async ({ admin, project }: TestGateway): Promise<readonly Batch[]> =>
    (await jsonOf<{ data: Batch[] }>(admin('GET', `/provision/teams/${project}/batches`))).data;
  /** Returns the newest batch once all batches of the project are done. */
  const untilDone = (gateway: TestGateway, count: number): Promise<Batch> =>
    eventually(async () => {
      const batches = await batchesOf(gateway);
      expect(batches.map(({ state }) => state)).toEqual(Array.from({ length: count }, () => 'done'));
      const [newest] = batches;
      if (!newest) throw new Error('there is no batch');
      return newest;
    });
  const memoriesOf = async ({ database, project }: TestGateway): Promise<readonly string[]> => {
    const rows = await database.query<{ text: string }>(
      `select text from memory_items where state = 'live' and project_id = (select id from projects where slug = $1::text) order by text`,
      [project],
    );
    return rows.map(({ text }) => text);
  };
  const untilAsked = (job: 'memories' | 'consolidation', text: string, count: number): Promise<void> =>
    eventually(async () => expect(vendor.count(job, text)).toBeGreaterThanOrEqual(count));

  const handleOf = (workflowId: string, runId?: string) => temporal.client.workflow.getHandle(workflowId, runId);
  const runOf = async (workflowId: string): Promise<string> => (await handleOf(workflowId).describe()).runId;
  /** Returns the completed workflow tasks in the history, which are the points to which Temporal can reset a run. */
  async function resetPointsOf(workflowId: string, runId?: string): Promise<readonly number[]> {
    const { events } = await handleOf(workflowId, runId).fetchHistory();
    return (events ?? []).filter(({ eventType }) => eventType === taskCompleted).map(({ eventId }) => Number(eventId));
  }
  /** Returns the run that did the work. A late check starts another run that finds nothing to do. */
  const findWorkingRun = (workflowId: string): Promise<string> =>
    eventually(async () => {
      for await (const { runId, status } of temporal.client.workflow.list({ query: `WorkflowId = "${workflowId}"` }))
        if (status.name === 'COMPLETED' && (await resetPointsOf(workflowId, runId)).length > 3) return runId;
      throw new Error('no run of the batch that did its work is listed');
    });
  /** Resets a run like the web UI and `temporal workflow reset` do. Returns the new run. */
  async function reset(workflowId: string, runId: string, point: number): Promise<string> {
    const response = await temporal.client.workflowService.resetWorkflowExecution({
      namespace,
      workflowExecution: { workflowId, runId },
      reason: 'an operator wants it',
      workflowTaskFinishEventId: proto.temporal.api.history.v1.HistoryEvent.fromObject({ eventId: point }).eventId,
      requestId: randomUUID(),
    });
    return response.runId;
  }
  /** Waits until the run has a timer, which means that it waits for the call of the run before it. */
  const untilRunWaits = (workflowId: string, runId?: string): Promise<void> =>
    eventually(async () => {
      const { events } = await handleOf(workflowId, runId).fetchHistory();
      expect(events?.some(({ timerStartedEventAttributes: timer }) => timer)).toBe(true);
    });
  const cases = new Map<string, () => Promise<void>>();
  /** Declares a test that runs at the same time as others, so that their waits overlap. Each has its own project. */
  const runTogether = (title: string, work: () => Promise<void>): void => void cases.set(title, work);

  /** Ends the current run. */
  async function endRun(workflowId: string, end: 'terminate' | 'cancel'): Promise<void> {
    const run = handleOf(workflowId, await runOf(workflowId));
    await run[end]();
    const name = end === 'cancel' ? 'CANCELLED' : 'TERMINATED';
    await eventually(async () => expect((await run.describe()).status.name).toBe(name));
  }

  runTogether("doesn't repeat any work when a finished batch is reset", async () => {
    const gateway = await lend('reset-done', 4);
    await say(gateway, 'ann', 'I live in Oslo.');
    await say(gateway, 'ben', 'I live in Bergen.');
    const batch = await eventually(async () => {
      const done = await untilDone(gateway, 1);
      // There are two calls per group, whose cost is stored a moment later.
      expect(done.cost).toBeGreaterThanOrEqual(0.00006);
      return done;
    });
    const id = batch.workflow_id;
    const runId = await findWorkingRun(id);
    for (const point of sample(await resetPointsOf(id, runId))) await handleOf(id, await reset(id, runId, point)).result();
    for (const town of ['Oslo', 'Bergen']) expect([vendor.count('memories', town), vendor.count('consolidation', town)]).toEqual([1, 1]);
    expect(await memoriesOf(gateway)).toEqual(['I live in Bergen.', 'I live in Oslo.']);
    expect(await batchesOf(gateway)).toEqual([batch]);
  });

  /** Starts one batch per sentence, and makes the vendor reject their requests until all batches have failed. */
  async function failBatches(
    gateway: TestGateway,
    sentences: readonly string[],
    hasFailed: (batch: Batch) => boolean,
  ): Promise<{ readonly failing: readonly Batch[]; readonly accept: () => void }> {
    const { call, database, admin, project } = gateway;
    await admin('PUT', `/provision/teams/${project}/memory`, { batch_of: 1_000 });
    const failures = sentences.map((text) => vendor.fail('memories', text, () => ({ status: 422, message: `will not read ${text}` })));
    await Promise.all(sentences.map((text) => say(gateway, text, text)));
    await call('/usage/me'); // Waits until the calls are stored.
    const batches = await Promise.all(
      sentences.map(async (text) => {
        const [conversation] = await database.query<{ id: string }>('select id from conversations where subject = $1::text', [text]);
        return jsonOf<{ batch_id: string }>(call(`/v1/memory/episodes/${conversation?.id}/remember`, {}));
      }),
    );
    const failing = await eventually(async () => {
      const listed = new Map((await batchesOf(gateway)).map((batch) => [batch.id, batch]));
      const found = batches.flatMap(({ batch_id }) => listed.get(batch_id) ?? []);
      expect(found.map(hasFailed)).toEqual(sentences.map(() => true));
      return found;
    });
    const accept = (): void => {
      for (const failure of failures) failure.end();
    };
    return { failing, accept };
  }

  /**
   * Parks batches whose first request was rejected. An older version did this after five unusable responses, but each of
   * them takes Temporal a second of CPU time.
   */
  async function park(gateway: TestGateway, sentences: readonly string[]): Promise<readonly Batch[]> {
    const { failing: parked, accept } = await failBatches(gateway, sentences, ({ error }) => error !== null);
    await gateway.database.query(
      `update memory_batch_groups set state = 'failed', next_try_at = null where batch_id = any ($1::uuid[]) and state = 'waiting'`,
      [parked.map(({ id }) => id)],
    );
    for (const { workflow_id } of parked) await handleOf(workflow_id).signal('look');
    for (const { workflow_id } of parked)
      await handleOf(workflow_id)
        .result()
        .catch(() => undefined);
    accept();
    return parked;
  }

  /**
   * Expects at least this many rejected requests, one usable response and one consolidation, and a record of each of
   * these calls. On a busy machine, the vendor may reject a batch once more before all batches have failed.
   */
  async function expectLearnedOnce(gateway: TestGateway, { id }: Batch, text: string, rejected = 1): Promise<void> {
    await eventually(async () => {
      const batch = await jsonOf<Batch>(gateway.admin('GET', `/provision/batches/${id}`));
      expect(batch).toMatchObject({ state: 'done', error: null, memories: { written: 1, repeated: 0 } });
      const calls = await gateway.database.query<{ outcome: string }>(
        `select outcome from calls join memory_batch_groups part on calls.id = any(part.call_ids) where part.batch_id = $1::uuid order by 1`,
        [id],
      );
      const refused = calls.slice(2);
      expect(calls.map(({ outcome }) => outcome)).toEqual(['ok', 'ok', ...refused.map(() => 'refused')]);
      expect(refused.length).toBeGreaterThanOrEqual(rejected);
      expect(batch.attempts).toBe(calls.length);
      expect([vendor.count('memories', text), vendor.count('consolidation', text)]).toEqual([1 + refused.length, 1]);
    });
    expect((await memoriesOf(gateway)).filter((memory) => memory === text)).toEqual([text]);
  }

  runTogether('finishes a parked batch of an older version when its run is reset', async () => {
    const gateway = await lend('reset-parked');
    const towns = (isExhaustive ? 'ABCDEFGHIJKLMNOP' : 'ABC').split('').map((letter) => `I live in ${letter}ville.`);
    const parked = await park(gateway, towns);
    const resetTo = new Set<number>();
    await Promise.all(
      parked.map(async (batch, index) => {
        const id = batch.workflow_id;
        const { runId, status } = await handleOf(id).describe();
        expect(status.name).toBe('FAILED');
        await expect(handleOf(id, runId).result()).rejects.toMatchObject({
          cause: {
            type: 'LearningGroupParked',
            nonRetryable: true,
            message: expect.stringMatching(
              new RegExp(
                `^1 of 1 groups parked after \\d unusable responses \\(upstream_refused\\); replay: gateway batches replay ${batch.id}$`,
              ),
            ),
          },
        });
        const points = await resetPointsOf(id, runId);
        // As many steps as there are batches, spread from the first to the last.
        const step = Math.round((index * (points.length - 1)) / (towns.length - 1));
        resetTo.add(points.length - 1 - step);
        await handleOf(id, await reset(id, runId, points[step] ?? 0)).result();
      }),
    );
    expect(resetTo).toContain(0);
    for (const [index, batch] of parked.entries()) await expectLearnedOnce(gateway, batch, towns[index] ?? '');
    expect(parked[0]?.run_url).toBe(`${shared().app.startDurable().uiUrl()}/${encodeURIComponent(parked[0]?.workflow_id ?? '')}`);
  });

  runTogether('retries a failing batch until an operator stops it', async () => {
    const gateway = await lend('stop-failing');
    const text = 'I live in Stopville.';
    const { failing, accept } = await failBatches(gateway, [text], ({ state }) => state === 'failing');
    const [batch] = failing;
    if (!batch) throw new Error('there is no batch');
    const stopped = await gateway.admin('POST', `/provision/batches/${batch.id}/stop`);
    expect([stopped.status, await stopped.json()]).toEqual([200, expect.objectContaining({ state: 'stopped', next_try_at: null })]);
    await expect(handleOf(batch.workflow_id).result()).rejects.toMatchObject({ cause: { type: 'LearningBatchStopped' } });
    accept();
    const replay = await gateway.admin('POST', `/provision/batches/${batch.id}/replay`);
    expect(replay.status).toBe(202);
    await expectLearnedOnce(gateway, batch, text, 5);
  });

  interface FailedRun {
    readonly runId: string;
    /** The last point to which it can be reset. */
    readonly point: number;
  }
  type Replay = (gateway: TestGateway & { readonly learningId: string }, batch: Batch, failed: FailedRun) => Promise<unknown>;
  const replayOne: Replay = ({ admin }, { id }) => admin('POST', `/provision/batches/${id}/replay`);
  const replayAll: Replay = async ({ admin, project }) =>
    expect((await admin('POST', '/provision/batches/replay', { project, state: 'failed' })).status).toBe(202);
  const signalProject: Replay = ({ learningId }) => handleOf(learningId).signal('replay');
  const resetRun: Replay = (_, { workflow_id: id }, { runId, point }) => reset(id, runId, point);
  const ways: Readonly<Record<string, readonly Replay[]>> = {
    'two requests': [replayOne, replayOne],
    'a signal and a request for all failed batches': [signalProject, replayAll],
    'a request and two resets': [replayOne, resetRun, resetRun],
    ...(isExhaustive && {
      'a request and a signal': [replayOne, signalProject],
      'a reset and a request': [resetRun, replayOne],
    }),
  };
  runTogether('learns a failed batch only once if several replays start at the same time', async () => {
    await Promise.all(
      Object.entries(ways).map(async ([way, replays]) => {
        const gateway = await lend(way.replaceAll(' ', '-'));
        const text = `I was replayed by ${way}!`;
        await say(gateway, 'kim', 'Hello.'); // This starts the project's run.
        const [batch] = await park(gateway, [text]);
        if (!batch) throw new Error('there is no batch');
        await eventually(() => runOf(gateway.learningId));
        const runId = await runOf(batch.workflow_id);
        const point = (await resetPointsOf(batch.workflow_id, runId)).at(-1) ?? 0;
        await Promise.all(replays.map((replay) => replay(gateway, batch, { runId, point })));
        await expectLearnedOnce(gateway, batch, text);
      }),
    );
  });

  runTogether("doesn't repeat completed steps when a batch is reset during a model call", async () => {
    const gateway = await lend('reset-running');
    const held = vendor.hold('consolidation', 'Larvik');
    await say(gateway, 'cid', 'I live in Larvik.');
    await untilAsked('consolidation', 'Larvik', 1);
    const [batch] = await batchesOf(gateway);
    const id = batch?.workflow_id ?? '';
    const [first = 0] = await resetPointsOf(id);
    const runId = await reset(id, await runOf(id), first);
    await untilRunWaits(id, runId);
    expect(await handleOf(id, runId).query('status')).toMatchObject({ state: 'waiting' });
    held.release();
    await handleOf(id, runId).result();
    expect([vendor.count('memories', 'Larvik'), vendor.count('consolidation', 'Larvik')]).toEqual([1, 1]);
    expect(await memoriesOf(gateway)).toEqual(['I live in Larvik.']);
    expect(await untilDone(gateway, 1)).toMatchObject({ memories: { written: 1, repeated: 0 } });
  });

  runTogether("doesn't start a batch twice when the project run is reset", async () => {
    const gateway = await lend('reset-project');
    await say(gateway, 'dot', 'I live in Hamar.');
    await untilDone(gateway, 1);
    const [runId, points] = [await runOf(gateway.learningId), await resetPointsOf(gateway.learningId)];
    for (const point of sample(points)) await reset(gateway.learningId, runId, point);
    await say(gateway, 'eli', 'I live in Moss.');
    await untilDone(gateway, 2);
    expect(await memoriesOf(gateway)).toEqual(['I live in Hamar.', 'I live in Moss.']);
    expect([vendor.count('memories', 'Hamar'), vendor.count('memories', 'Moss')]).toEqual([1, 1]);
  });

  for (const end of ['terminate', 'cancel'] as const)
    runTogether(`restarts a project run on the next call after ${end}`, async () => {
      const gateway = await lend(`project-${end}`);
      await say(gateway, 'hal', `I live in Voss, says ${end}.`);
      await untilDone(gateway, 1);
      await endRun(gateway.learningId, end);
      await say(gateway, 'ida', `I live in Ski, says ${end}.`);
      await untilDone(gateway, 2);
      expect(await memoriesOf(gateway)).toEqual([`I live in Ski, says ${end}.`, `I live in Voss, says ${end}.`]);
    });

  runTogether("makes no model calls for remember requests while memory's own calls ceiling is reached", async () => {
    const gateway = await lend('memory-capped', 1_000);
    await gateway.admin('PUT', '/provision/teams/memory-capped/applications/gateway-memory', { ceilings: { calls: 0 } });
    await say(gateway, 'kai', 'I live in Mosjøen.');
    await gateway.call('/usage/me'); // Waits until the calls are stored.
    const [conversation] = await gateway.database.query<{ id: string }>(`select id from conversations where subject = 'kai'`);
    for (const focus of ['town', 'country'])
      expect((await gateway.call(`/v1/memory/episodes/${conversation?.id}/remember`, { focus })).status).toBe(202);
    await eventually(async () => {
      const batches = await batchesOf(gateway);
      expect(batches.map(({ error }) => error?.code)).toEqual(['source_capped', 'source_capped']);
    });
    expect(vendor.count('memories', 'Mosjøen')).toBe(0);
  });

  runTogether('holds a batch while its project has reached the monthly cap', async () => {
    const gateway = await lend('capped', 1_000);
    await say(gateway, 'jan', 'I live in Mo i Rana.');
    await gateway.admin('PUT', '/provision/teams/capped', { monthly_cap: 0.000000001 });
    await gateway.admin('PUT', '/provision/teams/capped/memory', { batch_of: 2 });
    await eventually(async () => {
      const [batch] = await batchesOf(gateway);
      // A change of settings ends the wait for the retry.
      if (batch) await gateway.admin('PUT', '/provision/teams/capped', {});
      expect(batch).toMatchObject({ error: { code: 'credits_exhausted' } });
      expect(batch?.attempts).toBeGreaterThan(6);
    });
    expect(['retrying', 'running']).toContain((await batchesOf(gateway))[0]?.state);
    expect(vendor.count('memories', 'Mo i Rana')).toBe(0);
    await gateway.admin('PUT', '/provision/teams/capped', { monthly_cap: null });
    await untilDone(gateway, 1);
    expect(await memoriesOf(gateway)).toEqual(['I live in Mo i Rana.']);
    expect(vendor.count('memories', 'Mo i Rana')).toBe(1);
  });

  const started = startTogether([...cases.keys()], (title) => cases.get(title)?.() ?? Promise.reject(new Error('no such case')));
  it.each([...cases.keys()])('%s', (title) => started(title));

  // These tests run alone, because they check the outbox of all projects or enqueue all projects again.
  it("doesn't repeat a finished learning batch if a restored backup shows it as running", async () => {
    const gateway = await lend('restored');
    await say(gateway, 'ole', 'I live in Narvik.');
    const { id, workflow_id: workflowId } = await untilDone(gateway, 1);
    const runId = await findWorkingRun(workflowId);
    // This is the state after restoring a backup.
    await gateway.database.query(`update memory_batches set state = 'running', run_id = null where id = $1::uuid`, [id]);
    await reenqueueLearning(gateway.database);
    await untilDone(gateway, 1);
    expect(await runOf(workflowId)).not.toBe(runId);
    expect([vendor.count('memories', 'Narvik'), vendor.count('consolidation', 'Narvik')]).toEqual([1, 1]);
    expect(await memoriesOf(gateway)).toEqual(['I live in Narvik.']);
  });

  it("doesn't continue a terminated or cancelled learning batch until it's replayed", async () => {
    const ended = await Promise.all(
      (['terminate', 'cancel'] as const).map(async (end) => {
        const gateway = await lend(`ended-by-${end}`);
        const [text, next] = [`I live in Gol, says ${end}.`, `I live in Bodø, says ${end}.`];
        const held = vendor.hold('memories', text);
        await say(gateway, 'fay', text);
        await untilAsked('memories', text, 1);
        const [batch] = await batchesOf(gateway);
        if (!batch) throw new Error('there is no batch');
        await endRun(batch.workflow_id, end);
        return { gateway, batch, text, next, held, runId: await runOf(batch.workflow_id) };
      }),
    );
    await Promise.all(
      ended.map(async ({ gateway, batch, text, next, held, runId }) => {
        const { admin, database } = gateway;
        const show = (): Promise<Batch> => jsonOf(admin('GET', `/provision/batches/${batch.id}`));
        const stopped = { state: 'stopped', next_try_at: null, error: { code: 'stopped_by_operator', message: 'stopped by an operator' } };
        await reenqueueLearning(database); // Both before and after the gateway notices it.
        await eventually(async () => expect(await show()).toMatchObject(stopped));
        await reenqueueLearning(database);
        await say(gateway, 'gus', next);
        await eventually(async () => expect(await memoriesOf(gateway)).toEqual([next]));
        await eventually(async () => expect(await database.query('select 1 from outbox')).toEqual([]));
        expect([await show(), await runOf(batch.workflow_id)]).toEqual([expect.objectContaining(stopped), runId]);
        expect((await admin('POST', `/provision/batches/${batch.id}/replay`)).status).toBe(202);
        await eventually(async () => expect(await runOf(batch.workflow_id)).not.toBe(runId));
        await untilRunWaits(batch.workflow_id);
        held.release();
        await untilDone(gateway, 2);
        expect(await memoriesOf(gateway)).toEqual([text, next].toSorted());
        expect([vendor.count('memories', text), vendor.count('consolidation', text)]).toEqual([1, 1]);
      }),
    );
  });
});
