/**
 * Builds SQL for rows that add up to the calls of one or more projects. These are rollups, and increments that
 * transactions have appended but that haven't been merged yet. If a period begins or ends in the middle of a span, or
 * the rollups don't go back that far, we also need call rows. A single statement reads all of this, so it counts each
 * call exactly once.
 *
 * Each rollup is by a single attribute (`Scope`). If a request combines several, e.g. a key and a model, we can only
 * use call rows.
 */
import type { Parameters } from '../analytics/call-filter.ts';
import type { Period } from '../analytics/range.ts';
import { type Addends, type Measure, selectSums } from '../sums.ts';
import { coverPeriods, joinAdjacent, splitSegments } from './spans.ts';

/**
 * A rollup has one sum for each value of this attribute. `project` stands for a single sum of all calls in the project.
 */
export type Scope = 'project' | 'key' | 'source' | 'model' | 'task';

export interface RollupRequest {
  /**
   * The ids of one or more projects. With several projects and the scope `project`, the name of each sum is the id of
   * its project.
   */
  readonly projectId: string | readonly string[];
  readonly scope: Scope;
  /** Each period begins where the previous one ends, so that no row is in two of them. */
  readonly periods: readonly Period[];
  /**
   * If set, we only read the sums with these names, with one index lookup per name. Null stands for calls without a
   * value.
   */
  readonly names?: readonly (string | null)[];
  /** If true, keys are named by their prefix instead of their id. */
  readonly byPrefix?: boolean;
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
 * Rollups by task only exist per month and per day. Most tasks are so short that shorter spans wouldn't save any rows.
 */
const taskSpans = ['month', 'day'] as const;

export function selectRollupSums(request: RollupRequest, wanted: readonly Measure[], parameters: Parameters): string {
  return selectSums(rollupsOf(request, parameters), wanted);
}

export function rollupsOf(request: RollupRequest, { add, addIds: ids, addTimes: times }: Parameters): readonly Addends[] {
  const { projectId, scope, periods, names, byPrefix = false, condition = () => 'true' } = request;
  const cover = coverPeriods(periods, scope === 'task' ? taskSpans : [...taskSpans, 'quarter']);
  const { edges } = cover;
  const segments = names ? splitSegments(cover.segments) : cover.segments;
  const covered = joinAdjacent(cover.segments);
  const isSingle = typeof projectId === 'string';
  const project = isSingle ? `${add(projectId)}::uuid` : 'project.id';
  /** Joining with the list of projects makes PostgreSQL scan the index for one project after the other. */
  const ofProjects = isSingle ? '' : `unnest(${add(projectId)}::uuid[]) as project (id) cross join `;
  const isNamed = (name: string): string[] =>
    names
      ? [`${name} = any(${add(names.filter((given) => given !== null))}::text[])`, ...(names.includes(null) ? [`${name} is null`] : [])]
      : ['true'];
  const inSegment = names ? 'r.start = segment.first' : 'r.start >= segment.first and r.start < segment.after';
  const isNamedByProject = scope === 'project' && !isSingle;
  const storedName = isNamedByProject ? 'project.id::text' : byPrefix ? 'stored.key_prefix' : 'stored.name';
  const rowName = isNamedByProject ? 'project.id::text' : byPrefix ? 'c.key_prefix' : nameColumns[scope];
  // `offset 0` makes PostgreSQL scan one index range per period. Otherwise it might choose a join that reads all rows
  // of the project.
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
