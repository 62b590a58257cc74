/**
 * Tests the alerts in deploy/prometheus and the dashboards in deploy/grafana. They have to be valid, use metrics that
 * exist, and say the right things.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { parser } from '@prometheus-io/lezer-promql';
import { parse, stringify } from 'yaml';
import { metrics } from '../../src/observability/metrics/definitions.ts';
import { root } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { ensurePrometheusProgram } from '../support/prometheus-programs.ts';
import { run } from '../support/run.ts';

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}

const rulesFile = join(root, 'deploy/prometheus/alerts.yaml');
const rules: readonly Rule[] = parse(readFileSync(rulesFile, 'utf8')).groups.flatMap(({ rules }: { rules: Rule[] }) => rules);

/** The metrics that PromQL may use with their label names, keyed by series name. `up` is Prometheus's own. */
const series = new Map<string, readonly string[]>([
  ['up', []],
  ...Object.values(metrics).flatMap(({ name, type, labels }): [string, readonly string[]][] =>
    type === 'histogram' ? ['bucket', 'sum', 'count'].map((part) => [`${name}_${part}`, [...labels, 'le']]) : [[name, labels]],
  ),
]);
const targetLabels = ['job', 'instance'];

/** Returns what is wrong with an expression: syntax errors, and metrics and labels that do not exist. */
function checkPromql(expression: string): string[] {
  // Grafana's variables.
  const text = expression.replaceAll('$__rate_interval', '5m').replaceAll('$__range', '1h');
  const problems: string[] = [];
  const names: string[] = [];
  const labels: string[] = [];
  parser.parse(text).iterate({
    enter({ type, from, to }) {
      const part = text.slice(from, to);
      if (type.isError) problems.push(`syntax error at ${from} of ${text}`);
      if (type.name === 'Identifier') names.push(part);
      if (type.name === 'LabelName') labels.push(part);
    },
  });
  const known = new Set([...targetLabels, ...names.flatMap((name) => series.get(name) ?? [])]);
  problems.push(...names.filter((name) => !series.has(name)).map((name) => `no metric ${name}`));
  problems.push(...labels.filter((label) => !known.has(label)).map((label) => `no label ${label}: ${text}`));
  if (names.length === 0) problems.push(`no metric in ${text}`);
  return problems;
}

test('rejects PromQL with an unknown metric or label', () => {
  expect(checkPromql('sum by (route) (rate(gateway_calls_total{outcome="ok"}[5m]))')).toEqual([]);
  expect(checkPromql('sum(gateway_calls_total').join()).toContain('syntax error');
  expect(checkPromql('gateway_call_total')).toEqual(['no metric gateway_call_total']);
  expect(checkPromql('gateway_calls_total{project="x"}').join()).toContain('no label project');
});

test('links each alert to its own runbook', () => {
  expect(rules.flatMap(({ expr }) => checkPromql(expr))).toEqual([]);
  const anchors = rules.map(({ alert }) => `alert-${alert.toLowerCase()}`);
  expect(rules.map(({ annotations }) => annotations.runbook_url)).toEqual(anchors.map((anchor) => `docs/operating.md#${anchor}`));
});

/**
 * Series by name and labels, in Prometheus's notation for one value per minute. The first ten minutes are healthy. Also
 * says when the alert fires, and with which labels besides its severity.
 */
const gateway = { job: 'gateway', instance: 'a:9464' };
const cases: Readonly<
  Record<string, { readonly series: Readonly<Record<string, string>>; readonly labels?: Readonly<Record<string, string>> }>
