/**
 * Tests that rollups always equal the sums over the rows of calls, no matter how many of them have been merged or
 * backfilled.
 */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { createLeaseStore } from '../../../src/ceilings/lease-store.ts';
import type { Outcome, SettledCall } from '../../../src/core/call.ts';
import { memoryApplication, noCorrelation } from '../../../src/core/call.ts';
import { noTokens } from '../../../src/core/pricing.ts';
import { type CeilingName, type WindowKind, windowAt } from '../../../src/core/windows.ts';
import type { Database } from '../../../src/db/database.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { type CallFilter, createParameters, whereCalls } from '../../../src/usage/analytics/call-filter.ts';
import { type CallPage, readCallPage } from '../../../src/usage/analytics/call-list.ts';
import { type FiguresRequest, groupNames } from '../../../src/usage/analytics/figures-request.ts';
import type { Period } from '../../../src/usage/analytics/range.ts';
import { readFigures } from '../../../src/usage/analytics/read-figures.ts';
import { correctCalls } from '../../../src/usage/correct-calls.ts';
import { buildAggregates } from '../../../src/usage/hourly-aggregates/build.ts';
import { rollupsOf, type Scope, selectRollupSums } from '../../../src/usage/rollups/rollup-sums.ts';
import { maintainRollups } from '../../../src/usage/rollups/upkeep.ts';
import { storeCalls } from '../../../src/usage/store-calls.ts';
import { type Measure, selectHistogram, valueOfSlot } from '../../../src/usage/sums.ts';
import { countersIn } from '../../ceilings/quota-harness.ts';
import { describeDatabases } from '../../db/databases.ts';
import { type CallChanges, clockAt, noon, settledCall } from '../../journal/calls.ts';
import { isExhaustive } from '../../support/exhaustive.ts';

const dayMs = 86_400_000;
const scopes: readonly Scope[] = ['project', 'key', 'source', 'model', 'task'];
const sums: readonly Measure[] = [
  ...(['calls', 'vendor_calls', 'slots', 'errors', 'unpriced', 'cost_nanos', 'tokens_input', 'tokens_cached_input'] as const),
  ...(['tokens_cache_write', 'tokens_output', 'cache_hits', 'cache_lookups', 'failovers'] as const),
];

async function newProject(database: Database) {
  const projectId = randomUUID();
  await database.query('insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)', [projectId, projectId]);
  const owner = { projectId, keyId: randomUUID() };
  return {
    ...owner,
    call: ({ metadata = {}, ...changes }: CallChanges = {}) => settledCall({ ...changes, metadata: { ...owner, ...metadata } }),
  };
}

const store = (database: Database, calls: readonly SettledCall[]) => database.transaction((tx) => storeCalls(tx, calls));

async function maintain(database: Database): Promise<void> {
  while (!(await maintainRollups(database)));
  // Works in parts of a few calls, like in hours with many calls.
  while (!(await buildAggregates(database, 7)));
}

/** Returns the sums for each name twice: as readers combine them from rollups and rows, and from the rows alone. */
async function compare(database: Database, projectId: string, scope: Scope, period: Period): Promise<[unknown, unknown]> {
  const read = async (text: (parameters: ReturnType<typeof createParameters>) => string) => {
    const parameters = createParameters();
    const columns = sums.map((measure) => `sum(${measure})::text as ${measure}`).join(', ');
    return database.query(
      `select name, ${columns} from (${text(parameters)}) as part group by name having sum(calls) <> 0 order by name`,
      parameters.values,
    );
  };
  const rollups = await read((parameters) => selectRollupSums({ projectId, scope, periods: [period] }, sums, parameters));
  // Periods without complete hours are read from the rows.
  const halfHourMs = 30 * 60_000;
  const halfHours = Array.from({ length: Math.ceil((period.to - period.from) / halfHourMs) }, (_none, n) => {
    const from = period.from + n * halfHourMs;
    return { from, to: Math.min(from + halfHourMs, period.to) };
  });
  const rows = await read((parameters) => selectRollupSums({ projectId, scope, periods: halfHours }, sums, parameters));
  return [rollups, rows];
}

