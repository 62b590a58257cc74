/**
 * Figures of a project's calls by group and time, for the console, exports and MCP: from the rollups where these have them, else from the rows
 * of the calls.
 *
 * Calls are a range of the index (project_id, id), and the units of time are ranges of ids too: every call of the range is in exactly one of
 * them, so that the units add up to the total.
 */

import { gatewayError } from '../../core/errors.ts';
import { minIdAt } from '../../core/ids.ts';
import { splitRange } from '../../core/time-zone.ts';
import type { Queries } from '../../db/database.ts';
import { createParameters, isErrorSql, type Parameters, whereCalls } from './call-filter.ts';
import { type Figures, type FiguresRow, figuresSql, noFigures, type RowSource, toFigures } from './figures.ts';
import { needsRows, type PlacedRow, readRowsFromSums, readTopFromSums } from './figures-from-sums.ts';
import { type FiguresRequest, type Group, groupColumns, type Rank, type TopRequest } from './figures-request.ts';
import type { Period } from './range.ts';
import { assertRowsAtMost } from './row-limit.ts';

export interface GroupFigures {
  /** `others`: all groups after the top ones. Null: calls without a value. */
  readonly kind: 'group' | 'others';
  readonly name: string | null;
  readonly figures: Figures;
}

export interface UnitFigures {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  readonly figures: Figures;
  /** In the order of `FiguresReport.groups`. */
  readonly groups: readonly Figures[];
}

export interface FiguresReport {
  readonly total: Figures;
  /** Highest first, then `others`. Empty without a group. */
  readonly groups: readonly GroupFigures[];
  /** All units of the range, also those without calls. Empty without a unit. */
  readonly units: readonly UnitFigures[];
}

/** More units make neither a chart nor a statement. */
const maxUnits = 1_500;
const defaultTop = 7;

/** Throws `bad_request` when the range has too many units, `TooManyCalls` beyond `maxRows`. */
export async function readFigures(queries: Queries, request: FiguresRequest): Promise<FiguresReport> {
  const { unit = null, group = null, zone, from, to } = request;
  const starts = unit === null ? [] : splitRange(unit, zone, { from, to }, maxUnits);
  if (starts === null)
    throw gatewayError('bad_request', { message: `range: has more than ${maxUnits} units of a ${unit}; choose a larger unit` });
  if (request.maxRows !== undefined && needsRows(request))
    await assertRowsAtMost(queries, { ...request, periods: [request] }, request.maxRows);
  const names = group === null ? [] : (await readTop(queries, { ...request, costly: [] }, group)).map(({ name }) => name);
  const rows = (await readRowsFromSums(queries, request, starts, names)) ?? (await readRows(queries, request, starts, names));

  const byPosition = new Map(rows.map((row) => [`${row.unit ?? ''}/${row.place ?? ''}`, toFigures(row)]));
  const figuresOf = (unitNumber: number | '', place: number | ''): Figures => byPosition.get(`${unitNumber}/${place}`) ?? noFigures;
  const byPlace = names.map((name, index) => ({ kind: 'group' as const, name, place: index + 1 }));
  const hasOthers = byPosition.has('/0');
  const places = [...byPlace, ...(hasOthers ? [{ kind: 'others' as const, name: null, place: 0 }] : [])];
  return {
    total: figuresOf('', ''),
    groups: places.map(({ kind, name, place }) => ({ kind, name, figures: figuresOf('', place) })),
    units: starts.map((start, index) => ({
      start,
      end: starts[index + 1] ?? to,
      figures: figuresOf(index + 1, ''),
      groups: places.map(({ place }) => figuresOf(index + 1, place)),
    })),
  };
}