> = {
  GatewayDown: { series: { 'up{job="gateway",instance="a:9464"}': '1x10 0x50' }, labels: gateway },
  CallsFail: {
    series: {
      'gateway_calls_total{route="chat",outcome="ok"}': '0+600x60',
      'gateway_calls_total{route="chat",outcome="failed"}': '0x10 0+60x50',
    },
  },
  CallsRejected: {
    series: {
      'gateway_error_responses_total{code="budget_unavailable"}': '0x10 0+60x50',
      'gateway_error_responses_total{code="tenant_capped"}': '0+600x60',
    },
    labels: { code: 'budget_unavailable' },
  },
  FirstChunkSlow: {
    series: {
      'gateway_call_first_chunk_seconds_bucket{route="chat",le="20"}': '0+60x10 600x50',
      'gateway_call_first_chunk_seconds_bucket{route="chat",le="40"}': '0+60x60',
      'gateway_call_first_chunk_seconds_bucket{route="chat",le="+Inf"}': '0+60x60',
    },
  },
  UnmeteredCalls: { series: { gateway_unmetered_calls_total: '0x10 0+5x50' } },
  BodyMemoryFull: {
    series: {
      'gateway_body_memory_bytes{job="gateway",instance="a:9464"}': '1x10 95x50',
      'gateway_body_memory_limit_bytes{job="gateway",instance="a:9464"}': '100x60',
    },
    labels: gateway,
  },
  ProviderFails: {
    series: {
      'gateway_attempts_total{provider="one",model="m",outcome="ok"}': '0+60x10 600+6x50',
      'gateway_attempts_total{provider="one",model="m",outcome="failed"}': '0x10 0+60x50',
      'gateway_attempts_total{provider="two",model="m",outcome="ok"}': '0+60x60',
    },
    labels: { provider: 'one' },
  },
  ProviderHangs: {
    series: {
      'gateway_slow_attempts_total{provider="one"}': '0x10 0+60x50',
      'gateway_slow_attempts_total{provider="two"}': '0x60',
      'gateway_attempts_total{provider="one",model="m",outcome="ok"}': '0+60x10 600x50',
      'gateway_attempts_total{provider="two",model="m",outcome="ok"}': '0+60x60',
    },
    labels: { provider: 'one' },
  },
  ProviderLimitsRate: {
    series: {
      'gateway_attempts_total{provider="one",model="m",outcome="ok"}': '0+60x60',
      'gateway_attempts_total{provider="one",model="m",outcome="rate_limited"}': '0x10 0+60x50',
    },
    labels: { provider: 'one' },
  },
  BreakersOpen: { series: { 'gateway_breakers{provider="one",state="open"}': '0x10 2x50' }, labels: { provider: 'one' } },
  CloudIdentityFails: {
    series: {
      'gateway_identity_refresh_failures_total{provider="one"}': '0x10 0+1x50',
      'gateway_identity_remaining_seconds{provider="one"}': '1800x60',
    },
    labels: { provider: 'one' },
  },
  LocalEmbedderDown: { series: { 'gateway_local_embedder_up{job="gateway",instance="a:9464"}': '1x10 0x50' }, labels: gateway },
  ModelWithoutPrice: {
    series: { 'gateway_unpriced_attempts_total{provider="one",model="m"}': '0x10 0+1x50' },
    labels: { provider: 'one', model: 'm' },
  },
  JournalNotWritable: { series: { 'gateway_journal_accepting{job="gateway",instance="a:9464"}': '1x10 0x50' }, labels: gateway },
  CallsLost: { series: { 'gateway_journal_lost_calls_total{job="gateway",instance="a:9464"}': '0x10 0+1x50' }, labels: gateway },
  JournalLag: { series: { 'gateway_journal_lag_seconds{job="gateway",instance="a:9464"}': '1x10 0+60x50' }, labels: gateway },
  RecordsQuarantined: { series: { 'gateway_quarantined_records{job="gateway",instance="a:9464"}': '0x10 1x50' }, labels: gateway },
  LeasesWithoutOwner: { series: { gateway_leases_without_owner: '0x10 3x50' } },
  CeilingReached: {
    series: {
      'gateway_ceilings{scope="key",ceiling="cost",state="reached"}': '0x10 1x50',
      'gateway_ceilings{scope="key",ceiling="cost",state="near"}': '4x60',
    },
    labels: { scope: 'key', ceiling: 'cost' },
  },
  DatabaseUnavailable: { series: { 'gateway_database_up{job="gateway",instance="a:9464"}': '1x10 0x50' }, labels: gateway },
  DatabaseConnectionsBusy: {
    series: { 'gateway_database_waiting_queries{job="gateway",instance="a:9464",pool="main"}': '0x10 7x50' },
    labels: { ...gateway, pool: 'main' },
  },
  TemporalUnavailable: { series: { 'gateway_temporal_up{job="gateway",instance="a:9464"}': '1x10 0x50' }, labels: gateway },
  WorkerMissing: { series: { 'gateway_worker_polling{instance="w:9464"}': '1x10 _x50', 'gateway_temporal_up{instance="a:9464"}': '1x60' } },
  OutboxLag: { series: { gateway_outbox_lag_seconds: '1x10 0+60x50', gateway_temporal_up: '1x60' } },
  TemporalBacklog: {
    series: {
      'gateway_temporal_backlog_age_seconds{type="workflow"}': '5x10 90x50',
      'gateway_temporal_backlog_age_seconds{type="activity"}': '0x60',
    },
    labels: { type: 'workflow' },
  },
  // These rows are due for a minute of each hour, so they don't count as rejected.
  OutboxRowsRejected: {
    series: { 'gateway_outbox_rows{state="rejected"}': '0x10 1x28 0 1x50', 'gateway_outbox_rows{state="due"}': '5x60' },
  },
  LearningLag: { series: { gateway_learning_lag_seconds: '0x10 7200x50', 'gateway_temporal_up{job="gateway",instance="a:9464"}': '1x60' } },
  LearningBatchesFailing: {
    series: { 'gateway_learning_batches{state="failing"}': '0x10 1x50', 'gateway_learning_batches{state="running"}': '9x60' },
  },
  ConversationsKeptUnlearned: { series: { gateway_conversations_kept_unlearned: '0x10 3x110' } },
  EventLoopBlocked: {
    series: {
      'gateway_event_loop_lag_seconds{job="gateway",instance="a:9464",quantile="0.99"}': '0.01x10 0.8x50',
      'gateway_event_loop_lag_seconds{job="gateway",instance="a:9464",quantile="1"}': '3x60',
    },
    labels: { ...gateway, quantile: '0.99' },
  },
  ProcessSilent: {
    series: { 'gateway_processes{job="gateway",instance="a:9464",state="silent"}': '0x10 1x50' },
    labels: { ...gateway, state: 'silent' },
  },
};

