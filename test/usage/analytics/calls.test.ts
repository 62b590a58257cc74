import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Attempt, SettledCall } from '../../../src/core/call.ts';
import { minIdAt } from '../../../src/core/ids.ts';
import type { Database } from '../../../src/db/database.ts';
import { readCallDetail } from '../../../src/usage/analytics/call-detail.ts';
import { type CallFilter, parseCallFilter, toFilterValue } from '../../../src/usage/analytics/call-filter.ts';
import { readCallPage, streamCalls } from '../../../src/usage/analytics/call-list.ts';
import { readKeyUse } from '../../../src/usage/analytics/key-use.ts';
import { readFigures } from '../../../src/usage/analytics/read-figures.ts';
import { readRecentUse } from '../../../src/usage/analytics/recent-use.ts';
import { lastCalls, lastErrors } from '../../../src/usage/last-calls.ts';
import { ensurePartitions } from '../../../src/usage/partitions.ts';
import { storeCalls } from '../../../src/usage/store-calls.ts';
import { describeAnyDatabase, describeDatabases } from '../../db/databases.ts';
import { type CallChanges, clockAt, noon, settledCall } from '../../journal/calls.ts';

const store = (database: Database, calls: readonly SettledCall[]): Promise<unknown> => database.transaction((tx) => storeCalls(tx, calls));
const attempt = (changes: Partial<Attempt> = {}): Attempt => ({ ...(settledCall().result.attempts[0] as Attempt), ...changes });
const noCorrelation = settledCall().metadata.correlation;
const [from, to] = [noon - 3_600_000, noon + 3_600_000];

function newProject() {
  const owner = { projectId: randomUUID(), keyId: randomUUID() };
  return {
    ...owner,
    call: ({ metadata = {}, ...changes }: CallChanges = {}) => settledCall({ ...changes, metadata: { ...owner, ...metadata } }),
  };
}

