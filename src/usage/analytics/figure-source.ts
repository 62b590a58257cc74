/**
 * Decides where figures are read from. We prefer the rollups, which can filter or group by a single attribute. If a
 * request combines several attributes, we read the hourly aggregates, and if these can't answer it either, we read the
 * call rows. The figures are the same, except that percentiles over more than `exactCalls` calls are only accurate to
 * within 5 %.
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

/** Up to this number of calls, we compute percentiles exactly from the call rows. */
const exactCalls = 10_000;

const attributes = ['model', 'source', 'key', 'task'] as const satisfies readonly (Group & Scope)[];

export interface SourceRequest extends Omit<FiguresRequest, 'zone'> {
  /** Each period begins where the previous one ends. */
  readonly periods: readonly Period[];
  /** If there is no filter, only these groups are read from the rollups. */
  readonly names?: readonly (string | null)[] | undefined;
}

export interface FigureSource {
  /** True if the figures come from call rows, which give exact percentiles. */
  readonly isRows: boolean;
  readonly addends: (parameters: Parameters) => readonly Addends[];
}

/**
 * Throws `TooManyCalls` if more than `maxRows` call rows would have to be read.
 *
 * If the filter leaves out an application or a key, we read the sums of all calls and of those left out, and subtract.
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
  // Sums without a group may be named after the filter.
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

/** The gateway's own calls have no correlation, so we don't need the attributes to select or group them. */
const withoutCorrelation = ['task', 'turn', 'agent', 'trigger'] as const;

/**
 * Returns the request for the sums that we subtract, or null if nothing has to be subtracted. Percentiles of all calls
 * come from histograms, so we never need those of the part exactly.
 */
function toPart(request: SourceRequest, isOwn: boolean): SourceRequest | null {
  const { filter = {}, group = null, costly = [], names } = request;
  const part = { ...request, costly: costly.filter((name) => name === 'failovers') };
  if (!isOwn) return part;
  if (withoutCorrelation.some((name) => filter[name] !== undefined && filter[name] !== noValue)) return null;
  if (group === 'task' && names !== undefined && !names.includes(null)) return null;
  const { task: _task, turn: _turn, agent: _agent, trigger: _trigger, ...others } = filter;
  // Without a group, the name of all calls is null, and so is their task.
  return { ...part, filter: others, group: group === 'task' ? null : group, names: undefined };
}

async function findSummedSource(queries: Queries, request: SourceRequest): Promise<FigureSource> {
  const { projectId, filter = {}, group = null, unit = null, costly = [], maxRows, periods } = request;
  const hasPercentiles = costly.some((name) => name !== 'failovers');
  const rollup = rollupScopeOf(filter, group);
  const aggregates = aggregateScopeOf(filter, group);
  const isSummed = unit !== 'minute' && (rollup === 'task' ? !hasPercentiles : rollup !== null || aggregates !== null);
  if (!isSummed) {
    // A chart by minute covers such a short time that it doesn't have many rows.
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
 * Extends the last period to the end of its month if there are no later calls, so that we can read the rollup of the
 * month. Task rollups have no span shorter than a day, and reading today's call rows would take longer.
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
 * Reads call rows. We repeat the range of call ids for the attempts, so that PostgreSQL only reads the partitions in
 * that range.
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

/** Returns null if the request combines several attributes, or uses one that the rollups don't have. */
export function rollupScopeOf(filter: CallFilter, group: Group | null): Scope | null {
  const names = new Set([...namesOf(filter), ...(group === null ? [] : [group])]);
  if (names.size === 0) return 'project';
  const [name] = names;
  return names.size === 1 ? (attributes.find((attribute) => attribute === name) ?? null) : null;
}