/**
 * One of two calls fails every other minute, which is too few for an alert. Without Temporal nothing is learned, as
 * configured.
 */
const noAlerts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  CallsFail: {
    'gateway_calls_total{route="chat",outcome="ok"}': '0+0.5x60',
    'gateway_calls_total{route="chat",outcome="failed"}': '0+0.5x60',
  },
  CallsRejected: { 'gateway_error_responses_total{code="budget_unavailable"}': '0+0.5x60' },
  LearningLag: { gateway_learning_lag_seconds: '7200x60' },
  ProviderFails: {
    'gateway_attempts_total{provider="one",model="m",outcome="ok"}': '0+0.4x60',
    'gateway_attempts_total{provider="one",model="m",outcome="failed"}': '0+0.5x60',
  },
  ProviderHangs: {
    'gateway_slow_attempts_total{provider="one"}': '0+0.5x60',
    'gateway_attempts_total{provider="one",model="m",outcome="ok"}': '0+0.5x60',
    // They are many in number, but few among all requests.
    'gateway_slow_attempts_total{provider="two"}': '0+10x60',
    'gateway_attempts_total{provider="two",model="m",outcome="ok"}': '0+600x60',
  },
  ProviderLimitsRate: {
    'gateway_attempts_total{provider="one",model="m",outcome="ok"}': '0+0.5x60',
    'gateway_attempts_total{provider="one",model="m",outcome="rate_limited"}': '0+0.5x60',
  },
  CloudIdentityFails: {
    'gateway_identity_refresh_failures_total{provider="one"}': '0x55 2x10',
    'gateway_identity_remaining_seconds{provider="one"}': '1800x60',
  },
};

/**
 * Scraped every 15 seconds. The vendor stops responding after ten minutes. Its attempts count as slow ten seconds
 * later, or after a minute in a new process.
 */
const hangingVendors = [
  {
    series: {
      'gateway_slow_attempts_total{provider="one"}': '0x41 0+15x3 45x120',
      'gateway_attempts_total{provider="one",model="m",outcome="ok"}': '0+15x40 600x120',
    },
    minutes: 11,
  },
  { series: { 'gateway_slow_attempts_total{provider="one"}': '0x44 0+1x120' }, minutes: 12 },
];

/**
 * Scraped every 15 seconds. A vendor fails after ten minutes while another one serves its calls. Its breaker opens
 * after five failures, and is half-open during a probe 30, 90, 210 and 450 seconds later.
 */