async function readRows(
  queries: Queries,
  request: FiguresRequest,
  starts: readonly number[],
  names: readonly (string | null)[],
): Promise<PlacedRow[]> {
  const { group = null, costly = [] } = request;
  const parameters = createParameters();
  const where = whereCalls(request, parameters);
  const needed = new Set(costly);
  const source = group === 'provider' ? attemptRows : callRows;
  const unit = starts.length === 0 ? null : `width_bucket(c.id, ${parameters.add(starts.map(minIdAt))}::uuid[])`;
  const place = group === null ? null : `coalesce(array_position(${parameters.add(names)}::text[], ${groupColumns[group]}), 0)`;
  const dimensions = [...(unit === null ? [] : ['unit']), ...(place === null ? [] : ['place'])];
  return queries.query<PlacedRow>(
    `select ${unit === null ? 'null::integer as unit' : 'unit'}, ${place === null ? 'null::integer as place' : 'place'}, ${figuresSql(source, needed)}
       from calls c
       ${group === 'provider' ? attemptJoin(request, parameters) : ''}
       ${unit === null ? '' : `cross join lateral (select ${unit} as unit) as time_unit`}
       ${place === null ? '' : `cross join lateral (select ${place} as place) as group_place`}
       ${needed.has('failovers') && group !== 'provider' ? failoverJoin(request, parameters) : ''}
      where ${where}
      ${dimensions.length === 0 ? '' : `group by cube (${dimensions.join(', ')})`}`,
    parameters.values,
  );
}

/** The top groups with their figures, without the others. */
export async function readTop(queries: Queries, request: TopRequest, group: Group): Promise<GroupFigures[]> {
  const limited = { ...request, top: request.top ?? defaultTop };
  const rows = (await readTopFromSums(queries, limited, group)) ?? (await readTopRows(queries, limited, group));
  return rows.map((row) => ({ kind: 'group', name: row.name, figures: toFigures(row) }));
}

/** One pass over the calls. */
function readTopRows(queries: Queries, request: TopRequest & { readonly top: number }, group: Group) {
  const { rank = 'cost', top, costly = [], isNamed = false } = request;
  const parameters = createParameters();
  const where = whereCalls(request, parameters);
  const needed = new Set(costly);
  const source = group === 'provider' ? attemptRows : callRows;
  return queries.query<FiguresRow & { readonly name: string | null }>(
    `select ${groupColumns[group]} as name, ${figuresSql(source, needed)}
       from calls c
       ${group === 'provider' ? attemptJoin(request, parameters) : ''}
       ${needed.has('failovers') && group !== 'provider' ? failoverJoin(request, parameters) : ''}
      where ${where} ${isNamed ? `and ${groupColumns[group]} is not null` : ''}
      group by 1
      order by ${rankSql(rank, source)} desc, count(*) desc, 1
      limit ${parameters.add(top)}::integer`,
    parameters.values,
  );
}

function rankSql(rank: Rank, { row, isError }: RowSource): string {
  switch (rank) {
    case 'cost':
      return `coalesce(sum(${row}.cost_nanos), 0)`;
    case 'calls':
      return 'count(*)';
    case 'errors':
      return `count(*) filter (where ${isError})`;
    case 'tokens':
      return `sum(${row}.tokens_input + ${row}.tokens_cached_input + ${row}.tokens_cache_write + ${row}.tokens_cache_write_1h + ${row}.tokens_output)`;
  }
}

const callRows: RowSource = {
  row: 'c',
  isError: isErrorSql('c'),
  isStream: 'c.stream',
  isCacheHit: `c.cache = 'hit'`,
  isCacheLookup: 'c.cache is not null',
  isFailover: 'second.n is not null',
};

const attemptRows: RowSource = {
  row: 'a',
  isError: isErrorSql('a'),
  isStream: 'c.stream',
  isCacheHit: 'false',
  isCacheLookup: 'false',
  isFailover: 'a.n > 1',
};

const attemptJoin = (period: Period, parameters: Parameters): string =>
  `join attempts a on a.call_id = c.id and ${inPeriod('a.call_id', period, parameters)}`;

const failoverJoin = (period: Period, parameters: Parameters): string =>
  `left join attempts second on second.call_id = c.id and second.n = 2 and ${inPeriod('second.call_id', period, parameters)}`;

/** The range of call ids again, so that only its partitions are read. */
function inPeriod(column: string, { from, to }: Period, { add }: Parameters): string {
  return `${column} >= ${add(minIdAt(from))}::uuid and ${column} < ${add(minIdAt(to))}::uuid`;
}
