/**
 * Builds SQL for rows that add up to the calls of one or more projects. These are rollups, increments to them that
 * transactions have appended, and call rows. We need call rows where a period begins or ends in the middle of a span,
 * or if the rollups haven't been filled in yet. Everything is read by a single statement, so each call is counted
 * exactly once.
 *
 * Each rollup is by a single attribute (`Scope`). For combinations, such as a key and a model, the call rows have to be
 * read.
 */
import { minIdAt } from '../../core/ids.ts';
import type { Parameters } from '../analytics/call-filter.ts';
import type { Period } from '../analytics/range.ts';
import { type Addends, type Measure, selectSums } from '../sums.ts';
import { coverPeriods, joinAdjacent, splitSegments } from './spans.ts';

/** The attribute by which a rollup sums up calls. `project` sums up all calls of the project. */
export type Scope = 'project' | 'key' | 'source' | 'model' | 'task';

export interface RollupRequest {
  /** With several projects and the scope `project`, the name of each sum is a project id. */
  readonly projectId: string | readonly string[];
  readonly scope: Scope;
  /** The periods to sum up. Each period begins where the previous one ends, and no row can belong to two periods. */
  readonly periods: readonly Period[];
  /** Only read the sums with these names. Each name takes one index lookup. Null stands for calls without a value. */
  readonly names?: readonly (string | null)[];
  /** If true, keys are identified by their prefix instead of their id. */
  readonly byPrefix?: boolean;
  /** An extra condition on the rows. It's passed the SQL expression for the name. */
  readonly condition?: (name: string) => string;
}

const nameColumns: Readonly<Record<Scope, string>> = {
  project: 'null::text',
  key: 'c.key_id::text',
  source: 'c.source',
  model: 'c.model',
  task: 'c.task_id',
};

/**
 * The kinds of spans for which we store sums by task. There are many tasks and most of them are short, so shorter spans
 * wouldn't reduce the number of rows.
 */
const taskSpans = ['month', 'day'] as const;

export function selectRollupSums(request: RollupRequest, wanted: readonly Measure[], parameters: Parameters): string {
  return selectSums(rollupsOf(request, parameters), wanted);
}

export function rollupsOf(request: RollupRequest, { add }: Parameters): readonly Addends[] {
  const { projectId, scope, periods, names, byPrefix = false, condition = () => 'true' } = request;
  const cover = coverPeriods(periods, scope === 'task' ? taskSpans : [...taskSpans, 'quarter']);
  const { edges } = cover;
  const segments = names ? splitSegments(cover.segments) : cover.segments;
  const covered = joinAdjacent(cover.segments);
  const isSingle = typeof projectId === 'string';
  const project = isSingle ? `${add(projectId)}::uuid` : 'project.id';
  /** With this join, PostgreSQL scans the index ranges of one project after another. */
  const ofProjects = isSingle ? '' : `unnest(${add(projectId)}::uuid[]) as project (id) cross join `;
  const times = (ranges: readonly Period[], side: keyof Period): string =>
    `${add(ranges.map((period) => new Date(period[side])))}::timestamptz[]`;
  const ids = (ranges: readonly Period[], side: keyof Period): string => `${add(ranges.map((period) => minIdAt(period[side])))}::uuid[]`;
  const isNamed = (name: string): string[] =>
    names
      ? [`${name} = any(${add(names.filter((given) => given !== null))}::text[])`, ...(names.includes(null) ? [`${name} is null`] : [])]
      : ['true'];
  const inSegment = names ? 'r.start = segment.first' : 'r.start >= segment.first and r.start < segment.after';
  const isNamedByProject = scope === 'project' && !isSingle;
  const storedName = isNamedByProject ? 'project.id::text' : byPrefix ? 'stored.key_prefix' : 'stored.name';
  const rowName = isNamedByProject ? 'project.id::text' : byPrefix ? 'c.key_prefix' : nameColumns[scope];
  // `offset 0` makes PostgreSQL scan a range of the index for each period. Without it, the planner may choose a join
  // that reads all rows of the project.
  return [
    {
      row: 'stored',
      name: storedName,
      from: `${ofProjects}unnest(${add(segments.map(({ span }) => span))}::text[], ${times(segments, 'from')}, ${times(segments, 'to')})
             as segment (span, first, after)
       cross join lateral (${isNamed('r.name')
         .map(
           (named) => `
         select r.* from usage_rollups r
          where r.project_id = ${project} and r.scope = '${scope}' and r.span = segment.span and ${inSegment} and ${named}`,
         )
         .join(' union all ')}
         offset 0
       ) as stored`,
      where: condition(storedName),
    },
    {
      row: 'stored',
      name: storedName,
      from: `${ofProjects}unnest(${times(covered, 'from')}, ${times(covered, 'to')}) as covered (first, after)
       cross join lateral (
         select i.* from usage_increments i
          where i.project_id = ${project} and i.scope = '${scope}' and i.start >= covered.first and i.start < covered.after
         offset 0
       ) as stored`,
      where: `(${isNamed('stored.name').join(' or ')}) and ${condition(storedName)}`,
    },
    {
      row: 'c',
      name: rowName,
      from: `${ofProjects}(
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
      where: condition(rowName),
    },
  ];
}
