/**
 * Reads figures across several projects, for views of the whole deployment.
 *
 * Figures by project, key, model and application come from the rollups. Attempts by provider come from the hourly
 * aggregates, or from call rows for hours that don't have any yet. So how many rows we read depends on the number of
 * projects and the length of the period, but not on the number of calls.
 */

import { minIdAt } from '../../core/ids.ts';
import type { CalendarUnit } from '../../core/time-zone.ts';
import type { Queries } from '../../db/database.ts';
import { type Scope, selectRollupSums } from '../rollups/rollup-sums.ts';
import type { Measure } from '../sums.ts';
import { createParameters, isErrorSql, isPlaygroundSql } from './call-filter.ts';
import { type Period, splitIntoUnits } from './range.ts';

export interface DeploymentRequest extends Period {
  readonly projectIds: readonly string[];
  readonly signal?: AbortSignal;
}

/** When grouped by provider, these figures count attempts instead of calls. */
export interface DeploymentFigures {
  readonly calls: number;
  readonly errors: number;
  /** The sum of all known costs in nano-dollars. */
  readonly costNanos: bigint;
  /** The number of calls with an unknown cost, because their model had no price. */
  readonly unpriced: number;
}

export interface NamedFigures extends DeploymentFigures {
  /** The id of a project or key, or the name of a model. Null for calls without a model. */
  readonly name: string | null;
}

export const noDeploymentFigures: DeploymentFigures = { calls: 0, errors: 0, costNanos: 0n, unpriced: 0 };

/** The cost is a string, because the sum may exceed the range of safe integers. */
type SumsRow = Omit<NamedFigures, 'costNanos'> & { readonly cost: string };

const measures: readonly Measure[] = ['calls', 'errors', 'cost_nanos', 'unpriced'];
export const deploymentSums = `sum(calls)::bigint as calls, sum(errors)::bigint as errors, sum(cost_nanos)::text as cost, sum(unpriced)::bigint as unpriced`;

/** Returns the most expensive groups. When grouping by project, `name` is the project's id. */
export async function readDeploymentFigures(
  queries: Queries,
  request: DeploymentRequest & { readonly scope: Exclude<Scope, 'task'>; readonly names?: readonly string[]; readonly limit: number },
): Promise<NamedFigures[]> {
  const { projectIds, scope, names, limit, from, to } = request;
  const parameters = createParameters();
  const parts = selectRollupSums({ projectId: projectIds, scope, periods: [{ from, to }], ...(names && { names }) }, measures, parameters);
  const rows = await queries.query<SumsRow>(
    `select name, ${deploymentSums} from (${parts}) as part
      group by 1 having sum(calls) <> 0 order by sum(cost_nanos) desc, sum(calls) desc, 1 limit ${parameters.add(limit)}::integer`,
    parameters.values,
  );
  return rows.map(toNamedFigures);
}

/**
 * Returns the cost of each requested project in nano-dollars, followed by the sum of all other projects, for each unit
 * of time.
 */
export async function readDeploymentCosts(
  queries: Queries,
  request: DeploymentRequest & { readonly zone: string; readonly unit: CalendarUnit; readonly shown: readonly string[] },
) {
  const { projectIds, from, to, zone, unit, shown } = request;
  const starts = splitIntoUnits(unit, zone, { from, to });
  const periods = starts.map((start, index) => ({ from: start, to: starts[index + 1] ?? to }));
  const parameters = createParameters();
  const parts = selectRollupSums({ projectId: projectIds, scope: 'project', periods }, ['cost_nanos'], parameters);
  const rows = await queries.query<{ unit: number; place: number; cost: string }>(
    `select width_bucket(part.at, ${parameters.add(starts.map((at) => new Date(at)))}::timestamptz[]) as unit,
            coalesce(array_position(${parameters.add(shown)}::text[], part.name), 0) as place, sum(cost_nanos)::text as cost
       from (${parts}) as part group by 1, 2`,
    parameters.values,
  );
  const costs = new Map(rows.map(({ unit: at, place, cost }) => [`${at}/${place}`, BigInt(cost)]));
  return periods.map((period, index) => ({
    start: period.from,
    end: period.to,
    costs: [...shown.map((_, place) => place + 1), 0].map((place) => costs.get(`${index + 1}/${place}`) ?? 0n),
  }));
}

export function toNamedFigures({ name, calls, errors, cost, unpriced }: SumsRow): NamedFigures {
  return { name, calls, errors, costNanos: BigInt(cost), unpriced };
}

/**
 * Returns how many playground calls each person has made, and what they cost. There are few enough to read the call
 * rows.
 */
export async function readPlaygroundFigures(
  queries: Queries,
  request: DeploymentRequest & { readonly application: string; readonly limit: number },
): Promise<NamedFigures[]> {
  const { projectIds, application, from, to, limit } = request;
  const rows = await queries.query<SumsRow>(
    `select name, ${deploymentSums}
       from (
         select c.trigger_detail as name, 1 as calls, (${isErrorSql('c')})::integer as errors, coalesce(c.cost_nanos, 0) as cost_nanos,
                (c.cost_nanos is null)::integer as unpriced
           from unnest($1::uuid[]) as project (id)
          cross join lateral (
            select calls.* from calls
             where calls.project_id = project.id and calls.source = $2::text and calls.id >= $3::uuid and calls.id < $4::uuid
             order by calls.id desc limit $6::integer
          ) as c
          where ${isPlaygroundSql}
       ) as part
      group by 1 order by sum(cost_nanos) desc, sum(calls) desc, 1 limit $5::integer`,
    [projectIds, application, minIdAt(from), minIdAt(to), limit, maxPlaygroundCalls],
  );
  return rows.map(toNamedFigures);
}

/** Limits how many playground calls we read. Nobody can make more than this by hand. */
const maxPlaygroundCalls = 20_000;
