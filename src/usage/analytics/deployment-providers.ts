/**
 * Reads the attempts of several projects by provider. Hours and days with hourly aggregates are read from these. For the
 * other hours, which are the current one and those in which a call was stored or changed since, we read call rows.
 */
import { minIdAt } from '../../core/ids.ts';
import { dayMs, hourMs } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { type Cover, coverPeriods } from '../rollups/spans.ts';
import { isErrorSql } from './call-filter.ts';
import { type DeploymentRequest, deploymentSums, type NamedFigures, toNamedFigures } from './deployment-figures.ts';
import type { Period } from './range.ts';
import { TooManyCalls } from './row-limit.ts';

/** Throws `TooManyCalls` if more than `maxRows` call rows would have to be read. */
export async function readDeploymentProviders(
  queries: Queries,
  request: DeploymentRequest & { readonly maxRows: number },
): Promise<NamedFigures[]> {
  const { maxRows } = request;
  const values = await findParts(queries, request);
  const [size] = await queries.query<{ rows: number }>(
    `select count(*) as rows from (select 1 from ${callRows} limit $14::integer) as counted`,
    [...values, maxRows + 1],
  );
  if (size && size.rows > maxRows) throw new TooManyCalls(size.rows);
  const rows = await queries.query<Parameters<typeof toNamedFigures>[0]>(selectProviders, [...values, maxProviders]);
  return rows.map(toNamedFigures);
}

const maxProviders = 200;

interface Mark {
  readonly projectId: string;
  readonly span: string;
  readonly start: number;
}

/** Finds the aggregates and the call rows that add up to the period. Returns the parameters of the statements below. */
async function findParts(queries: Queries, { projectIds, from, to }: DeploymentRequest): Promise<unknown[]> {
  const { marks, filledFrom } = await readMarks(queries, { projectIds, from, to });
  const stored = { from: Math.min(to, Math.max(from, filledFrom)), to };
  const cover = coverPeriods([stored], ['day', 'hour']);
  const edges = from < stored.from ? [{ from, to: stored.from }, ...cover.edges] : cover.edges;
  const days = new Map(marks.map((mark) => ({ ...mark, start: mark.start - (mark.start % dayMs) })).map((day) => [keyOf(day), day]));
  const outdatedDays = [...days.values()].filter((day) => isCovered(cover, 'day', day.start));
  const outdatedHours = marks.filter(
    ({ span, start }) => span === 'hour' && (isCovered(cover, 'day', start) || isCovered(cover, 'hour', start)),
  );
  const hours = outdatedHours.map(({ start }) => ({ from: start, to: start + hourMs }));
  return [
    projectIds,
    ...toTimes(cover.segments.filter(({ span }) => span === 'day')),
    ...toTimes(cover.segments.filter(({ span }) => span === 'hour')),
    ...[outdatedHours.map(({ projectId }) => projectId), outdatedHours.map(({ start }) => new Date(start))],
    ...[outdatedDays.map(({ projectId }) => projectId), outdatedDays.map(({ start }) => new Date(start))],
    ...[edges.map((edge) => minIdAt(edge.from)), edges.map((edge) => minIdAt(edge.to))],
    ...[hours.map((hour) => minIdAt(hour.from)), hours.map((hour) => minIdAt(hour.to))],
  ];
}

/** Reads the hours whose aggregates are missing or outdated, and the time before which there are none. */
async function readMarks(queries: Queries, { projectIds, from, to }: DeploymentRequest): Promise<{ marks: Mark[]; filledFrom: number }> {
  const rows = await queries.query<{ filledFrom: number; projectId: string | null; span: string | null; start: Date | null }>(
    `select extract(epoch from filled_from)::float8 * 1000 as "filledFrom", mark.project_id as "projectId", mark.span, mark.start
       from usage_cells_fill
       left join (
         select distinct o.project_id, o.span, o.start
           from unnest($1::uuid[]) as project (id)
          cross join lateral (
            select o.* from usage_outdated o
             where o.project_id = project.id and o.start >= $2::timestamptz and o.start < $3::timestamptz
            offset 0
          ) as o
       ) as mark on true`,
    [projectIds, new Date(from - dayMs), new Date(to)],
  );
  const marks = rows.flatMap(({ projectId, span, start }) =>
    projectId === null || span === null || start === null ? [] : [{ projectId, span, start: start.getTime() }],
  );
  return { marks, filledFrom: rows[0]?.filledFrom ?? Number.POSITIVE_INFINITY };
}

