/** Reads figures about a project's calls, by group and time. The console, exports and MCP use this. */
import { dayMs } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { type Histogram, type Measure, selectHistogram, selectSums } from '../sums.ts';
import { createParameters, type Parameters } from './call-filter.ts';
import { findSource, rollupScopeOf, type SourceRequest } from './figure-source.ts';
import { type Figures, type FiguresRow, noFigures, toFigures } from './figures.ts';
import type { FiguresRequest, Group, Rank, TopRequest } from './figures-request.ts';
import { percentileOf, type SlotRow, toPercentiles } from './percentiles.ts';
import { splitIntoUnits } from './range.ts';

export interface GroupFigures {
  /**
   * `others` sums up everything outside of the top groups. A `group` with the name null contains calls without a value.
   */
  readonly kind: 'group' | 'others';
  readonly name: string | null;
  readonly figures: Figures;
}

export interface UnitFigures {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  readonly figures: Figures;
  /** The figures of each group, in the same order as in `FiguresReport.groups`. */
  readonly groups: readonly Figures[];
}

export interface FiguresReport {
  readonly total: Figures;
  /** The top groups in descending order, followed by `others`. Empty if the request has no group. */
  readonly groups: readonly GroupFigures[];
  /** All units of the range, including those without calls. Empty if the request has no `unit`. */
  readonly units: readonly UnitFigures[];
}

/**
 * The figures of one group in one unit of time. Units and ranks are numbered from 1. `unit` is null for all units
 * together. `place` is the rank of the group, 0 for everything outside of the top groups, or null for all groups
 * together.
 */
type PlacedRow = FiguresRow & { readonly unit: number | null; readonly place: number | null };

const defaultTop = 7;

/**
 * Throws `bad_request` if the range has too many units, and `TooManyCalls` if this would take more than `maxRows` call
 * rows.
 */
