/**
 * Where figures are read from: the rollups if a request is about one attribute of calls at most, else the cells, else the call rows. All give the
 * same figures, but for percentiles: of more than `exactCalls` calls they are within 5 %.
 */
import { minIdAt, timeOf } from '../../core/ids.ts';
import { monthAt } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { cellScopeOf } from '../cells/cell-scope.ts';
import { cellsOf, coverByCells, isMostlyRows } from '../cells/cells.ts';
import { partsOf, type Scope } from '../rollups/parts.ts';
import type { Addends } from '../sums.ts';
import { type CallFilter, fromFilterValue, matchesValue, namesOf, type Parameters, whereCalls } from './call-filter.ts';
import { type FiguresRequest, type Group, groupColumns } from './figures-request.ts';
import type { Period } from './range.ts';
import { assertRowsAtMost, countCalls } from './row-limit.ts';

/** Percentiles of fewer calls are read from the call rows. */
const exactCalls = 10_000;

const attributes = ['model', 'source', 'key', 'task'] as const satisfies readonly (Group & Scope)[];

export interface SourceRequest extends Omit<FiguresRequest, 'zone'> {
  /** Adjacent. */
  readonly periods: readonly Period[];
  /** Groups that are wanted of a rollup without a filter; others are left out. */
  readonly names?: readonly (string | null)[] | undefined;
}

export interface FigureSource {
  /** Call rows, whose percentiles are exact. */
  readonly isRows: boolean;
  readonly addends: (parameters: Parameters) => readonly Addends[];
}

/** Throws `TooManyCalls`. */
export async function findSource(queries: Queries, request: SourceRequest): Promise<FigureSource> {
  const { projectId, filter = {}, group = null, unit = null, costly = [], maxRows, periods } = request;
  const hasPercentiles = costly.some((name) => name !== 'failovers');
  const rollup = rollupScopeOf(filter, group);
  const cells = cellScopeOf(filter, group);
  const isSummed = unit !== 'minute' && (rollup === 'task' ? !hasPercentiles : rollup !== null || cells !== null);
  if (!isSummed) {
    // There are at most 1,500 minutes.
    if (maxRows !== undefined && unit !== 'minute') await assertRowsAtMost(queries, { ...request, periods: [request] }, maxRows);
    return rowsOf(request);
  }
  if (hasPercentiles && (await countCalls(queries, { ...request, periods: [request] })) <= exactCalls) return rowsOf(request);
  if (rollup !== null) return findRollups(queries, request, rollup);
  const cover = await coverByCells(queries, projectId, periods);
  if (maxRows !== undefined && isMostlyRows(cover))
    await assertRowsAtMost(queries, { projectId, filter: {}, periods: cover.edges }, maxRows);
  return { isRows: false, addends: (parameters) => cellsOf({ projectId, scope: cells ?? 'project', filter, group, cover }, parameters) };
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
      partsOf(
        {
          ...{ projectId, scope, periods: covered, byPrefix },
          ...(value !== undefined && byPrefix && { condition: (name) => matchesValue(name, value, parameters) }),
          ...(wanted && { names: wanted }),
        },
        parameters,
      ),
  };
}

/** When no call is later than the last period, that period is extended to the end of its month, which one rollup then covers: those of tasks have no shorter span than a day. */
async function withoutLateEdge(queries: Queries, projectId: string, periods: readonly Period[]): Promise<readonly Period[]> {
  const last = periods.at(-1);
  if (!last) return periods;
  const [newest] = await queries.query<{ id: string }>('select id from calls where project_id = $1::uuid order by id desc limit 1', [
    projectId,
  ]);
  return newest && timeOf(newest.id) >= last.to ? periods : [...periods.slice(0, -1), { from: last.from, to: monthAt(last.to - 1).end }];
}

/** The range of call ids is repeated for attempts, so that only its partitions are read. */
function rowsOf(request: SourceRequest): FigureSource {
  const { from, to, group = null, costly = [] } = request;
  const addends = (parameters: Parameters): readonly Addends[] => {
    const isByAttempt = group === 'provider';
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

/** The one attribute that a request is about. Null when there are several, or one that rollups lack. */
export function rollupScopeOf(filter: CallFilter, group: Group | null): Scope | null {
  const names = new Set([...namesOf(filter), ...(group === null ? [] : [group])]);
  if (names.size === 0) return 'project';
  const [name] = names;
  return names.size === 1 ? (attributes.find((attribute) => attribute === name) ?? null) : null;
}
