/**
 * Builds SQL that selects rows which add up to the calls of a project, or of several projects. They are rollups, the increments that
 * transactions have appended to them, and call rows. We read call rows where a period begins or ends within a span, or
 * where the rollups haven't been filled in yet. A single statement reads everything, so each call is counted exactly
 * once.
 *
 * Each rollup is by a single attribute of calls (`Scope`). For a combination such as a key and a model, you have to
 * read the call rows.
 */
import { minIdAt } from '../../core/ids.ts';
import type { Parameters } from '../analytics/call-filter.ts';
import type { Period } from '../analytics/range.ts';
import { type Addends, type Measure, selectSums } from '../sums.ts';
import { coverPeriods, joinAdjacent, splitSegments } from './spans.ts';

/** `project` sums up all calls. */
export type Scope = 'project' | 'key' | 'source' | 'model' | 'task';

export interface RollupRequest {
  /** With several ids, the sums of the scope `project` have the id of their project as their name. */
  readonly projectId: string | readonly string[];
  readonly scope: Scope;
  /** Each period begins where the previous one ends. No row belongs to two periods. */
  readonly periods: readonly Period[];
  /** Reads only these names. Null stands for calls without a value. Each name is a lookup in the index. */
  readonly names?: readonly (string | null)[];
  /** Names keys by their prefix instead of their id. */
  readonly byPrefix?: boolean;
  /** Returns a condition on the SQL expression of the name. */
  readonly condition?: (name: string) => string;
}

const nameColumns: Readonly<Record<Scope, string>> = {
  project: 'null::text',
  key: 'c.key_id::text',
  source: 'c.source',
  model: 'c.model',
  task: 'c.task_id',
};

/** There are many tasks, and most of them are short, so shorter spans wouldn't help. */
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
  /** For each project, PostgreSQL scans the same ranges of the index. */
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