/** Requests that rollups can't answer, because they're about several attributes or one that rollups don't have. */
const aggregateRequests: readonly Partial<FiguresRequest>[] = [
  ...(['route', 'status', 'code', 'outcome', 'provider', 'attempted'] as const).map((group) => ({ group, unit: 'day' as const })),
  { filter: { agent: 'a1' }, group: 'model', unit: 'hour' },
  { filter: { agent: '-' } },
  { filter: { source: 's1', result: 'error' }, group: 'model', unit: 'week' },
  { filter: { key: 'k7f3a9c2', status: '5xx' }, group: 'code', rank: 'calls' },
  { filter: { failover: 'yes', price: 'known' }, group: 'route', unit: 'day' },
  { filter: { cache: '-', result: 'ok', model: 'm/1' }, unit: 'hour' },
  { filter: { model: 'm/0' }, group: 'provider', unit: 'day', rank: 'tokens' },
  { filter: { result: 'error' }, group: 'attempted', unit: 'day', rank: 'errors' },
  { zone: 'Asia/Kathmandu', group: 'status', unit: 'day' },
  { filter: { not_model: 'm/1', not_status: '5xx' }, group: 'code', unit: 'day' },
  { filter: { not_code: '-' }, group: 'source' },
  // For these, we subtract the gateway's own calls from the sums of all calls.
  ...groupNames.map((group) => ({ filter: { own: 'hide' }, group, unit: 'day' as const })),
  { filter: { own: 'hide' }, unit: 'hour' },
  { filter: { own: 'hide', model: 'm/1', result: 'ok' }, unit: 'hour' },
  { filter: { own: 'hide', task: '-' }, group: 'model' },
  { filter: { own: 'hide', task: 't1' }, unit: 'day' },
  { filter: { own: 'hide', agent: '-' }, group: 'model' },
  { filter: { own: 'hide', not_source: 's1' }, group: 'source', unit: 'day' },
  { filter: { own: 'show', not_source: memoryApplication, not_key: 'k0000000' }, group: 'model' },
  { filter: { not_key: 'k7f3a9c2' } },
  { filter: { source: 's2', own: 'hide', not_source: 's1' }, unit: 'day' },
];
const aggregateFilters: readonly CallFilter[] = [
  { own: 'hide' },
  { own: 'hide', status: '5xx' },
  { own: 'hide', route: 'messages' },
  { own: 'hide', not_source: 's0', not_model: 'm/1' },
  { agent: 'a2' },
  { code: 'rate_limited' },
  { failover: 'yes' },
  { source: 's0', outcome: 'failed', route: 'chat' },
];

const outcomes: readonly Outcome[] = ['ok', 'ok', 'failed', 'client_left'];

