/**
 * Decides where we read figures from. Rollups are best, but a request can only filter or group by one of their
 * attributes. If it needs several, we try the hourly aggregates. If they don't have these attributes either, we read
 * the call rows. The figures are the same everywhere, except that percentiles over more than `exactCalls` calls can be
 * off by up to 5 %.
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

/** Above this number of calls, percentiles are estimates, so that we don't have to read every row. */
const exactCalls = 10_000;

const attributes = ['model', 'source', 'key', 'task'] as const satisfies readonly (Group & Scope)[];

export interface SourceRequest extends Omit<FiguresRequest, 'zone'> {
  /** Each period begins where the previous one ends. */
  readonly periods: readonly Period[];
  /** If set, we only read these groups from the rollups. Ignored if a filter already selects a group. */
  readonly names?: readonly (string | null)[] | undefined;
}

export interface FigureSource {
  /** True for call rows, which give exact percentiles. False for stored sums, which give estimates. */
  readonly isRows: boolean;
  readonly addends: (parameters: Parameters) => readonly Addends[];
}

/**
 * Throws `TooManyCalls` if this would take more than `maxRows` call rows. If the filter excludes an application or key,
 * adds up all calls and subtracts the excluded ones.
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
  // If the request has no group, every sum has to have the name null. The sums that we subtract could otherwise have a
  // name because of their filter.
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
 * The gateway's own calls never have any of these attributes, so we can sum them up without filtering or grouping by
 * them.
 */
const withoutCorrelation = ['task', 'turn', 'agent', 'trigger'] as const;

/**
 * Returns a request for the calls to subtract, or null if there are none. We leave out percentiles, because they can't
 * be subtracted. They're computed later, from the histograms that remain after the subtraction.
 */
function toPart(request: SourceRequest, isOwn: boolean): SourceRequest | null {
  const { filter = {}, group = null, costly = [], names } = request;
  const part = { ...request, costly: costly.filter((name) => name === 'failovers') };
  if (!isOwn) return part;
  if (withoutCorrelation.some((name) => filter[name] !== undefined && filter[name] !== noValue)) return null;
  if (group === 'task' && names !== undefined && !names.includes(null)) return null;
  const { task: _task, turn: _turn, agent: _agent, trigger: _trigger, ...others } = filter;
  // The gateway's own calls have no task, so grouping by task would only yield the name null.
  return { ...part, filter: others, group: group === 'task' ? null : group, names: undefined };
}

async function findSummedSource(queries: Queries, request: SourceRequest): Promise<FigureSource> {
  const { projectId, filter = {}, group = null, unit = null, costly = [], maxRows, periods } = request;
  const hasPercentiles = costly.some((name) => name !== 'failovers');
  const rollup = rollupScopeOf(filter, group);
  const aggregates = aggregateScopeOf(filter, group);
  const isSummed = unit !== 'minute' && (rollup === 'task' ? !hasPercentiles : rollup !== null || aggregates !== null);
  if (!isSummed) {
    // Charts by minute don't need a limit, because they only cover a short time.
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
 * Extends the last period to the end of the month if there are no calls after it, so that we can use the monthly sum.
 * Otherwise we'd have to read today's call rows, which takes longer, because there are no sums by task for less than a
 * day.
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
 * Reads call rows. The range of call ids is repeated for the attempts, so that PostgreSQL only reads those partitions.
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
 * Returns the rollups that can answer a request. Returns null if there are none, e.g. because it combines several
 * attributes.
 */
export function rollupScopeOf(filter: CallFilter, group: Group | null): Scope | null {
  const names = new Set([...namesOf(filter), ...(group === null ? [] : [group])]);
  if (names.size === 0) return 'project';
  const [name] = names;
  return names.size === 1 ? (attributes.find((attribute) => attribute === name) ?? null) : null;
}
