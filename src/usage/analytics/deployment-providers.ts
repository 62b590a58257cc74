/**
 * Reads attempts by provider across several projects. We use daily and hourly aggregates as far as possible. But the
 * current hour has none, and those of other hours are outdated if calls have been stored or changed recently. For these
 * hours we read call rows.
 */
import { minIdAt } from '../../core/ids.ts';
import { dayMs, hourMs } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { type Cover, coverPeriods } from '../rollups/spans.ts';
import { createParameters, isErrorSql, type Parameters as SqlParameters } from './call-filter.ts';
import { type DeploymentRequest, deploymentSums, type NamedFigures, toNamedFigures } from './deployment-figures.ts';
import type { Period } from './range.ts';
import { TooManyCalls } from './row-limit.ts';

/** Throws `TooManyCalls` if this would take more than `maxRows` call rows. */
export async function readDeploymentProviders(
  queries: Queries,
  request: DeploymentRequest & { readonly maxRows: number },
): Promise<NamedFigures[]> {
  const { maxRows } = request;
  const parts = await findParts(queries, request);
  const counting = createParameters();
  const [size] = await queries.query<{ rows: number }>(
    `select count(*) as rows from (select 1 from ${callRows(parts, counting)} limit ${counting.add(maxRows + 1)}::integer) as counted`,
    counting.values,
  );
  if (size && size.rows > maxRows) throw new TooManyCalls(size.rows);
  const parameters = createParameters();
  const rows = await queries.query<Parameters<typeof toNamedFigures>[0]>(
    `select name, ${deploymentSums} from (${selectAttempts(parts, parameters)}) as part
      group by 1 having sum(calls) <> 0 order by sum(cost_nanos) desc, sum(calls) desc, 1 limit ${maxProviders}`,
    parameters.values,
  );
  return rows.map(toNamedFigures);
}

const maxProviders = 200;

interface Mark {
  readonly projectId: string;
  readonly span: string;
  readonly start: number;
}

type Parts = Awaited<ReturnType<typeof findParts>>;

/**
 * Divides a period into parts that have aggregates and parts that we have to read from call rows. In `edges`, no
 * project has any aggregates.
 */
async function findParts(queries: Queries, { projectIds, from, to }: DeploymentRequest) {
  const { marks, filledFrom } = await readMarks(queries, { projectIds, from, to });
  const stored = { from: Math.min(to, Math.max(from, filledFrom)), to };
  const cover = coverPeriods([stored], ['day', 'hour']);
  const edges = from < stored.from ? [{ from, to: stored.from }, ...cover.edges] : cover.edges;
  const days = new Map(marks.map((mark) => ({ ...mark, start: mark.start - (mark.start % dayMs) })).map((day) => [keyOf(day), day]));
  const outdatedDays = [...days.values()].filter((day) => isCovered(cover, 'day', day.start));
  const outdatedHours = marks.filter(
    ({ span, start }) => span === 'hour' && (isCovered(cover, 'day', start) || isCovered(cover, 'hour', start)),
  );
  return {
    projectIds,
    days: cover.segments.filter(({ span }) => span === 'day'),
    hours: cover.segments.filter(({ span }) => span === 'hour'),
    outdatedDays,
    outdatedHours,
    edges,
  };
}

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

/** `offset 0` makes PostgreSQL scan one index range for each project and period. */
function callRows({ projectIds, edges, outdatedHours }: Parts, { add, addIds }: SqlParameters): string {
  const hours = outdatedHours.map(({ start }) => ({ from: start, to: start + hourMs }));
  return `(
         select project.id, edge.first, edge.after
           from unnest(${add(projectIds)}::uuid[]) as project (id) cross join unnest(${addIds(edges, 'from')}, ${addIds(edges, 'to')}) as edge (first, after)
         union all
         select hour.* from unnest(${add(outdatedHours.map(({ projectId }) => projectId))}::uuid[], ${addIds(hours, 'from')}, ${addIds(hours, 'to')})
                as hour (id, first, after)
       ) as period
      cross join lateral (
        select c.id from calls c where c.project_id = period.id and c.id >= period.first and c.id < period.after offset 0
      ) as c`;
}

/** Prefers daily aggregates, then hourly ones (also for outdated days), and reads call rows for everything else. */
function selectAttempts(parts: Parts, parameters: SqlParameters): string {
  const { projectIds, days, hours, outdatedDays, outdatedHours } = parts;
  const { add, addTimes } = parameters;
  const ofProjects = (periods: readonly Period[]): string =>
    `select project.id, segment.first, segment.after from unnest(${add(projectIds)}::uuid[]) as project (id)
      cross join unnest(${addTimes(periods, 'from')}, ${addTimes(periods, 'to')}) as segment (first, after)`;
  const unnestMarks = (marks: readonly Mark[]): string =>
    `unnest(${add(marks.map(({ projectId }) => projectId))}::uuid[], ${add(marks.map(({ start }) => new Date(start)))}::timestamptz[])`;
  const stored = (span: 'day' | 'hour', periods: string, outdated: readonly Mark[]): string =>
    `select stored.name, stored.calls, stored.errors, stored.cost_nanos, stored.unpriced
       from (${periods}) as period
      cross join lateral (
        select a.* from usage_cells a
         where a.project_id = period.id and a.scope = 'provider' and a.span = '${span}' and a.start >= period.first and a.start < period.after
        offset 0
      ) as stored
      where (period.id, stored.start) not in (select * from ${unnestMarks(outdated)})`;
  const hoursOfDays = `select day.id, day.start, day.start + interval '24 hours' from ${unnestMarks(outdatedDays)} as day (id, start)`;
  return `${stored('day', ofProjects(days), outdatedDays)}
    union all ${stored('hour', `${ofProjects(hours)} union all ${hoursOfDays}`, outdatedHours)}
    union all
    select a.provider, 1, (${isErrorSql('a')})::integer, coalesce(a.cost_nanos, 0), (a.cost_nanos is null)::integer
      from ${callRows(parts, parameters)}
     cross join lateral (select a.* from attempts a where a.call_id = c.id offset 0) as a`;
}

export interface RecentAttempts {
  readonly provider: string;
  readonly attempts: number;
  readonly failed: number;
}

/** Limits how many of the latest calls we read to compute the health of the providers. */
const maxRecentCalls = 5_000;

export function readRecentAttempts(queries: Queries, since: number): Promise<RecentAttempts[]> {
  return queries.query<RecentAttempts>(
    `select a.provider, count(*) as attempts, count(*) filter (where ${isErrorSql('a')}) as failed
       from (select id from calls where id >= $1::uuid order by id desc limit $2::integer) as c
      cross join lateral (select a.provider, a.outcome from attempts a where a.call_id = c.id offset 0) as a
      group by 1 order by 1`,
    [minIdAt(since), maxRecentCalls],
  );
}