describeDatabases('rollups', (database) => {
  /**
   * Removes the aggregates, as if an older server version had stored the calls. They don't count until they are
   * backfilled.
   */
  const forget = async (): Promise<void> => {
    await maintain(database());
    await database().query('update calls set in_rollups = false');
    for (const table of ['usage_rollups', 'usage_increments']) await database().query(`delete from ${table}`);
    await database().query(`update usage_rollup_fill set filled_from = 'ffffffff-ffff-ffff-ffff-ffffffffffff'`);
    for (const table of ['usage_cells', 'usage_outdated']) await database().query(`delete from ${table}`);
    await database().query(`update usage_cells_fill set filled_from = 'infinity'`);
  };

  test('keeps rollups equal to the sums of the calls after inserts, corrections and deletions', async () => {
    const { projectId, call } = await newProject(database());
    const [from, to] = [noon - 2 * dayMs + 123_456, noon + 3_723_000];
    let number = 0;
    const some = (count: number): SettledCall[] =>
      Array.from({ length: count }, () => {
        number += 1;
        const attempts = settledCall().result.attempts.slice(0, 1);
        const second = attempts.map((attempt) => ({ ...attempt, n: 2, provider: 'second' }));
        const isOwn = number % 5 === 4;
        return call({
          metadata: {
            startedAt: from - 5_000 + Math.floor((((number * 7_919) % 1_000) / 1_000) * (to - from + 10_000)),
            source: isOwn ? memoryApplication : `s${number % 3}`,
            route: number % 13 === 0 ? 'messages' : 'chat',
            correlation: {
              ...noCorrelation,
              taskId: isOwn || number % 4 === 0 ? null : `t${number % 5}`,
              agentId: isOwn || number % 3 === 0 ? null : `a${number % 4}`,
            },
            ...(number % 11 === 0 && { takesNoSlot: true }),
          },
          result: {
            model: number % 7 === 0 ? null : `m/${number % 2}`,
            outcome: outcomes[number % 4] ?? 'ok',
            costNanos: number % 6 === 0 ? null : number * 1_000,
            ...(number % 4 === 2 && { status: number % 8 === 2 ? 502 : 429, code: number % 8 === 2 ? 'upstream_failed' : 'rate_limited' }),
            cache: number % 9 === 0 ? 'hit' : number % 2 === 0 ? 'miss' : null,
            attempts: number % 9 === 0 ? [] : number % 8 === 0 ? [...attempts, ...second] : attempts,
          },
        });
      });
    /**
     * Filters by the requested model, which all calls have but no aggregate does, so the figures come from the rows.
     */
    const figuresOf = (request: Partial<FiguresRequest>, filter: CallFilter) =>
      readFigures(database(), {
        ...{ projectId, from, to, zone: 'Asia/Kolkata', costly: ['failovers'], top: 2, ...request },
        filter: { ...request.filter, ...filter },
      });
    let checks = 0;
    // Each check reads different ones. The embedded database runs the same statements in several times the CPU time, so
    // it gets fewer of them.
    const sample = <Item>(all: readonly Item[]): readonly Item[] => {
      const every = isExhaustive ? 1 : database().kind === 'embedded' ? 12 : 3;
      return all.filter((_, index) => index % every === checks % every);
    };
    const check = async (): Promise<void> => {
      for (const scope of sample(scopes)) {
        const [rollups, rows] = await compare(database(), projectId, scope, { from, to });
        expect(rollups).toEqual(rows);
      }
      const requests: readonly Partial<FiguresRequest>[] = [
        ...(['model', 'source', 'key', 'task'] as const).map((group) => ({ group, unit: 'day' as const })),
        { unit: 'hour', group: 'source', rank: 'errors' },
        { filter: { task: '-' }, group: 'task', rank: 'tokens' },
        { filter: { model: 'm/1' }, unit: 'week' },
        { filter: { key: 'k7f3a9c2' }, rank: 'calls' },
        ...aggregateRequests,
      ];
      for (const request of sample(requests)) expect(await figuresOf(request, {})).toEqual(await figuresOf(request, { asked: 'standard' }));
      // With small pages and few calls per hour, a page can span several hours.
      for (const filter of sample(aggregateFilters)) {
        const listed: string[] = [];
        let before: string | null = null;
        do {
          const page: CallPage = await readCallPage(database(), { projectId, from, to, filter, before, limit: 25 });
          listed.push(...page.calls.map(({ id }) => id));
          before = page.next;
        } while (before !== null);
        const parameters = createParameters();
        const where = whereCalls({ projectId, from, to, filter }, parameters);
        const rows = await database().query<{ id: string }>(`select id from calls c where ${where} order by id desc`, parameters.values);
        expect(listed).toEqual(rows.map(({ id }) => id));
      }
      checks += 1;
    };
    await store(database(), some(150));
    await forget();
    await check();
    const older = await database().query<{ id: string }>('select id from calls where project_id = $1::uuid order by id', [projectId]);
    const correct = (ids: readonly { id: string }[]) =>
      database().transaction((tx) =>
        correctCalls(
          tx,
          ids.map(({ id }) => ({ callId: id, outcome: 'failed' as const, code: null, costNanos: 7, estimated: true })),
        ),
      );
    await store(database(), some(30));
    await correct(older.slice(0, 5));
    await database().query('select fill_usage_rollups(60)');
    await check();
    // Some of these are backfilled, and some are not.
    await correct(older.slice(60, 120));
    await database().query('delete from calls where id = any($1::uuid[])', [older.slice(85, 95).map(({ id }) => id)]);
    await maintain(database());
    await check();
    await store(database(), some(20));
    await correct(older.slice(100, 130));
    await check();
    await maintain(database());
    await check();
    const [left] = await database().query("select count(*) as increments from usage_increments where start < now() - interval '1 day'");
    expect(left).toEqual({ increments: 0 });
  });

  test('stores durations as a histogram that is accurate to 5 %', async () => {
    const { projectId, call } = await newProject(database());
    const durations = [0, 1, 3, 12, 99, 1_000, 12_345, 2_000_000_000];
    const calls = durations.map((durationMs) => call({ result: { durationMs } }));
    await store(database(), calls);
    await maintain(database());
    const failed = call({ result: { durationMs: 50 } });
    await store(database(), [failed]);
    await database().query(`update calls set outcome = 'failed' where id = $1::uuid`, [failed.metadata.id]);
    const read = async () => {
      const parameters = createParameters();
      const periods = [{ from: noon - dayMs / 2, to: noon + dayMs / 2 }];
      const histogram = selectHistogram(rollupsOf({ projectId, scope: 'project', periods }, parameters), 'durations');
      const rows = await database().query<{ slot: number; n: number }>(
        `select slot, sum(n)::integer as n from (${histogram}) as counted group by slot having sum(n) <> 0 order by slot`,
        parameters.values,
      );
      return rows.flatMap(({ slot, n }) => Array.from({ length: n }, () => valueOfSlot(slot)));
    };
    const unmerged = await read();
    await maintain(database());
    expect(await read()).toEqual(unmerged);
    expect(unmerged).toHaveLength(durations.length);
    for (const [index, value] of unmerged.entries())
      expect(Math.abs(value - (durations[index] ?? 0))).toBeLessThanOrEqual((durations[index] ?? 0) * 0.052);
  });

  test('computes a new ceiling counter correctly while rollups are backfilled', async () => {
    const { projectId, keyId, call } = await newProject(database());
    const starts = [noon, noon - dayMs, noon - 40 * dayMs, noon + 10];
    await store(
      database(),
      starts.map((startedAt) => call({ metadata: { startedAt, source: 'app' }, result: { tokens: { ...noTokens, output: 3 } } })),
    );
    await forget();
    const counters: readonly (readonly [CeilingName, WindowKind])[] = [
      ['cost', 'day'],
      ['cost', 'total'],
      ['calls', 'month'],
      ['tpm', 'minute'],
    ];
    const acquireAll = async (suffix: string): Promise<void> => {
      const sources = [
        ['key', keyId],
        ['source', 'app'],
        ['project', ''],
      ] as const;
      for (const [scope, scopeId] of sources)
        for (const [ceiling, window] of counters)
          await createLeaseStore(database()).acquire({
            ...{
              process: randomUUID(),
              generation: 1,
              isLeaseExpected: false,
              limit: 1e9,
              need: 1,
              demand: 1,
              defaultGrant: 1,
              takesRemainder: false,
            },
            counter: { projectId, scope, scopeId, ceiling, window, ...windowAt(window, noon) },
          });
      const created = await countersIn(database(), projectId);
      expect([suffix, created.length]).toEqual([suffix, sources.length * counters.length]);
      for (const counter of created) expect([suffix, counter.settled]).toEqual([suffix, counter.rows]);
      await database().query('delete from limit_counters where project_id = $1::uuid', [projectId]);
    };
    await acquireAll('unfilled');
    await database().query('select fill_usage_rollups(2)');
    await acquireAll('filled in part');
    await maintain(database());
    await acquireAll('filled');
    await store(database(), [call({ metadata: { startedAt: noon + 20, source: 'app' }, result: { tokens: { ...noTokens, output: 3 } } })]);
    await acquireAll('with increments');
  });

  test('backfills rollups in one process at a time', async () => {
    if (database().kind === 'embedded') return; // Its single session runs one transaction after the other.
    const { call } = await newProject(database());
    const older = call();
    await store(database(), [older]);
    await forget();
    await database().transaction(async (tx) => {
      await correctCalls(tx, [{ callId: older.metadata.id, outcome: 'failed', code: null, costNanos: 7, estimated: true }]);
      expect(await maintainRollups(database())).toBe(true);
    });
    expect(await maintainRollups(database())).toBe(false);
    await maintain(database());
  });

  test('merges duplicate entries for the same outdated hour', async () => {
    const { projectId } = await newProject(database());
    await database().query(
      `insert into usage_outdated (project_id, span, start)
       select $1::uuid, 'hour', date_trunc('hour', now(), 'UTC') + n % 2 * interval '1 hour' from generate_series(1, 199) as n`,
      [projectId],
    );
    await maintain(database());
    const rows = await database().query<{ notes: number }>(
      'select count(*) as notes from usage_outdated where project_id = $1::uuid group by start order by start',
      [projectId],
    );
    expect(rows).toEqual([{ notes: 1 }, { notes: 1 }]);
  });

  test('removes the tasks and agents of an erased subject from rollups', async () => {
    const { projectId, call } = await newProject(database());
    const ofTask = (taskId: string, subject: string | null) =>
      call({
        metadata: {
          correlation: { ...noCorrelation, taskId, agentId: subject === null ? 'shared' : 'of ann' },
          memory: { mode: 'write', explicitWrite: false, subject },
        },
      });
    await store(database(), [ofTask('of ann', 'ann'), ofTask('shared', 'ann'), ofTask('shared', null)]);
    await maintain(database());
    await store(database(), [ofTask('of ann', 'ann'), ofTask('of ann later', 'ann')]);
    const tasks = async () => {
      const rows = await database().query<{ name: string }>(
        `select distinct name from (
           select name from usage_rollups where project_id = $1::uuid and scope = 'task' and calls <> 0
           union all select name from usage_increments where project_id = $1::uuid and scope = 'task'
           union all select name from usage_rollups where project_id = $1::uuid and scope = 'task'
         ) as named where name is not null order by name`,
        [projectId],
      );
      return rows.map(({ name }) => name);
    };
    expect(await tasks()).toEqual(['of ann', 'of ann later', 'shared']);
    const agents = async () => {
      const rows = await database().query<{ name: string }>(
        `select distinct name from usage_cells where project_id = $1::uuid and scope = 'agent' order by name`,
        [projectId],
      );
      return rows.map(({ name }) => name);
    };
    expect(await agents()).toEqual(['of ann', 'shared']);
    await createErase({ database: database(), clock: clockAt(noon) })({ projectId, subject: 'ann', askedBy: 'key:test' });
    expect(await tasks()).toEqual(['shared']);
    // Out of millions of rollups, it only reads these.
    const plan = await database().transaction(async (tx) => {
      await tx.query('set local enable_seqscan = off');
      return tx.query(
        `explain delete from usage_rollups where project_id = $1::uuid and scope = 'task' and name = any($2::text[]) and calls = 0`,
        [projectId, ['of ann']],
      );
    });
    expect(JSON.stringify(plan)).toContain('usage_rollups_empty_tasks');
    expect(await agents()).toEqual(['shared']);
    await maintain(database());
    expect(await agents()).toEqual(['shared', null]);
    const [rollups, rows] = await compare(database(), projectId, 'task', { from: noon - 86_400_000, to: noon + 3_600_000 });
    expect(rollups).toEqual(rows);
  });

  test('returns percentiles that are accurate to 5 %', async () => {
    const { projectId, call } = await newProject(database());
    await store(database(), [call({ metadata: { stream: true } })]);
    await database().query(
      `insert into calls (id, project_id, key_id, key_prefix, source, route, model_asked, model, stream, status, outcome, tokens_input, tokens_cached_input,
                          tokens_cache_write, tokens_cache_write_1h, tokens_output, estimated, duration_ms, first_byte_ms, plan, started_at)
       select overlay(gen_random_uuid()::text placing left(id::text, 14) from 1 for 14)::uuid, project_id, key_id, key_prefix, source, route,
              model_asked, 'm/' || n % 3, stream, status, outcome, 0, 0, 0, 0, 0, false, n % 3000 + 20, n % 500, plan, started_at
         from calls cross join generate_series(1, 11000) as n where project_id = $1::uuid`,
      [projectId],
    );
    await maintain(database());
    const request = { projectId, from: noon - dayMs, to: noon + dayMs, zone: 'UTC', unit: 'day', group: 'model' } as const;
    const costly = ['latency', 'firstChunk'] as const;
    const [estimated, exact] = [
      await readFigures(database(), { ...request, costly }),
      await readFigures(database(), { ...request, costly, filter: { asked: 'standard' } }),
    ];
    const percentilesOf = ({ total, groups, units }: typeof exact): number[] =>
      [total, ...groups.map(({ figures }) => figures), ...units.flatMap(({ figures, groups: parts }) => [figures, ...parts])].flatMap(
        ({ latency, firstChunk }) => [latency?.p50 ?? 0, latency?.p95 ?? 0, firstChunk?.p50 ?? 0, firstChunk?.p95 ?? 0],
      );
    const expected = percentilesOf(exact);
    expect(expected.length).toBeGreaterThan(20);
    for (const [index, value] of percentilesOf(estimated).entries())
      expect(Math.abs(value - (expected[index] ?? 0))).toBeLessThanOrEqual((expected[index] ?? 0) * 0.055 + 1);
    expect(percentilesOf(estimated)).not.toEqual(expected);
  });
});
