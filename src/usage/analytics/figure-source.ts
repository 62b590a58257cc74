/**
 * Decides which tables we read figures from. We prefer the rollups, which support one attribute to filter or group by.
 * If a request combines several attributes, we try the hourly aggregates. If they don't have these attributes either,
 * we read the call rows. All sources give the same figures, except that percentiles over more than `exactCalls` calls
 * have an error of up to 5 %.
 */
import { minIdAt, timeOf } from '../../core/ids.ts';
import { monthAt } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { aggregateScopeOf } from '../hourly-aggregates/aggregate-scope.ts';
import { aggregatesOf, coverByAggregates, isMostlyRows } from '../hourly-aggregates/aggregates.ts';
import { rollupsOf, type Scope } from '../rollups/rollup-sums.ts';
import type { Addends } from '../sums.ts';
import {
  type CallFilter,
  fromFilterValue,
  intersect,
  matchesValue,
  namesOf,
  noValue,
  type Parameters,
  splitExclusion,
  whereCalls,
} from './call-filter.ts';
import { type FiguresRequest, type Group, groupColumns, isOfAttempts } from './figures-request.ts';
import type { Period } from './range.ts';
import { assertRowsAtMost, countCalls } from './row-limit.ts';

/** With more calls, we estimate percentiles instead of reading all of the rows. */
const exactCalls = 10_000;

const attributes = ['model', 'source', 'key', 'task'] as const satisfies readonly (Group & Scope)[];

export interface SourceRequest extends Omit<FiguresRequest, 'zone'> {
  /** The periods to read. Each one begins where the previous one ends. */
  readonly periods: readonly Period[];
  /** Limits the rollups to these groups. Ignored if a filter already picks the group. */
  readonly names?: readonly (string | null)[] | undefined;
}

export interface FigureSource {
  /** True if the figures come from call rows, so percentiles are exact rather than approximated. */
  readonly isRows: boolean;
  readonly addends: (parameters: Parameters) => readonly Addends[];
}

/**
 * Throws `TooManyCalls` if this would have to read more than `maxRows` call rows.
 *
 * If the filter excludes an application or a key, we read the sums of all calls and subtract those of the excluded
 * calls.
 */
export async function findSource(queries: Queries, request: SourceRequest): Promise<FigureSource> {
  const split = splitExclusion(request.filter ?? {});
  if (split === null) return findSummedSource(queries, request);
  const whole = await findSource(queries, { ...request, filter: split.rest });
  if (whole.isRows) return rowsOf(request);
  const excluded = intersect(split.rest, split.excluded);
  const part = excluded && toPart({ ...request, filter: excluded }, split.isOwn);
  if (part === null) return whole;
  const { addends } = await findSource(queries, part);
  // If there's no group, the sums to subtract may still have the filter's name, so set all names to null.
  const name = (each: Addends): string => ((part.group ?? null) === null ? 'null::text' : each.name);
  return {
    isRows: false,
    addends: (parameters) => [
      ...whole.addends(parameters),
      ...addends(parameters).map(({ isSubtracted, ...each }) => ({
        ...each,
        name: name(each),
        ...(!isSubtracted && { isSubtracted: true as const }),
      })),
    ],
  };
}

/**
 * Attributes that the gateway's own calls never have. So we can ignore filters and groups by these when we sum up its
 * calls.
 */
const withoutCorrelation = ['task', 'turn', 'agent', 'trigger'] as const;

/**
 * Returns the request for the calls that have to be subtracted, or null if there are none. It doesn't ask for
 * percentiles, because we compute those from the histograms of the remaining calls.
 */
function toPart(request: SourceRequest, isOwn: boolean): SourceRequest | null {
  const { filter = {}, group = null, costly = [], names } = request;
  const part = { ...request, costly: costly.filter((name) => name === 'failovers') };
  if (!isOwn) return part;
  if (withoutCorrelation.some((name) => filter[name] !== undefined && filter[name] !== noValue)) return null;
  if (group === 'task' && names !== undefined && !names.includes(null)) return null;
  const { task: _task, turn: _turn, agent: _agent, trigger: _trigger, ...others } = filter;
  // When nothing is grouped, the name of every call is null. These calls have no task, so the same goes for them.
  return { ...part, filter: others, group: group === 'task' ? null : group, names: undefined };
}