describeDatabases('the list of calls', (database) => {
  test('returns pages of calls, newest first', async () => {
    const { call, projectId } = newProject();
    const calls = Array.from({ length: 270 }, (_value, index) => call({ metadata: { startedAt: noon + index } }));
    const outside = [call({ metadata: { startedAt: from - 1 } }), call({ metadata: { startedAt: to } }), newProject().call()];
    await store(database(), [...calls, ...outside]);
    const ids = calls.map(({ metadata }) => metadata.id).toReversed();
    const selection = { projectId, from, to };
    const first = await readCallPage(database(), { ...selection, limit: 100 });
    expect(first.calls.map(({ id }) => id)).toEqual(ids.slice(0, 100));
    const last = await readCallPage(database(), { ...selection, limit: 170, before: first.next });
    expect(last.calls.map(({ id }) => id)).toEqual(ids.slice(100));
    expect(last.next).toBeNull();
    const streamed = await Array.fromAsync(streamCalls(database(), selection));
    expect(streamed.map(({ id }) => id)).toEqual(ids);
    expect(streamed[0]).toMatchObject({ attempts: 1, costNanos: 1_000, input: 10, cachedInput: 2 });
  });

  test('finds the calls of a task with an unusual name', async () => {
    const { call, projectId } = newProject();
    const tasks = [null, '-', '--', '\u00a0', '\u200b', 'x'.repeat(5_000)];
    await store(
      database(),
      tasks.map((taskId) => call({ metadata: { correlation: { ...noCorrelation, taskId } } })),
    );
    for (const task of tasks) {
      const filter = parseCallFilter(new URLSearchParams({ task: toFilterValue(task) }));
      const { calls } = await readCallPage(database(), { projectId, from, to, filter, limit: 10 });
      expect(calls.map(({ taskId }) => taskId)).toEqual([task]);
    }
    expect(() => parseCallFilter(new URLSearchParams({ task: 'x'.repeat(20_000) }))).toThrow(/^task: /);
  });

  test("doesn't read all calls to find out when keys were last used", async () => {
    const busy = newProject();
    await store(
      database(),
      Array.from({ length: 2_000 }, (_value, index) => busy.call({ metadata: { startedAt: noon + index } })),
    );
    await database().query('analyze calls');
    const statements: [string, readonly unknown[]][] = [];
    const recorded = {
      query: <Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> => {
        statements.push([text, values]);
        return database().query<Row>(text, values);
      },
    };
    const last = await lastCalls(recorded, [busy.keyId, randomUUID()]);
    expect([...last.keys()]).toEqual([busy.keyId]);
    const [[text, values] = ['', []]] = statements;
    const plan = await database().query(`explain (analyze, format json) ${text}`, values);
    expect(JSON.stringify(plan)).toContain('Index');
    expect(JSON.stringify(plan)).not.toContain('Removed by Filter');
  });

  test("finds a key's latest error without reading its other calls", async () => {
    const [busy, fine] = [newProject(), newProject()];
    const failed = (code: string, at: number, outcome: 'failed' | 'client_left' = 'failed'): SettledCall =>
      busy.call({ metadata: { startedAt: at }, result: { status: 502, code, outcome } });
    const latest = failed('upstream_failed', noon + 1);
    await store(database(), [
      ...[failed('deadline_exceeded', noon), latest, failed('client_left', noon + 5_000, 'client_left'), fine.call()],
      ...Array.from({ length: 2_000 }, (_value, index) => busy.call({ metadata: { startedAt: noon + 2 + index } })),
    ]);
    await database().query('analyze calls');
    const statements: [string, readonly unknown[]][] = [];
    const recorded = {
      query: <Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> => {
        statements.push([text, values]);
        return database().query<Row>(text, values);
      },
    };
    expect([...(await lastErrors(recorded, [busy.keyId, fine.keyId, randomUUID()]))]).toEqual([
      [busy.keyId, { callId: latest.metadata.id, at: noon + 1, status: 502, code: 'upstream_failed' }],
    ]);
    const [[text, values] = ['', []]] = statements;
    const plan = await database().query(`explain (analyze, format json) ${text}`, values);
    expect(JSON.stringify(plan)).toContain('Index');
    // To sort them, PostgreSQL would have to read all errors of the key.
    expect(JSON.stringify(plan)).not.toMatch(/Removed by Filter|Seq Scan|"Node Type":"[^"]*Sort"/);
  });

  test('adds up what each key spent in a period', async () => {
    const owner = newProject();
    const other = randomUUID();
    await store(database(), [
      owner.call({ result: { costNanos: 5 } }),
      owner.call({ result: { costNanos: null, status: 502, outcome: 'failed' } }),
      owner.call({ metadata: { startedAt: from - 1 }, result: { costNanos: 7 } }),
      owner.call({ metadata: { keyId: other }, result: { costNanos: 11 } }),
    ]);
    const use = await readKeyUse(database(), owner.projectId, { from, to, keyIds: [owner.keyId, randomUUID()] });
    expect([...use]).toEqual([[owner.keyId, { calls: 2, errors: 1, costNanos: 5n }]]);
    expect((await readKeyUse(database(), owner.projectId, { from, to, keyIds: [] })).size).toBe(0);
  });

  test("lists exactly the calls that a project's figures count", async () => {
    const { call, projectId } = newProject();
    const special = call({
      metadata: {
        source: `it's "odd"`,
        modelAsked: 'smart',
        keyPrefix: 'k2',
        route: 'messages',
        correlation: { ...noCorrelation, taskId: 't', turnId: 'u', agentId: 'a', triggerKind: 'cron' },
      },
      result: {
        model: 'x/y',
        status: 429,
        code: 'tenant_capped',
        cache: null,
        outcome: 'refused',
        costNanos: null,
        attempts: [attempt(), attempt({ n: 2 })],
      },
    });
    await store(database(), [special, call(), call()]);
    const idsOf = async (query: string): Promise<readonly string[]> => {
      const filter: CallFilter = parseCallFilter(new URLSearchParams(query));
      const { calls } = await readCallPage(database(), { projectId, from, to, filter, limit: 10 });
      const { total } = await readFigures(database(), { projectId, zone: 'UTC', from, to, filter });
      expect([query, total.calls]).toEqual([query, calls.length]);
      return calls.map(({ id }) => id);
    };
    const only = [special.metadata.id];
    for (const query of [
      `source=${encodeURIComponent(`it's "odd"`)}`,
      ...[
        'model=x/y',
        'asked=smart',
        'key=k2',
        'task=t',
        'turn=u',
        'agent=a',
        'trigger=cron',
        'route=messages',
        'status=429',
        'status=4xx',
      ],
      ...['code=tenant_capped', 'cache=-', 'outcome=refused', 'result=error', 'failover=yes', 'price=unknown', 'task=t&cache=-'],
    ]) {
      expect([query, await idsOf(query)]).toEqual([query, only]);
    }
    expect(await idsOf('task=-')).toHaveLength(2);
    expect(await idsOf('result=ok&failover=no&price=known&status=2xx&source=')).toHaveLength(2);
    expect(await idsOf('task=t&model=openai/gpt-4o')).toEqual([]);
  });
});

