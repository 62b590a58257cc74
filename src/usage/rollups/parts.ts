/**
 * SQL of rows that add up to the calls of a project: rollups, what transactions have appended to them, and call rows where a period begins or
 * ends within a span, or where the rollups are not filled in yet. One statement reads all of them, so that every call is in exactly one row.
 *
 * Rollups are by one attribute of calls each (`Scope`): what is both of a key and of a model is in call rows only.
 */
import { minIdAt } from '../../core/ids.ts';
import { failoversSql, isErrorSql, type Parameters } from '../analytics/call-filter.ts';
import type { Period } from '../analytics/range.ts';
import { allSpans, coverPeriods, splitSegments, taskSpans } from './spans.ts';

/** `project`: all calls. */
export type Scope = 'project' | 'key' | 'source' | 'model' | 'task';

export interface PartsRequest {
  readonly projectId: string;
  readonly scope: Scope;
  /** Adjacent. No row is of two of them. */
  readonly periods: readonly Period[];
  /** Only these; null: calls without. Each is a lookup in the index. */
  readonly names?: readonly (string | null)[];
  /** Condition on the SQL expressions of the name (of a key: its id) and of the key's prefix. */
  readonly condition?: (name: string, keyPrefix: string) => string;
}

/** What is summed, with its SQL on call rows `c`. Costs and tokens are numeric. */
export const callMeasures = {
  calls: '1',
  vendor_calls: 'c.vendor_called::integer',
  slots: '(c.vendor_called and c.takes_slot)::integer',
  ...amountsOf('c'),
  cache_hits: `coalesce(c.cache = 'hit', false)::integer`,
  cache_lookups: '(c.cache is not null)::integer',
  failovers: failoversSql,
} as const;

export type Measure = keyof typeof callMeasures;

/** The same of attempts `a`. */
export const attemptMeasures: Readonly<Record<Measure, string>> = {
  ...{ calls: '1', vendor_calls: '1', slots: '1', cache_hits: '0', cache_lookups: '0' },
  ...amountsOf('a'),
  failovers: '(a.n > 1)::integer',
};

function amountsOf(row: 'a' | 'c') {
  return {
    errors: `(${isErrorSql(row)})::integer`,
    unpriced: `(${row}.cost_nanos is null)::integer`,
    cost_nanos: `coalesce(${row}.cost_nanos, 0)`,
    tokens_input: `${row}.tokens_input`,
    tokens_cached_input: `${row}.tokens_cached_input`,
    tokens_cache_write: `${row}.tokens_cache_write + ${row}.tokens_cache_write_1h`,
    tokens_output: `${row}.tokens_output`,
  } as const;
}

export type Histogram = 'durations' | 'first_chunks';

/** The time of a call `c` or attempt `a` in a histogram, and which of them are in it. */
export function histogramRows(histogram: Histogram, row: 'a' | 'c'): { readonly column: string; readonly isTimed: string } {
  return histogram === 'durations'
    ? { column: `${row}.duration_ms`, isTimed: `${row}.outcome = 'ok'` }
    : { column: `${row}.first_byte_ms`, isTimed: `${row}.outcome = 'ok' and c.stream and ${row}.first_byte_ms is not null` };
}

const nameColumns: Readonly<Record<Scope, string>> = {
  project: 'null::text',
  key: 'c.key_id::text',
  source: 'c.source',
  model: 'c.model',
  task: 'c.task_id',
};

/** A subquery with the columns `at` (a time in the period of its calls), `name`, `key_prefix` and the measures. */
export function selectParts(request: PartsRequest, wanted: readonly Measure[], parameters: Parameters): string {
  const { rollups, increments, calls } = sourcesOf(request, parameters);
  const stored = (row: string): string => wanted.map((measure) => `${row}.${measure}`).join(', ');
  return `
    select r.start as at, r.name, r.key_prefix, ${stored('r')} from ${rollups.from} where ${rollups.where}
    union all
    select i.start, i.name, i.key_prefix, ${stored('i')} from ${increments.from} where ${increments.where}
    union all
    select c.started_at, ${nameColumns[request.scope]}, c.key_prefix, ${wanted.map((measure) => callMeasures[measure]).join(', ')}
      from ${calls.from} where ${calls.where}`;
}

