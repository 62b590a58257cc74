/**
 * Figures from the rollups, where a request is about one attribute of calls at most, and else from the cells; null when neither has them, and the
 * figures are those of the call rows (`read-figures.ts`). All are equal, but for percentiles: of more than `exactCalls` calls they are within 5 %.
 */
import { timeOf } from '../../core/ids.ts';
import { dayMs, monthAt } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { cellScopeOf } from '../cells/cell-scope.ts';
import { selectCellHistogram, selectCells } from '../cells/cells.ts';
import { coverByCells, isMostlyRows } from '../cells/cover.ts';
import { type Histogram, type Measure, type PartsRequest, type Scope, selectHistogram, selectParts } from '../rollups/parts.ts';
import { createParameters, fromFilterValue, matchesValue, namesOf, type Parameters } from './call-filter.ts';
import type { FiguresRow } from './figures.ts';
import type { FiguresRequest, Group, Rank, TopRequest } from './figures-request.ts';
import { percentileOf, type SlotRow, toPercentiles } from './percentiles.ts';
import type { Period } from './range.ts';
import { assertRowsAtMost, countCalls } from './row-limit.ts';

/** `unit` and `place` are null in the sums over all units and all groups. */
export type PlacedRow = FiguresRow & { readonly unit: number | null; readonly place: number | null };

/** Percentiles of fewer calls are read from the call rows. */
const exactCalls = 10_000;

const attributes = ['model', 'source', 'key', 'task'] as const satisfies readonly (Group & Scope)[];

type Selection = Pick<FiguresRequest, 'projectId' | 'filter' | 'from' | 'to' | 'maxRows'>;

/** SQL of rows that add up to the calls of adjacent periods, with a time `at` and the group of each. */
interface Sums {
  /** SQL of the group on `part`. */
  readonly label: string;
  readonly parts: (measures: readonly Measure[], parameters: Parameters) => string;
  /** Null: there are none. */
  readonly histogram: ((histogram: Histogram, parameters: Parameters) => string) | null;
}