test.each(['status=abc', 'status=600', 'route=ftp', 'outcome=fine', 'result=both', 'cache=maybe'])(
  'returns 400 for the filter %s',
  (query) => {
    expect(() => parseCallFilter(new URLSearchParams(query))).toThrow(new RegExp(`^${query.split('=')[0]}: `));
  },
);

describeDatabases('the details of a call', (database) => {
  const price = { input: '2000000000', output: '8000000000', cached_input: '1000000000', cache_write: '0', cache_write_1h: '0' };
  const addPrice = (model: string, at: number): Promise<unknown> =>
    database().query(
      `insert into model_prices (model, effective_from, price, source) values ($1::text, $2::timestamptz, $3::jsonb, 'file')`,
      [model, new Date(at), JSON.stringify(price)],
    );

  test('shows the attempts and cost lines of a call', async () => {
    const { call, projectId } = newProject();
    await addPrice('p/lines', noon - 1);
    const stored = call({
      result: {
        model: 'p/lines',
        costNanos: 10 * 2_000 + 2 * 1_000 + 3 * 8_000 + 1_000,
        attempts: [attempt({ outcome: 'failed', status: null }), attempt({ n: 2 })],
      },
    });
    await store(database(), [stored]);
    const detail = await readCallDetail(database(), projectId, stored.metadata.id);
    expect(detail).toMatchObject({
      id: stored.metadata.id,
      plan: stored.metadata.plan,
      attempts: [
        { n: 1, status: null },
        { n: 2, input: 12 },
      ],
    });
    expect(detail?.cost).toEqual({
      lines: [
        { item: 'input', count: 10, priceNanos: 2_000_000_000n, per: 1_000_000, costNanos: { whole: 20_000n, millionths: 0n } },
        { item: 'cached input', count: 2, priceNanos: 1_000_000_000n, per: 1_000_000, costNanos: { whole: 2_000n, millionths: 0n } },
        { item: 'output', count: 3, priceNanos: 8_000_000_000n, per: 1_000_000, costNanos: { whole: 24_000n, millionths: 0n } },
        { item: 'earlier attempts', count: 1, priceNanos: null, per: 1, costNanos: { whole: 1_000n, millionths: 0n } },
      ],
      sumNanos: 47_000,
      comparison: 'equal',
      aboveTokens: null,
      serviceTier: null,
    });
    expect(await readCallDetail(database(), randomUUID(), stored.metadata.id)).toBeNull();
    expect(await readCallDetail(database(), projectId, randomUUID())).toBeNull();
  });

  test("explains why a call's cost is unknown", async () => {
    const { call, projectId } = newProject();
    await addPrice('p/known', noon - 1);
    await addPrice('p/later', noon + 1);
    const comparisonOf = async (changes: CallChanges): Promise<string | undefined> => {
      const stored = call(changes);
      await store(database(), [stored]);
      return (await readCallDetail(database(), projectId, stored.metadata.id))?.cost.comparison;
    };
    expect(await comparisonOf({ result: { model: 'p/known', costNanos: 5 } })).toBe('different');
    expect(await comparisonOf({ result: { model: 'p/later', costNanos: null } })).toBe('price_unknown');
    expect(await comparisonOf({ result: { model: 'p/known', cache: 'hit', costNanos: 0 } })).toBe('cache_hit');
    expect(await comparisonOf({ result: { model: null, costNanos: 0 } })).toBe('no_response');
    expect(await comparisonOf({ metadata: { route: 'video' }, result: { model: 'p/known' } })).toBe('video');
  });
});