const failingOver = {
  'gateway_attempts_total{provider="one",model="m",outcome="ok"}': '0+150x40 6000x60',
  'gateway_attempts_total{provider="one",model="m",outcome="failed"}': '0x40 5x2 6x4 7x8 8x16 9x30',
  'gateway_breakers{provider="one",state="open"}': '0x40 1x1 0 1x3 0 1x7 0 1x15 0 1x30',
};
/** A breaker that opens once and closes after its second probe. */
const openedOnce = { 'gateway_breakers{provider="one",state="open"}': '0x40 1x6 0x80' };

/** This is long enough after the fault that every alert must have fired. */
const firedAt = '80m';
const healthyAt = '10m';

describe('promtool', () => {
  test('each alert fires for the fault it describes', async () => {
    const promtool = await ensurePrometheusProgram('promtool');
    if (promtool === null) {
      if (process.env.CI === 'true') throw new Error('promtool is not installed');
      return process.stderr.write('tests: no promtool: the alerts are not tested\n');
    }
    expect(Object.keys(cases).toSorted()).toEqual(rules.map(({ alert }) => alert).toSorted());
    const tests = rules.map(({ alert, labels: { severity }, annotations }) => {
      const { series = {}, labels = {} } = cases[alert] ?? {};
      const expand = (template: string): string => template.replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_whole, name) => labels[name] ?? '');
      const fired = {
        exp_labels: { severity, ...labels },
        exp_annotations: { ...annotations, summary: expand(annotations.summary) },
      };
      return toRuleTest(series, [
        { eval_time: healthyAt, alertname: alert, exp_alerts: [] },
        { eval_time: firedAt, alertname: alert, exp_alerts: [fired] },
      ]);
    });
    for (const [alert, series] of Object.entries(noAlerts))
      tests.push(toRuleTest(series, [{ eval_time: firedAt, alertname: alert, exp_alerts: [] }]));
    tests.push(...hangingVendors.map(({ series, minutes }) => toTimedTest('ProviderHangs', series, [minutes, minutes + 5])));
    tests.push(toTimedTest('BreakersOpen', failingOver, [14, 20]), toTimedTest('BreakersOpen', openedOnce, []));
    const folder = await mkdtemp(join(tmpdir(), 'alerts-'));
    try {
      const file = join(folder, 'cases.yaml');
      await writeFile(file, stringify({ rule_files: [rulesFile], evaluation_interval: '1m', tests }));
      expect(await run(promtool, ['check', 'rules', rulesFile])).toContain(`${rules.length} rules found`);
      expect(await run(promtool, ['test', 'rules', file], { timeoutMs: 240_000 })).toContain('SUCCESS');
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    return undefined;
  });
});

function toRuleTest(series: Readonly<Record<string, string>>, expected: readonly object[]) {
  const input = Object.entries(series).map(([name, values]) => ({ series: name, values: lengthen(values) }));
  return { interval: '1m', input_series: input, alert_rule_test: expected };
}

/** An alert for the provider `one` that has to fire at exactly these minutes. */
function toTimedTest(alertname: string, series: Readonly<Record<string, string>>, minutes: readonly number[]) {
  const rule = rules.find(({ alert }) => alert === alertname);
  const summary = rule?.annotations.summary.replace('{{ $labels.provider }}', 'one');
  const fired = { exp_labels: { severity: 'warning', provider: 'one' }, exp_annotations: { ...rule?.annotations, summary } };
  const quiet = minutes.length === 0 ? [11, 12, 13, 14, 15, 20] : [];
  return {
    interval: '15s',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    alert_rule_test: [
      { eval_time: healthyAt, alertname, exp_alerts: [] },
      ...quiet.map((minute) => ({ eval_time: `${minute}m`, alertname, exp_alerts: [] })),
      ...minutes.map((minute) => ({ eval_time: `${minute}m`, alertname, exp_alerts: [fired] })),
    ],
  };
}

/** Repeats the last part of a series. `x50` is more than an hour. */
function lengthen(values: string): string {
  return values.replace(/x[56]0$/, 'x120');
}

interface Panel {
  readonly targets?: readonly { readonly expr?: string; readonly rawSql?: string }[];
}

const boardsFolder = join(root, 'deploy/grafana');
const boards = readdirSync(boardsFolder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => ({ name, board: JSON.parse(readFileSync(join(boardsFolder, name), 'utf8')) as BoardJson }));

interface BoardJson {
  readonly uid: string;
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly query: string; readonly datasource: { readonly uid: string } }[];
  };
}

const targetsOf = ({ panels }: BoardJson) => panels.flatMap(({ targets = [] }) => targets);