/** A subquery with the columns `at`, `name`, `key_prefix`, `slot` and `n`: calls by slot of the histogram (`valueOfSlot`). */
export function selectHistogram(request: PartsRequest, histogram: Histogram, parameters: Parameters): string {
  const { rollups, increments, calls } = sourcesOf(request, parameters);
  const { column, isTimed } = histogramRows(histogram, 'c');
  return `
    select r.start as at, r.name, r.key_prefix, element & 1023 as slot, element >> 10 as n
      from ${rollups.from} cross join lateral unnest(r.${histogram}) as element where ${rollups.where}
    union all
    select i.start, i.name, i.key_prefix, element & 1023, element >> 10
      from ${increments.from} cross join lateral unnest(i.${histogram}) as element where ${increments.where}
    union all
    select c.started_at, ${nameColumns[request.scope]}, c.key_prefix, usage_slot(${column}), 1
      from ${calls.from} where ${calls.where} and ${isTimed}`;
}

/** Milliseconds of the calls in a slot, within 5 %. The inverse of `usage_slot` in the database. */
export function valueOfSlot(slot: number): number {
  return Math.round(Math.exp(slot / 10) - 1);
}

interface Source {
  readonly from: string;
  readonly where: string;
}

function sourcesOf(
  { projectId, scope, periods, names, condition = () => 'true' }: PartsRequest,
  { add }: Parameters,
): Readonly<Record<'rollups' | 'increments' | 'calls', Source>> {
  const cover = coverPeriods(periods, scope === 'task' ? taskSpans : allSpans);
  const { edges } = cover;
  const segments = names ? splitSegments(cover.segments) : cover.segments;
  const covered = joinAdjacent(cover.segments);
  const project = `${add(projectId)}::uuid`;
  const times = (of: readonly Period[], side: keyof Period): string => `${add(of.map((period) => new Date(period[side])))}::timestamptz[]`;
  const ids = (of: readonly Period[], side: keyof Period): string => `${add(of.map((period) => minIdAt(period[side])))}::uuid[]`;
  const isNamed = (name: string): string[] =>
    names
      ? [`${name} = any(${add(names.filter((given) => given !== null))}::text[])`, ...(names.includes(null) ? [`${name} is null`] : [])]
      : ['true'];
  const matches = (name: string, keyPrefix: string): string => `(${isNamed(name).join(' or ')}) and ${condition(name, keyPrefix)}`;
  const inSegment = names ? 'r.start = segment.first' : 'r.start >= segment.first and r.start < segment.after';
  // `offset 0` makes each period a range of the index: joined, the planner may read all rows of the project instead.
  return {
    rollups: {
      from: `unnest(${add(segments.map(({ span }) => span))}::text[], ${times(segments, 'from')}, ${times(segments, 'to')})
             as segment (span, first, after)
       cross join lateral (${isNamed('r.name')
         .map(
           (named) => `
         select r.* from usage_rollups r
          where r.project_id = ${project} and r.scope = '${scope}' and r.span = segment.span and ${inSegment} and ${named}`,
         )
         .join(' union all ')}
         offset 0
       ) as r`,
      where: condition('r.name', 'r.key_prefix'),
    },
    increments: {
      from: `unnest(${times(covered, 'from')}, ${times(covered, 'to')}) as covered (first, after)
       cross join lateral (
         select i.* from usage_increments i
          where i.project_id = ${project} and i.scope = '${scope}' and i.start >= covered.first and i.start < covered.after
         offset 0
       ) as i`,
      where: matches('i.name', 'i.key_prefix'),
    },
    calls: {
      from: `(
         select first, after, true as is_edge from unnest(${ids(edges, 'from')}, ${ids(edges, 'to')}) as edge (first, after)
         union all
         select first, least(after, (select filled_from from usage_rollup_fill)), false
           from unnest(${ids(covered, 'from')}, ${ids(covered, 'to')}) as covered (first, after)
       ) as period
       cross join lateral (
         select c.* from calls c
          where c.project_id = ${project} and c.id >= period.first and c.id < period.after and (period.is_edge or not c.in_rollups)
            and (${isNamed(nameColumns[scope]).join(' or ')})
         offset 0
       ) as c`,
      where: condition(nameColumns[scope], 'c.key_prefix'),
    },
  };
}

function joinAdjacent(periods: readonly Period[]): Period[] {
  const joined: Period[] = [];
  for (const { from, to } of periods) {
    const last = joined.at(-1);
    if (last?.to === from) joined[joined.length - 1] = { from: last.from, to };
    else joined.push({ from, to });
  }
  return joined;
}
