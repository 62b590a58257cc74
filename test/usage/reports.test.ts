import { createHash, randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { CallMetadata, SettledCall } from '../../src/core/call.ts';
import type { Database } from '../../src/db/database.ts';
import { listCalls } from '../../src/usage/call-rows.ts';
import { createUsageReports } from '../../src/usage/reports.ts';
import { maintainRollups } from '../../src/usage/rollups/upkeep.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { describeAnyDatabase, describeDatabases } from '../db/databases.ts';
import { type CallChanges, clockAt, factsOf, noon, settledCall } from '../journal/calls.ts';

/** Returns the ids of the calls that were not stored before. */
const store = async (database: Database, calls: readonly SettledCall[]): Promise<ReadonlySet<string>> => {
  const added = await database.transaction((tx) => storeCalls(tx, calls));
  return new Set(added.map(({ metadata }) => metadata.id));
};

/** Each test has a separate project and key. `call` creates their calls. */
function newOwner() {
  const owner = { projectId: randomUUID(), keyId: randomUUID() };
  const call = ({ metadata = {}, ...changes }: CallChanges = {}): SettledCall =>
    settledCall({ ...changes, metadata: { ...owner, ...metadata } });
  return { ...owner, call };
}

const correlated = (changes: Partial<CallMetadata['correlation']>): CallMetadata['correlation'] => ({
  ...factsOf().correlation,
  ...changes,
});
const tokensOf = (input: number) => ({ input, cachedInput: 1, cacheWrite: 2, cacheWrite1h: 3, output: 4 });

describeAnyDatabase('storing calls', (database) => {
  test('stores each call once and returns only new ids', async () => {
    const { call } = newOwner();
    const [one, two, three] = [call(), call(), call()];
    expect(await store(database(), [one, two])).toEqual(new Set([one.metadata.id, two.metadata.id]));
    expect(await store(database(), [two, three, three])).toEqual(new Set([three.metadata.id]));
    expect(await store(database(), [one, two, three])).toEqual(new Set());
    expect(await store(database(), [])).toEqual(new Set());
    const [row] = await database().query(`select count(*) as attempts from attempts where call_id = any ($1::uuid[])`, [
      [one, two, three].map(({ metadata }) => metadata.id),
    ]);
    expect(row).toEqual({ attempts: 3 });
  });

  test('stores a call without attempts, such as a cache hit', async () => {
    const { call } = newOwner();
    const hit = call({ result: { cache: 'hit', attempts: [], costNanos: 0 } });
    expect(await store(database(), [hit])).toEqual(new Set([hit.metadata.id]));
  });

  test('clamps numbers to the range that a column can store', async () => {
    const { call, projectId } = newOwner();
    const odd = call({
      metadata: { correlation: correlated({ iteration: 1e300, distilSaved: -1.6 }) },
      result: { durationMs: -5, firstByteMs: 1e12, tokens: { ...tokensOf(2.5), output: Number.NaN } },
    });
    await store(database(), [odd]);
    const [row] = await listCalls(database(), projectId);
    expect(row).toMatchObject({
      duration_ms: 0,
      first_byte_ms: 2_147_483_647,
      iteration: Number.MAX_SAFE_INTEGER,
      distil_saved: -2,
      tokens: { input: 3, output: 0 },
    });
  });
});

describeDatabases('the calls of a project', (database) => {
  test('returns calls with every documented field', async () => {
    const { call, projectId } = newOwner();
    const correlation = {
      taskId: 't-1',
      turnId: 'u-1',
      agentId: 'a-1',
      triggerKind: 'cron',
      triggerDetail: 'nightly',
      iteration: 3,
      distilSaved: 40,
    };
    const stored = call({
      metadata: {
        correlation,
        memory: { mode: 'write', explicitWrite: false, subject: 'user-42' },
        plan: [
          { model: 'a/x', skipped: 'price_unknown' },
          { model: 'openai/gpt-4o', skipped: null },
        ],
      },
      result: {
        tokens: tokensOf(10),
        estimated: true,
        attempts: call({ result: { tokens: tokensOf(10) } }).result.attempts.map((attempt) => ({
          ...attempt,
          member: 'east',
          requestId: 'req_1',
        })),
      },
    });
    await store(database(), [stored]);
    expect(await listCalls(database(), projectId)).toEqual([
      {
        id: stored.metadata.id,
        created_at: '2026-11-20T12:00:00Z',
        project: null,
        key: 'k7f3a9c2',
        key_name: null,
        source: 'acme',
        route: 'chat',
        model_asked: 'standard',
        model: 'openai/gpt-4o',
        status: 200,
        code: null,
        outcome: 'ok',
        stream: false,
        cache: 'miss',
        tokens: { input: 10, cached_input: 1, cache_write: 5, output: 4 },
        cost: 0.000001,
        price_unknown: false,
        estimated: true,
        unmetered: false,
        duration_ms: 50,
        first_byte_ms: 21,
        task_id: 't-1',
        turn_id: 'u-1',
        agent_id: 'a-1',
        trigger_kind: 'cron',
        trigger_detail: 'nightly',
        iteration: 3,
        distil_saved: 40,
        subject_sha256: createHash('sha256').update('user-42').digest('hex'),
        recalled: [],
        plan: [
          { model: 'a/x', skipped: 'price_unknown' },
          { model: 'openai/gpt-4o', skipped: null },
        ],
        attempts: [
          {
            n: 1,
            provider: 'openai',
            model: 'gpt-4o',
            member: 'east',
            status: 200,
            outcome: 'ok',
            request_id: 'req_1',
            wait_ms: 0,
            started_at: '2026-11-20T12:00:00.001Z',
            first_byte_ms: 20,
            duration_ms: 49,
            cost: 0.000001,
            price_unknown: false,
            error: null,
          },
        ],
      },
    ]);
  });

  test('filters and paginates the calls of one project or all projects', async () => {
    const [{ call, projectId }, other] = [newOwner(), newOwner()];
    const [attempt] = call().result.attempts;
    if (!attempt) throw new Error('a settled call has an attempt');
    const error = { reason: 'status', type: null, code: 'overloaded', message: 'busy' };
    const failing = {
      attempts: [
        { ...attempt, error },
        { ...attempt, n: 2, error },
      ],
    };
    const calls = Array.from({ length: 300 }, (_value, index) =>
      call({ metadata: { startedAt: noon + index, source: index < 30 ? 'first' : 'later' }, result: index % 3 === 0 ? failing : {} }),
    );
    const foreign = other.call({ metadata: { startedAt: noon + 1_000 }, result: failing });
    await store(database(), [...calls, foreign]);
    const failed = calls.filter((_call, index) => index % 3 === 0).map(({ metadata }) => metadata.id);
    const ids = failed.toReversed();
    const idsOf = async (options: Parameters<typeof listCalls>[2], project: string | null = projectId) =>
      (await listCalls(database(), project, { ...options, failed: true })).map(({ id }) => id);
    expect(await idsOf({ limit: 1_000 })).toEqual(ids);
    expect(await idsOf({ limit: 5, before: ids[9] })).toEqual(ids.slice(10, 15));
    expect(await idsOf({ source: 'first' })).toEqual(ids.slice(-10));
    const all = await idsOf({ limit: 1_000 }, null);
    expect(all.filter((id) => [...failed, foreign.metadata.id].includes(id))).toEqual([foreign.metadata.id, ...ids]);
    const [row] = await listCalls(database(), projectId, { failed: true, limit: 1 });
    expect(row?.attempts.map((one) => one.error)).toEqual([error, error]);
  });

  test('lists calls newest first, filtered by task and source', async () => {
    const { call, projectId } = newOwner();
    const calls = Array.from({ length: 110 }, (_value, index) =>
      call({
        metadata: {
          startedAt: noon + index,
          source: index % 2 === 0 ? 'even' : 'odd',
          correlation: correlated({ taskId: index < 3 ? 't-1' : null }),
        },
      }),
    );
    await store(database(), [...calls, newOwner().call()]);
    const ids = calls.map(({ metadata }) => metadata.id).toReversed();
    const idsOf = async (...[options]: [Parameters<typeof listCalls>[2]?]) =>
      (await listCalls(database(), projectId, options)).map(({ id }) => id);
    expect(await idsOf()).toEqual(ids.slice(0, 100));
    expect(await idsOf({ before: ids[99] })).toEqual(ids.slice(100));
    expect(await idsOf({ limit: 2 })).toEqual(ids.slice(0, 2));
    expect(await idsOf({ limit: 100_000 })).toHaveLength(110);
    expect(await idsOf({ taskId: 't-1' })).toEqual(ids.slice(-3));
    expect(await idsOf({ source: 'odd', limit: 1, before: ids[1] })).toEqual(ids.slice(2, 3));
    expect(await idsOf({ taskId: 'none' })).toEqual([]);
  });
});

describeAnyDatabase('a project with many calls', (database) => {
  test('returns up to a thousand calls with their attempts', async () => {
    const { call, projectId } = newOwner();
    const calls = Array.from({ length: 1_010 }, (_value, index) => call({ metadata: { startedAt: noon + index } }));
    for (let at = 0; at < calls.length; at += 500) await store(database(), calls.slice(at, at + 500));
    const ids = calls.map(({ metadata }) => metadata.id).toReversed();
    for (const limit of [1_000, 250, 251, 749]) {
      const rows = await listCalls(database(), projectId, { limit });
      expect(rows.map(({ id }) => id)).toEqual(ids.slice(0, limit));
      expect(rows.every(({ attempts }) => attempts.length === 1)).toBe(true);
    }
    expect(await listCalls(database(), projectId, { limit: 5_000 })).toHaveLength(1_000);
  });
});

describeAnyDatabase('the usage report of a project', (database) => {
  const usageOf = (projectId: string, monthlyCapNanos: number | null = null, now = noon) =>
    createUsageReports({ database: database(), clock: clockAt(now) }).getUsage({ projectId, monthlyCapNanos });

  test('adds up the usage of the calendar month by model, task and source', async () => {
    const { call, projectId } = newOwner();
    const task = { correlation: correlated({ taskId: 't-17' }) };
    await store(database(), [
      call({ result: { costNanos: 1_000_000_000, tokens: tokensOf(90) } }),
      call({
        metadata: { ...task, source: 'gateway-memory' },
        result: { costNanos: 2_500_000_000, model: 'anthropic/claude', tokens: tokensOf(10) },
      }),
      call({ metadata: task, result: { costNanos: 1, tokens: tokensOf(0) } }),
      newOwner().call(),
    ]);
    expect(await usageOf(projectId, 50_000_000_000)).toEqual({
      month: '2026-11',
      period: { start: '2026-11-01T00:00:00Z', end: '2026-12-01T00:00:00Z' },
      currency: 'USD',
      spend: 3.500000001,
      monthly_cap: 50,
      by_model: [
        { model: 'anthropic/claude', cost: 2.5, tokens: 20, calls: 1 },
        { model: 'openai/gpt-4o', cost: 1.000000001, tokens: 110, calls: 2 },
      ],
      by_task: [{ task_id: 't-17', cost: 2.500000001, tokens: 30, calls: 2 }],
      by_source: [
        { source: 'gateway-memory', cost: 2.5, tokens: 20, calls: 1 },
        { source: 'acme', cost: 1.000000001, tokens: 110, calls: 2 },
      ],
    });
  });

  test('includes every call that was stored before the request, even in a shared usage report', async () => {
    const { call, projectId } = newOwner();
    let statements = 0;
    const query: Database['query'] = (text, values) => {
      statements += 1;
      return database().query(text, values);
    };
    const reports = createUsageReports({ database: { ...database(), query }, clock: clockAt(noon) });
    const report = () => reports.getUsage({ projectId, monthlyCapNanos: null });
    const earlier = report();
    await store(database(), [call()]);
    const polled = await Promise.all(Array.from({ length: 12 }, report));
    expect(new Set(polled.map(({ spend }) => spend))).toEqual(new Set([0.000001]));
    await earlier;
    // The earlier report may still be running when the pollers arrive.
    expect([8, 12]).toContain(statements);
    statements = 0;
    expect(new Set(await Promise.all(Array.from({ length: 12 }, () => reports.getMonthSpend(projectId))))).toEqual(new Set([1_000]));
    expect(statements).toBe(2);
  });

  test('reports zero usage for a project without calls', async () => {
    expect(await usageOf(randomUUID())).toMatchObject({ spend: 0, monthly_cap: null, by_model: [], by_task: [], by_source: [] });
  });

  test('includes calls of unknown cost in usage, along with their tokens', async () => {
    const { call, projectId } = newOwner();
    await store(database(), [
      call({ result: { costNanos: null, attempts: [] } }),
      call({ result: { model: null, outcome: 'failed', costNanos: 5_000 } }),
    ]);
    expect(await usageOf(projectId)).toMatchObject({
      spend: 0.000005,
      by_model: [{ model: 'openai/gpt-4o', cost: 0, tokens: 15, calls: 1 }],
      by_source: [{ source: 'acme', cost: 0.000005, tokens: 30, calls: 2 }],
    });
  });

  test('counts a call in the UTC month in which it started', async () => {
    const { call, projectId } = newOwner();
    const [start, end] = [Date.UTC(2026, 10, 1), Date.UTC(2026, 11, 1)];
    await store(
      database(),
      [start - 1, start, end - 1, end].map((startedAt) => call({ metadata: { startedAt } })),
    );
    expect(await usageOf(projectId)).toMatchObject({ spend: 0.000002, by_source: [{ calls: 2 }] });
    expect(await usageOf(projectId, null, end)).toMatchObject({ month: '2026-12', by_source: [{ calls: 1 }] });
    const reports = createUsageReports({ database: database(), clock: clockAt(noon) });
    expect(await reports.getMonthSpend(projectId)).toBe(2_000);
    expect(await reports.getMonthSpend(randomUUID())).toBe(0);
  });

  test('limits the lists of a usage report to a thousand rows but includes all calls in the total', async () => {
    const { call, projectId } = newOwner();
    const calls = Array.from({ length: 1_010 }, (_value, index) =>
      call({ metadata: { correlation: correlated({ taskId: `t-${index}` }) }, result: { costNanos: index } }),
    );
    for (let at = 0; at < calls.length; at += 500) await store(database(), calls.slice(at, at + 500));
    const usage = await usageOf(projectId);
    expect(usage.by_task).toHaveLength(1_000);
    expect(usage.by_task[0]).toMatchObject({ task_id: 't-1009' });
    expect(usage.by_source).toMatchObject([{ calls: 1_010 }]);
    // A model that became cheaper since it was merged makes room for the next one.
    while (!(await maintainRollups(database())));
    await database().query('update calls set cost_nanos = 0 where project_id = $1::uuid and task_id = $2::text', [projectId, 't-500']);
    const corrected = (await usageOf(projectId)).by_task.map(({ task_id }) => task_id);
    expect([corrected.length, corrected.includes('t-500'), corrected.includes('t-9')]).toEqual([1_000, false, true]);
  });
});

describeAnyDatabase('usage of a key', (database) => {
  test("reports a key's usage for each ceiling in that ceiling's window", async () => {
    const { call, keyId, projectId } = newOwner();
    const [minuteAgo, yesterday, lastMonth] = [noon - 60_001, noon - 86_400_000, Date.UTC(2026, 9, 31)];
    await store(database(), [
      ...[noon, noon + 5_000, minuteAgo, yesterday, lastMonth].map((startedAt) => call({ metadata: { startedAt } })),
      call({ result: { cache: 'hit', costNanos: 0, attempts: [] } }),
      newOwner().call(),
    ]);
    const keyUse = (calls: 'day' | 'month' | 'total', cost: 'day' | 'month' | 'total') =>
      createUsageReports({ database: database(), clock: clockAt(noon + 10_000) }).getKeyUsage(
        { projectId, quotaKeyId: keyId },
        { calls, cost },
      );
    expect(await keyUse('month', 'month')).toEqual({ calls: 4, cost: 4_000, rpm: 2, tpm: 30 });
    expect(await keyUse('day', 'total')).toEqual({ calls: 3, cost: 5_000, rpm: 2, tpm: 30 });
    expect(await keyUse('total', 'day')).toEqual({ calls: 5, cost: 3_000, rpm: 2, tpm: 30 });
  });

  test('reports zero usage for an unused key', async () => {
    const reports = createUsageReports({ database: database(), clock: clockAt(noon) });
    expect(await reports.getKeyUsage({ projectId: randomUUID(), quotaKeyId: randomUUID() }, { calls: 'total', cost: 'total' })).toEqual({
      calls: 0,
      cost: 0,
      rpm: 0,
      tpm: 0,
    });
  });
});