function keyOf({ projectId, start }: Mark): string {
  return `${projectId} ${start}`;
}

function isCovered({ segments }: Cover, span: 'day' | 'hour', at: number): boolean {
  return segments.some((segment) => segment.span === span && segment.from <= at && at < segment.to);
}

function toTimes(periods: readonly Period[]): [Date[], Date[]] {
  return [periods.map((period) => new Date(period.from)), periods.map((period) => new Date(period.to))];
}

/** `offset 0` makes PostgreSQL scan a range of the index for each project and period. */
const callRows = `(
         select project.id, edge.first, edge.after
           from unnest($1::uuid[]) as project (id) cross join unnest($10::uuid[], $11::uuid[]) as edge (first, after)
         union all
         select hour.* from unnest($6::uuid[], $12::uuid[], $13::uuid[]) as hour (id, first, after)
       ) as period
      cross join lateral (
        select c.id from calls c where c.project_id = period.id and c.id >= period.first and c.id < period.after offset 0
      ) as c`;

const storedSums = 'stored.name, stored.calls, stored.errors, stored.cost_nanos, stored.unpriced';

const aggregates = (span: 'day' | 'hour'): string => `cross join lateral (
        select a.* from usage_cells a
         where a.project_id = period.id and a.scope = 'provider' and a.span = '${span}' and a.start >= period.first and a.start < period.after
        offset 0
      ) as stored`;

/** The days, then the hours outside of these days and in outdated days, and then the calls of the rest. */
const selectProviders = `
  select name, ${deploymentSums}
    from (
      select ${storedSums}
        from (
          select project.id, segment.first, segment.after
            from unnest($1::uuid[]) as project (id) cross join unnest($2::timestamptz[], $3::timestamptz[]) as segment (first, after)
        ) as period
        ${aggregates('day')}
       where (period.id, stored.start) not in (select * from unnest($8::uuid[], $9::timestamptz[]))
      union all
      select ${storedSums}
        from (
          select project.id, segment.first, segment.after
            from unnest($1::uuid[]) as project (id) cross join unnest($4::timestamptz[], $5::timestamptz[]) as segment (first, after)
          union all
          select day.id, day.start, day.start + interval '24 hours' from unnest($8::uuid[], $9::timestamptz[]) as day (id, start)
        ) as period
        ${aggregates('hour')}
       where (period.id, stored.start) not in (select * from unnest($6::uuid[], $7::timestamptz[]))
      union all
      select a.provider, 1, (${isErrorSql('a')})::integer, coalesce(a.cost_nanos, 0), (a.cost_nanos is null)::integer
        from ${callRows}
       cross join lateral (select a.* from attempts a where a.call_id = c.id offset 0) as a
    ) as part
   group by 1 having sum(calls) <> 0 order by sum(cost_nanos) desc, sum(calls) desc, 1 limit $14::integer`;

/** The attempts of the last calls by provider. */
export interface RecentAttempts {
  readonly provider: string;
  readonly attempts: number;
  readonly failed: number;
}

/** Reads at most this many calls for the health of providers. */
const maxRecentCalls = 5_000;

/** Returns the attempts since then, of the latest calls of all projects. */
export function readRecentAttempts(queries: Queries, since: number): Promise<RecentAttempts[]> {
  return queries.query<RecentAttempts>(
    `select a.provider, count(*) as attempts, count(*) filter (where ${isErrorSql('a')}) as failed
       from (select id from calls where id >= $1::uuid order by id desc limit $2::integer) as c
      cross join lateral (select a.provider, a.outcome from attempts a where a.call_id = c.id offset 0) as a
      group by 1 order by 1`,
    [minIdAt(since), maxRecentCalls],
  );
}