test('dashboards use only metrics that exist', () => {
  expect(boards.map(({ name }) => name)).toEqual(['gateway.json', 'spend.json']);
  const expressions = boards.flatMap(({ board }) => targetsOf(board).flatMap(({ expr }) => expr ?? []));
  expect(expressions.length).toBeGreaterThan(15);
  expect(expressions.flatMap(checkPromql)).toEqual([]);
  const used = [...expressions, ...rules.map(({ expr }) => expr)].join('\n');
  expect(
    Object.values(metrics)
      .filter(({ name }) => !new RegExp(`\\b${name}(?:_bucket)?\\b`).test(used))
      .map(({ name }) => name),
  ).toEqual([
    // The board doesn't show these metrics. They answer more detailed questions.
    'gateway_response_cache_entries',
    'gateway_response_cache_bytes',
    'gateway_prompts_to_convert',
    'gateway_temporal_fairness',
    'gateway_cached_keys',
    'gateway_database_connections_limit',
    'process_open_fds',
  ]);
});

test('each metric with an alert is shown on a dashboard', () => {
  const shown = boards.flatMap(({ board }) => targetsOf(board).flatMap(({ expr }) => expr ?? [])).join('\n');
  const watched = Object.values(metrics).filter(({ name }) => rules.some(({ expr }) => expr.includes(name)));
  const missing = watched.filter(({ name }) => !shown.includes(name)).map(({ name }) => name);
  expect(missing).toEqual(['gateway_slow_attempts_total', 'gateway_local_embedder_up']);
});

describePostgres('the spend dashboard', () => {
  test('the spend dashboard works with a read-only database role', async () => {
    const { url, drop } = await createTestDatabase();
    const database = openTestDatabase(url, 1);
    try {
      const statements = boards.flatMap(({ board }) => [
        ...targetsOf(board).flatMap(({ rawSql }) => rawSql ?? []),
        ...board.templating.list.flatMap(({ query, datasource }) => (datasource.uid === 'gateway' ? [query] : [])),
      ]);
      expect(statements.length).toBeGreaterThan(4);
      const projectId = '00000000-0000-7000-8000-000000000001';
      const role = `board_${Date.now()}`;
      await database.query(`insert into projects (id, slug, name) values ('${projectId}', 'acme', 'Acme')`);
      await database.query(
        `insert into usage_rollups (project_id, scope, span, start, name, calls, vendor_calls, vendor_tokens, slots, errors, unpriced, cost_nanos,
           tokens_input, tokens_cached_input, tokens_cache_write, tokens_output, cache_hits, cache_lookups, failovers)
         select '${projectId}', scope, span, date_trunc(case span when 'quarter' then 'hour' else span end, now(), 'UTC'),
                case scope when 'model' then 'one/echo' end, 2, 2, 10, 2, 1, 0, 1500000000, 8, 0, 0, 2, 0, 0, 0
           from unnest(array['project', 'model']) as scope, unnest(array['quarter', 'day', 'month']) as span`,
      );
      const rows = await database.transaction(async (tx) => {
        await tx.query(`create role ${role}`);
        await tx.query(`grant select (id, slug, name) on projects to ${role}`);
        await tx.query(`grant select on usage_rollups, usage_increments to ${role}`);
        await tx.query(`set local role ${role}`);
        const found: Record<string, unknown>[] = [];
        for (const statement of statements) {
          const result = await tx.query(expandMacros(statement));
          expect([statement, result.length > 0]).toEqual([statement, true]);
          found.push(...result);
        }
        await tx.query('reset role');
        await tx.query(`drop owned by ${role}`);
        await tx.query(`drop role ${role}`);
        return found;
      });
      expect(rows.some((row) => Object.values(row).includes(1.5))).toBe(true);
    } finally {
      await database.close();
      await drop();
    }
  });
});

/** Expands Grafana's macros and variables like Grafana does for the last 30 days and all projects. */
function expandMacros(statement: string): string {
  return statement
    .replaceAll(/\$__timeFilter\((\w+(?:\.\w+)?)\)/g, `$1 between now() - interval '30 days' and now()`)
    .replaceAll('$__timeFrom()', `(now() - interval '30 days')`)
    .replaceAll('$__timeTo()', 'now()')
    .replaceAll(/\$\{project:sqlstring\}/g, `'acme'`);
}