describeDatabases('recent use of keys, applications and projects', (database) => {
  test('adds up recent use per key and application, and counts a rotated key together with its successor', async () => {
    const { call, projectId } = newProject();
    const [first, second] = [randomUUID(), randomUUID()];
    await database().query(`insert into projects (id, slug, name) values ($1::uuid, $2::text, 'x')`, [projectId, `p-${projectId}`]);
    for (const [id, countedAs] of [
      [first, null],
      [second, first],
    ] as const) {
      await database().query(
        `insert into virtual_keys (id, project_id, prefix, secret_sha256, name, counted_as) values ($1::uuid, $2::uuid, $3::text, '', 'x', $4::uuid)`,
        [id, projectId, id, countedAs],
      );
    }
    await store(database(), [
      call({ metadata: { keyId: first, source: 'a' } }),
      call({ metadata: { keyId: second, source: 'b' } }),
      call({ metadata: { keyId: second, source: 'b' }, result: { cache: 'hit', costNanos: 0, attempts: [] } }),
      call(),
    ]);
    expect(await readRecentUse(database(), projectId, { from, to })).toEqual({
      project: { calls: 3, cost: 3_000 },
      keys: new Map([[first, { calls: 2, cost: 2_000 }]]),
      applications: new Map([
        ['a', { calls: 1, cost: 1_000 }],
        ['acme', { calls: 1, cost: 1_000 }],
        ['b', { calls: 1, cost: 1_000 }],
      ]),
    });
  });
});

describeAnyDatabase('the list of calls with many calls of many projects', (database) => {
  test('reads only the part of the index that belongs to the project and period', async () => {
    await ensurePartitions(database(), clockAt(noon));
    const projectId = randomUUID();
    const day = 24 * 3_600_000;
    // One in two hundred calls belongs to the project, and ids are spread over two weeks.
    await database().query(
      `insert into calls (id, project_id, key_id, key_prefix, source, route, model_asked, stream, status, outcome, tokens_input, tokens_cached_input,
                          tokens_cache_write, tokens_cache_write_1h, tokens_output, estimated, duration_ms, plan, started_at)
       select overlay(gen_random_uuid()::text placing left($1::text, 9) || lpad(to_hex(n / 256 % 65536), 4, '0') from 1 for 13)::uuid,
              case when n % 200 = 0 then $2::uuid else gen_random_uuid() end,
              gen_random_uuid(), 'k', 's', 'chat', 'm', false, 200, 'ok', 1, 0, 0, 0, 1, false, 1, '[]', now()
         from generate_series(1, 4000) as n`,
      [minIdAt(noon), projectId],
    );
    await database().query('analyze calls');
    const explained: string[] = [];
    const explain: Database = {
      ...database(),
      async query<Row>(text: string, values?: readonly unknown[]): Promise<Row[]> {
        const plan = await database().query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
        explained.push(plan.map((line) => line['QUERY PLAN']).join('\n'));
        return [];
      },
    };
    const selection = { projectId, from: noon - 7 * day, to: noon + 7 * day };
    await readCallPage(explain, { ...selection, limit: 50 });
    await readCallPage(explain, { ...selection, limit: 50, before: minIdAt(noon + day), filter: { task: 't', status: '4xx' } });
    await readFigures(explain, { ...selection, zone: 'Europe/Berlin', unit: 'day', group: 'model', costly: ['latency'] });
    await readRecentUse(explain, projectId, selection);
    const ofCalls = explained.filter((plan) => plan.includes(' on calls_2026_11'));
    expect(ofCalls).toHaveLength(8);
    for (const plan of ofCalls) {
      // Months without calls are excluded when the statement runs.
      expect(plan).not.toMatch(/Seq Scan on calls_2026_11/);
      expect(plan).toMatch(/Index Cond: \(\(.*project_id = .*\) AND \(.*id >= .*\) AND \(.*id < /);
    }
  });
});