async function findSummedSource(queries: Queries, request: SourceRequest): Promise<FigureSource> {
  const { projectId, filter = {}, group = null, unit = null, costly = [], maxRows, periods } = request;
  const hasPercentiles = costly.some((name) => name !== 'failovers');
  const rollup = rollupScopeOf(filter, group);
  const aggregates = aggregateScopeOf(filter, group);
  const isSummed = unit !== 'minute' && (rollup === 'task' ? !hasPercentiles : rollup !== null || aggregates !== null);
  if (!isSummed) {
    // A chart by minute can't cover enough time to need a limit.
    if (maxRows !== undefined && unit !== 'minute') await assertRowsAtMost(queries, { ...request, periods: [request] }, maxRows);
    return rowsOf(request);
  }
  if (hasPercentiles && (await countCalls(queries, { ...request, periods: [request] })) <= exactCalls) return rowsOf(request);
  if (rollup !== null) return findRollups(queries, request, rollup);
  const cover = await coverByAggregates(queries, projectId, periods);
  if (maxRows !== undefined && isMostlyRows(cover))
    await assertRowsAtMost(queries, { projectId, filter: {}, periods: cover.edges }, maxRows);
  return {
    isRows: false,
    addends: (parameters) => aggregatesOf({ projectId, scope: aggregates ?? 'project', filter, group, cover }, parameters),
  };
}

async function findRollups(
  queries: Queries,
  { projectId, filter = {}, periods, names }: SourceRequest,
  scope: Scope,
): Promise<FigureSource> {
  const value = scope === 'project' ? undefined : filter[scope];
  const covered = scope === 'task' ? await withoutLateEdge(queries, projectId, periods) : periods;
  const byPrefix = scope === 'key';
  const wanted = value !== undefined && !byPrefix ? [fromFilterValue(value)] : names;
  return {
    isRows: false,
    addends: (parameters) =>
      rollupsOf(
        {
          ...{ projectId, scope, periods: covered, byPrefix },
          ...(value !== undefined && byPrefix && { condition: (name) => matchesValue(name, value, parameters) }),
          ...(wanted && { names: wanted }),
        },
        parameters,
      ),
  };
}

/**
 * Extends the last period to the end of its month if there are no calls after the period. We can then use the sum of
 * the whole month. Otherwise we'd have to read today's call rows, which takes longer, because task rollups have no sums
 * for less than a day.
 */
async function withoutLateEdge(queries: Queries, projectId: string, periods: readonly Period[]): Promise<readonly Period[]> {
  const last = periods.at(-1);
  if (!last) return periods;
  const [newest] = await queries.query<{ id: string }>('select id from calls where project_id = $1::uuid order by id desc limit 1', [
    projectId,
  ]);
  return newest && timeOf(newest.id) >= last.to ? periods : [...periods.slice(0, -1), { from: last.from, to: monthAt(last.to - 1).end }];
}

/**
 * Reads call rows. The condition on the range of call ids is repeated for the attempts, so that PostgreSQL only reads
 * the partitions in that range.
 */
function rowsOf(request: SourceRequest): FigureSource {
  const { from, to, group = null, costly = [] } = request;
  const addends = (parameters: Parameters): readonly Addends[] => {
    const isByAttempt = isOfAttempts(group);
    const where = whereCalls(request, parameters);
    const idAt = (at: number): string => `${parameters.add(minIdAt(at))}::uuid`;
    const join = (attempts: string): string =>
      `join attempts ${attempts} on ${attempts}.call_id = c.id and ${attempts}.call_id >= ${idAt(from)} and ${attempts}.call_id < ${idAt(to)}`;
    const joined = isByAttempt ? join('a') : costly.includes('failovers') ? `left ${join('second')} and second.n = 2` : '';
    return [
      {
        row: isByAttempt ? 'a' : 'c',
        name: group === null ? 'null::text' : groupColumns[group],
        from: `calls c ${joined}`,
        where,
        ...(!isByAttempt && { failovers: '(second.n is not null)::integer' }),
      },
    ];
  };
  return { isRows: true, addends };
}

/**
 * Returns the scope of the rollups that can answer a request. Null if the request combines several attributes, or uses
 * an attribute that the rollups don't have.
 */
export function rollupScopeOf(filter: CallFilter, group: Group | null): Scope | null {
  const names = new Set([...namesOf(filter), ...(group === null ? [] : [group])]);
  if (names.size === 0) return 'project';
  const [name] = names;
  return names.size === 1 ? (attributes.find((attribute) => attribute === name) ?? null) : null;
}