export async function readFigures(queries: Queries, request: FiguresRequest): Promise<FiguresReport> {
  const { unit = null, group = null, zone, from, to } = request;
  const starts = unit === null ? [] : splitIntoUnits(unit, zone, { from, to });
  // A chart by minute has to read every call row anyway, so don't limit how many rows we read to find its top groups.
  const top = unit === 'minute' ? { ...request, maxRows: undefined } : request;
  const names = group === null ? [] : (await readTop(queries, top, group)).map(({ name }) => name);
  const rows = await readRows(queries, request, starts, names);

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

const measures: readonly Measure[] = [
  ...(['calls', 'errors', 'unpriced', 'cost_nanos', 'tokens_input', 'tokens_cached_input', 'tokens_cache_write', 'tokens_output'] as const),
  ...(['cache_hits', 'cache_lookups'] as const),
];

const sumsSql = `
  sum(calls)::bigint as calls, sum(errors)::bigint as errors, sum(cost_nanos)::text as cost, sum(unpriced)::bigint as unpriced,
  sum(tokens_input)::bigint as input, sum(tokens_cached_input)::bigint as "cachedInput", sum(tokens_cache_write)::bigint as "cacheWrite",
  sum(tokens_output)::bigint as output, sum(cache_hits)::bigint as "cacheHits", sum(cache_lookups)::bigint as "cacheLookups"`;

const histograms = { latency: 'durations', firstChunk: 'first_chunks' } as const satisfies Readonly<Record<string, Histogram>>;

async function readRows(
  queries: Queries,
  request: FiguresRequest,
  starts: readonly number[],
  names: readonly (string | null)[],
): Promise<readonly PlacedRow[]> {
  const { group = null, costly = [], to } = request;
  const periods = starts.length === 0 ? [request] : starts.map((start, index) => ({ from: start, to: starts[index + 1] ?? to }));
  const isByTask = isAnyTask(request, group) && !costly.some((name) => name !== 'failovers');
  const { isRows, addends } = await findSource(queries, { ...request, periods, ...(isByTask && { names }) });
  const dimensions = [...(starts.length === 0 ? [] : ['unit']), ...(group === null ? [] : ['place'])];
  const placed = (sums: string, { add }: Parameters): string =>
    `select part.*,
            ${starts.length === 0 ? 'null::integer' : `width_bucket(part.at, ${add(starts.map((at) => new Date(at)))}::timestamptz[])`} as unit,
            ${group === null ? 'null::integer' : `coalesce(array_position(${add(names)}::text[], part.name), 0)`} as place
       from (${sums}) as part`;

  const percentiles = (['latency', 'firstChunk'] as const).filter((name) => costly.includes(name));
  const hasFailovers = costly.includes('failovers');
  const exact = isRows ? percentiles : [];
  const parameters = createParameters();
  // Only count failovers if they're requested. There are no stored sums at the ends of the range, so we'd have to look
  // up the second attempt of each call row there.
  const wanted = [...measures, ...(hasFailovers ? (['failovers'] as const) : []), ...exact.map((name) => histograms[name])];
  const sums = placed(selectSums(addends(parameters), wanted), parameters);
  const rows = await queries.query<PlacedRow>(
    `select ${starts.length === 0 ? 'null::integer as unit' : 'unit'}, ${group === null ? 'null::integer as place' : 'place'}, ${sumsSql}
            ${hasFailovers ? ', sum(failovers)::bigint as failovers' : ''}
            ${exact.map((name) => `, percentile_disc(array[0.5, 0.95]) within group (order by ${histograms[name]}) as "${name}"`).join('')}
       from (${sums}) as part
      ${dimensions.length === 0 ? '' : `group by cube (${dimensions.join(', ')})`}
     having sum(calls) > 0`,
    parameters.values,
  );
  // A project can have any number of tasks, so don't read all the others. Their sum is the project's total minus the
  // top tasks.
  if (isByTask && !isRows) return withOthers(rows, await readRows(queries, { ...request, group: null }, starts, []));
  if (isRows) return rows;
  const estimated = await Promise.all(
    percentiles.map(async (name) => {
      const slotParameters = createParameters();
      const slots = placed(selectHistogram(addends(slotParameters), histograms[name]), slotParameters);
      const counted = await queries.query<SlotRow>(
        `select unit, place, slot::integer as slot, sum(n)::bigint as n from (${slots}) as part group by 1, 2, 3 having sum(n) <> 0`,
        slotParameters.values,
      );
      return [name, toPercentiles(counted)] as const;
    }),
  );
  return rows.map((row) => ({ ...row, ...Object.fromEntries(estimated.map(([name, values]) => [name, percentileOf(values, row)])) }));
}

/** Returns true if the request groups all tasks of the project, of which there can be any number. */
function isAnyTask({ filter = {} }: Pick<FiguresRequest, 'filter'>, group: Group | null): boolean {
  return group === 'task' && filter.task === undefined && rollupScopeOf(filter, group) === 'task';
}

const counts = ['calls', 'errors', 'unpriced', 'input', 'cachedInput', 'cacheWrite', 'output', 'cacheHits', 'cacheLookups'] as const;

function withOthers(placed: readonly PlacedRow[], all: readonly PlacedRow[]): PlacedRow[] {
  const named = placed.filter(({ place }) => place !== null);
  const others = all.map((whole) => {
    const parts = named.filter(({ unit }) => unit === whole.unit);
    const cost = parts.reduce((left, part) => left - BigInt(part.cost), BigInt(whole.cost));
    const rest = { ...whole, place: 0, cost: String(cost) };
    for (const name of [...counts, 'failovers'] as const)
      rest[name] = parts.reduce((left, part) => left - (part[name] ?? 0), whole[name] ?? 0);
    return rest;
  });
  return [...named, ...all, ...others.filter(({ calls }) => calls !== 0)];
}

const ranks: Readonly<Record<Rank, { readonly sql: string; readonly of: readonly Measure[] }>> = {
  cost: { sql: 'sum(cost_nanos)', of: ['cost_nanos'] },
  calls: { sql: 'sum(calls)', of: [] },
  errors: { sql: 'sum(errors)', of: ['errors'] },
  tokens: {
    sql: 'sum(tokens_input + tokens_cached_input + tokens_cache_write + tokens_output)',
    of: ['tokens_input', 'tokens_cached_input', 'tokens_cache_write', 'tokens_output'],
  },
};

type NamedRow = FiguresRow & { readonly name: string | null };

export async function readTop(queries: Queries, request: TopRequest, group: Group): Promise<GroupFigures[]> {
  const { rank = 'cost', top = defaultTop, isNamed = false } = request;
  const { sql, of } = ranks[rank];
  const readGroups = async (wanted: readonly Measure[], selected: string, names?: readonly (string | null)[]): Promise<NamedRow[]> => {
    const source: SourceRequest = { ...request, group, unit: null, costly: [], periods: [request], names };
    const { addends } = await findSource(queries, source);
    const parameters = createParameters();
    return queries.query<NamedRow>(
      `select name ${selected} from (${selectSums(addends(parameters), wanted)}) as part
        ${isNamed ? 'where name is not null' : ''}
        group by 1 having sum(calls) > 0 order by ${sql} desc, sum(calls) desc, 1 limit ${parameters.add(top)}::integer`,
      parameters.values,
    );
  };
  // A project can have any number of tasks. So we first read only the sums that we need to rank them, and then all
  // figures of the top tasks.
  //
  // Over a short range, we'd have to read call rows in both steps. That's only faster than a single step if `isNamed`
  // is set, because there's an index on just those calls that have a task.
  const isByTask = isAnyTask(request, group) && (isNamed || request.to - request.from > 2 * dayMs);
  const ranked = isByTask ? await readGroups([...new Set(['calls', ...of] as const)], '') : undefined;
  const rows = await readGroups(
    measures,
    `, ${sumsSql}`,
    ranked?.map(({ name }) => name),
  );
  return rows.map((row) => ({ kind: 'group', name: row.name, figures: toFigures(row) }));
}