/** @param wantedNames of a rollup without a filter; others are left out */
async function findSums(
  queries: Queries,
  selection: Selection,
  group: Group | null,
  periods: readonly Period[],
  wantedNames?: readonly (string | null)[],
): Promise<Sums | null> {
  const { projectId, filter = {} } = selection;
  const rollupScope = rollupScopeOf(selection, group);
  if (rollupScope !== null) {
    const value = rollupScope === 'project' ? undefined : filter[rollupScope];
    const isByPrefix = rollupScope === 'key';
    const covered = rollupScope === 'task' ? await withoutLateEdge(queries, projectId, periods) : periods;
    const names = value !== undefined && !isByPrefix ? [fromFilterValue(value)] : wantedNames;
    const request = (parameters: Parameters): PartsRequest => ({
      ...{ projectId, scope: rollupScope, periods: covered },
      ...(value !== undefined && isByPrefix && { condition: (_name, keyPrefix) => matchesValue(keyPrefix, value, parameters) }),
      ...(names && { names }),
    });
    return {
      label: isByPrefix ? 'part.key_prefix' : 'part.name',
      parts: (wanted, parameters) => selectParts(request(parameters), wanted, parameters),
      histogram: rollupScope === 'task' ? null : (name, parameters) => selectHistogram(request(parameters), name, parameters),
    };
  }
  const scope = cellScopeOf(filter, group);
  if (scope === null) return null;
  const cover = await coverByCells(queries, projectId, periods);
  if (selection.maxRows !== undefined && isMostlyRows(cover))
    await assertRowsAtMost(queries, { projectId, filter: {}, periods: cover.edges }, selection.maxRows);
  const request = { projectId, scope, filter, group, cover };
  return {
    label: 'part.name',
    parts: (wanted, parameters) => selectCells(request, wanted, parameters),
    histogram: (name, parameters) => selectCellHistogram(request, name, parameters),
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

/** Null when the rollups do not have what is requested. */
function rollupScopeOf({ filter = {} }: Selection, group: Group | null): Scope | null {
  const names = new Set([...namesOf(filter), ...(group === null ? [] : [group])]);
  if (names.size === 0) return 'project';
  const [name] = names;
  return names.size === 1 ? (attributes.find((attribute) => attribute === name) ?? null) : null;
}

const measures: readonly Measure[] = [
  ...(['calls', 'errors', 'unpriced', 'cost_nanos', 'tokens_input', 'tokens_cached_input', 'tokens_cache_write', 'tokens_output'] as const),
  ...(['cache_hits', 'cache_lookups'] as const),
];

const sumsSql = `
  sum(calls)::bigint as calls, sum(errors)::bigint as errors, sum(cost_nanos)::text as cost, sum(unpriced)::bigint as unpriced,
  sum(tokens_input)::bigint as input, sum(tokens_cached_input)::bigint as "cachedInput", sum(tokens_cache_write)::bigint as "cacheWrite",
  sum(tokens_output)::bigint as output, sum(cache_hits)::bigint as "cacheHits", sum(cache_lookups)::bigint as "cacheLookups"`;

const ranks: Readonly<Record<Rank, { readonly sql: string; readonly of: readonly Measure[] }>> = {
  cost: { sql: 'sum(cost_nanos)', of: ['cost_nanos'] },
  calls: { sql: 'sum(calls)', of: [] },
  errors: { sql: 'sum(errors)', of: ['errors'] },
  tokens: {
    sql: 'sum(tokens_input + tokens_cached_input + tokens_cache_write + tokens_output)',
    of: ['tokens_input', 'tokens_cached_input', 'tokens_cache_write', 'tokens_output'],
  },
};

/** Sums by unit of time and group; `starts` are those of the units, `names` those of the groups. */
export async function readRowsFromSums(
  queries: Queries,
  request: FiguresRequest,
  starts: readonly number[],
  names: readonly (string | null)[],
): Promise<PlacedRow[] | null> {
  const { group = null, unit = null, costly = [], to } = request;
  if (unit === 'minute') return null;
  const periods = starts.length === 0 ? [request] : starts.map((start, index) => ({ from: start, to: starts[index + 1] ?? to }));
  const isByTask = rollupScopeOf(request, group) === 'task' && group === 'task' && request.filter?.task === undefined;
  const sums = await findSums(queries, request, group, periods, isByTask ? names : undefined);
  if (sums === null) return null;
  const histograms = (['latency', 'firstChunk'] as const).filter((name) => costly.includes(name));
  const { histogram } = sums;
  if (histograms.length > 0 && (histogram === null || (await countCalls(queries, { ...request, periods: [request] })) <= exactCalls))
    return null;
  const dimensions = [...(starts.length === 0 ? [] : ['unit']), ...(group === null ? [] : ['place'])];
  const placed = (select: (parameters: Parameters) => string): { text: string; parameters: Parameters } => {
    const parameters = createParameters();
    const parts = select(parameters);
    const bucket =
      starts.length === 0 ? 'null::integer' : `width_bucket(part.at, ${parameters.add(starts.map((at) => new Date(at)))}::timestamptz[])`;
    const place = group === null ? 'null::integer' : `coalesce(array_position(${parameters.add(names)}::text[], ${sums.label}), 0)`;
    return { text: `select part.*, ${bucket} as unit, ${place} as place from (${parts}) as part`, parameters };
  };

  // Of call rows at the ends of the range, failovers need a lookup each.
  const hasFailovers = costly.includes('failovers');
  const wanted: readonly Measure[] = hasFailovers ? [...measures, 'failovers'] : measures;
  const { text, parameters } = placed((added) => sums.parts(wanted, added));
  const rows = await queries.query<PlacedRow>(
    `select ${starts.length === 0 ? 'null::integer as unit' : 'unit'}, ${group === null ? 'null::integer as place' : 'place'}, ${sumsSql}
            ${hasFailovers ? ', sum(failovers)::bigint as failovers' : ''}
       from (${text}) as part
      ${dimensions.length === 0 ? '' : `group by cube (${dimensions.join(', ')})`}
     having sum(calls) <> 0`,
    parameters.values,
  );
  // There may be any number of other tasks: they are what the project has more.
  if (isByTask) return withOthers(rows, (await readRowsFromSums(queries, { ...request, group: null }, starts, [])) ?? []);
  if (histograms.length === 0 || histogram === null) return rows;
  const percentiles = await Promise.all(
    histograms.map(async (name) => {
      const counted = placed((added) => histogram(name === 'latency' ? 'durations' : 'first_chunks', added));
      const slots = await queries.query<SlotRow>(
        `select unit, place, slot::integer as slot, sum(n)::bigint as n from (${counted.text}) as part group by 1, 2, 3 having sum(n) <> 0`,
        counted.parameters.values,
      );
      return [name, toPercentiles(slots)] as const;
    }),
  );
  return rows.map((row) => ({
    ...row,
    ...Object.fromEntries(percentiles.map(([name, byPosition]) => [name, percentileOf(byPosition, row)])),
  }));
}

const counts = [
  'calls',
  'errors',
  'unpriced',
  'input',
  'cachedInput',
  'cacheWrite',
  'output',
  'cacheHits',
  'cacheLookups',
  'failovers',
] as const;

/** Adds the sums of all groups, and of those without a place of their own. */
function withOthers(placed: readonly PlacedRow[], all: readonly PlacedRow[]): PlacedRow[] {
  const named = placed.filter(({ place }) => place !== null);
  const others = all.map((whole) => {
    const parts = named.filter(({ unit }) => unit === whole.unit);
    const less = (name: (typeof counts)[number]): number => parts.reduce((left, part) => left - (part[name] ?? 0), whole[name] ?? 0);
    const cost = parts.reduce((left, part) => left - BigInt(part.cost), BigInt(whole.cost));
    const rest = { ...whole, place: 0, cost: String(cost) };
    for (const name of counts) rest[name] = less(name);
    return rest;
  });
  return [...named, ...all, ...others.filter(({ calls }) => calls !== 0)];
}

/** The top groups with their figures. */
export async function readTopFromSums(queries: Queries, request: TopRequest & { readonly top: number }, group: Group) {
  const { rank = 'cost', top, costly = [], filter = {}, isNamed = false } = request;
  if (costly.length > 0) return null;
  const { sql, of } = ranks[rank];
  const readGroups = async <Row>(
    wanted: readonly Measure[],
    selected: string,
    names?: readonly (string | null)[],
  ): Promise<Row[] | null> => {
    const sums = await findSums(queries, request, group, [request], names);
    if (sums === null) return null;
    const parameters = createParameters();
    return queries.query<Row>(
      `select ${sums.label} as name ${selected} from (${sums.parts(wanted, parameters)}) as part
        ${isNamed ? `where ${sums.label} is not null` : ''}
        group by 1 having sum(calls) <> 0 order by ${sql} desc, sum(calls) desc, 1 limit ${parameters.add(top)}::integer`,
      parameters.values,
    );
  };
  // There may be any number of tasks: only what they are ranked by is summed for each. Short ranges are read from call rows, in which only tasks
  // with a name have an index.
  const isLong = request.to - request.from > 2 * dayMs;
  const isByTask = (isLong || isNamed) && group === 'task' && rollupScopeOf(request, group) === 'task' && filter.task === undefined;
  const ranked = isByTask ? await readGroups<{ readonly name: string | null }>([...new Set(['calls', ...of] as const)], '') : undefined;
  return readGroups<FiguresRow & { readonly name: string | null }>(
    measures,
    `, ${sumsSql}`,
    ranked?.map(({ name }) => name),
  );
}

/** True when neither rollups nor cells have what is requested. Figures by minute do not count: they are of at most 1,500 minutes. */
export function needsRows(request: FiguresRequest): boolean {
  const { filter = {}, group = null, unit = null, costly = [] } = request;
  if (unit === 'minute') return false;
  const scope = rollupScopeOf(request, group);
  if (scope === 'task') return costly.some((name) => name !== 'failovers');
  return scope === null && cellScopeOf(filter, group) === null;
}
