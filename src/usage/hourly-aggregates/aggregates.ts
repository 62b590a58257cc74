/**
 * Builds SQL for rows that add up to the calls that match a filter. Uses hourly and daily aggregates where they exist,
 * and call rows for the rest of the time.
 */
import { dayMs, hourMs } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { type CallFilter, matchesValue, type Parameters, whereFilter } from '../analytics/call-filter.ts';
import { type Group, groupColumns } from '../analytics/figures-request.ts';
import type { Period } from '../analytics/range.ts';
import { type Cover, coverPeriods, splitSegments } from '../rollups/spans.ts';
import type { Addends } from '../sums.ts';
import type { AggregateScope } from './aggregate-scope.ts';

/** If the time without aggregates is longer than this, we count the call rows before we read them. */
const maxUncoveredMs = 6 * hourMs;

/**
 * Finds the hours and days of adjacent periods for which there are aggregates. For all other times, the figures have to
 * come from call rows. That's less than an hour at each end, hours that are outdated, and the time before there were
 * aggregates.
 *
 * The figures are read by a later statement. If calls of an hour change in between, it still uses the aggregates that
 * we've found here, and doesn't see the change.
 */
export async function coverByAggregates(queries: Queries, projectId: string, periods: readonly Period[]): Promise<Cover> {
  const [from, to] = [periods[0]?.from ?? 0, periods.at(-1)?.to ?? 0];
  const rows = await queries.query<{ filledFrom: number; span: 'hour' | 'day' | null; start: Date | null }>(
    `select extract(epoch from filled_from)::float8 * 1000 as "filledFrom", outdated.span, outdated.start
       from usage_cells_fill
       left join (
         select distinct span, start from usage_outdated
          where project_id = $1::uuid and start >= $2::timestamptz - interval '1 day' and start < $3::timestamptz
       ) as outdated on true`,
    [projectId, new Date(from), new Date(to)],
  );
  const filledFrom = rows[0]?.filledFrom ?? Number.POSITIVE_INFINITY;
  const outdated = new Set<string>();
  for (const { span, start } of rows) {
    if (span === null || start === null) continue;
    const at = start.getTime();
    outdated.add(`${span} ${at}`).add(`day ${at - (at % dayMs)}`);
  }
  return coverPeriods(periods, ['day', 'hour'], (span, at) => at >= filledFrom && !outdated.has(`${span} ${at}`));
}

/** Returns true if so much of the range has no aggregates that we may have to read many call rows. */
export function isMostlyRows({ edges }: Cover): boolean {
  return edges.reduce((sum, { from, to }) => sum + to - from, 0) > maxUncoveredMs;
}

export interface AggregateRequest {
  readonly projectId: string;
  readonly scope: AggregateScope;
  readonly filter: CallFilter;
  readonly group: Group | null;
  readonly cover: Cover;
}

export function aggregatesOf({ projectId, scope, filter, group, cover }: AggregateRequest, parameters: Parameters): readonly Addends[] {
  const { add, addIds, addTimes } = parameters;
  const project = `${add(projectId)}::uuid`;
  const { [scope as keyof CallFilter]: name, ...attributes } = filter;
  // When filtering by name, it's faster to look up each span separately in the index.
  const segments = name === undefined ? cover.segments : splitSegments(cover.segments);
  const inSegment =
    name === undefined
      ? 'aggregate.start >= segment.first and aggregate.start < segment.after'
      : `aggregate.start = segment.first and ${matchesValue('aggregate.name', name, parameters)}`;
  // `offset 0` makes PostgreSQL scan one index range per segment or edge (see `rollupsOf` in rollups/rollup-sums.ts).
  return [
    {
      row: 'stored',
      name: group === null ? 'null::text' : `stored.${group === scope ? 'name' : group}::text`,
      from: `unnest(${add(segments.map(({ span }) => span))}::text[], ${addTimes(segments, 'from')}, ${addTimes(segments, 'to')})
         as segment (span, first, after)
       cross join lateral (
         select aggregate.* from usage_cells aggregate
          where aggregate.project_id = ${project} and aggregate.scope = '${scope}' and aggregate.span = segment.span and ${inSegment}
         offset 0
       ) as stored`,
      where: whereFilter(attributes, parameters, 'stored'),
    },
    {
      row: scope === 'provider' ? 'a' : 'c',
      name: group === null ? 'null::text' : groupColumns[group],
      from: `unnest(${addIds(cover.edges, 'from')}, ${addIds(cover.edges, 'to')}) as edge (first, after)
       cross join lateral (
         select c.* from calls c where c.project_id = ${project} and c.id >= edge.first and c.id < edge.after offset 0
       ) as c
       ${scope === 'provider' ? 'cross join lateral (select a.* from attempts a where a.call_id = c.id offset 0) as a' : ''}`,
      where: whereFilter(filter, parameters),
    },
  ];
}
