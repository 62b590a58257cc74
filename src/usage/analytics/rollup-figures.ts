/**
 * Figures from the rollups, where a request is about one attribute of calls at most; null otherwise, and the figures are those of the call rows
 * (`read-figures.ts`). The two are equal, but for percentiles: of more than `exactCalls` calls they are within 5 %.
 */
import type { Queries } from '../../db/database.ts';
import { type Measure, type PartsRequest, type Scope, selectHistogram, selectParts, valueOfSlot } from '../rollups/parts.ts';
import { createParameters, matchesValue, type Parameters } from './call-filter.ts';
import type { FiguresRow } from './figures.ts';
import type { FiguresRequest, Group, Rank, TopRequest } from './figures-request.ts';

/** `unit` and `place` are null in the sums over all units and all groups. */
export type PlacedRow = FiguresRow & { readonly unit: number | null; readonly place: number | null };

/** Percentiles of fewer calls are read from the call rows. */
const exactCalls = 10_000;

const attributes = ['model', 'source', 'key', 'task'] as const satisfies readonly (Group & Scope)[];

/** Null when the rollups do not have what is requested. */
function scopeOf({ filter = {} }: Pick<FiguresRequest, 'filter'>, group: Group | null): Scope | null {
  const filtered = Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  const names = new Set([...filtered, ...(group === null ? [] : [group])]);
  if (names.size === 0) return 'project';
  const [name] = names;
  return names.size === 1 ? (attributes.find((attribute) => attribute === name) ?? null) : null;
}

function partsRequest(
  request: Pick<FiguresRequest, 'projectId' | 'filter' | 'from' | 'to'>,
  scope: Scope,
  parameters: Parameters,
): PartsRequest {
  const { projectId, filter = {}, from, to } = request;
  const value = scope === 'project' ? undefined : filter[scope];
  return {
    ...{ projectId, scope, periods: [{ from, to }] },
    condition: (name, keyPrefix) => (value === undefined ? 'true' : matchesValue(scope === 'key' ? keyPrefix : name, value, parameters)),
  };
}

const labelOf = (scope: Scope): string => (scope === 'key' ? 'part.key_prefix' : 'part.name');

const measures: readonly Measure[] = [
  ...(['calls', 'errors', 'unpriced', 'cost_nanos', 'tokens_input', 'tokens_cached_input', 'tokens_cache_write', 'tokens_output'] as const),
  ...(['cache_hits', 'cache_lookups'] as const),
];

const sumsSql = `
  sum(calls)::bigint as calls, sum(errors)::bigint as errors, sum(cost_nanos)::text as cost, sum(unpriced)::bigint as unpriced,
  sum(tokens_input)::bigint as input, sum(tokens_cached_input)::bigint as "cachedInput", sum(tokens_cache_write)::bigint as "cacheWrite",
  sum(tokens_output)::bigint as output, sum(cache_hits)::bigint as "cacheHits", sum(cache_lookups)::bigint as "cacheLookups"`;

const ranks: Readonly<Record<Rank, string>> = {
  cost: 'sum(cost_nanos)',
  calls: 'sum(calls)',
  errors: 'sum(errors)',
  tokens: 'sum(tokens_input + tokens_cached_input + tokens_cache_write + tokens_output)',
};

/** Sums by unit of time and group; `starts` are those of the units, `names` those of the groups. */
export async function readRollupRows(
  queries: Queries,
  request: FiguresRequest,
  starts: readonly number[],
  names: readonly (string | null)[],
): Promise<PlacedRow[] | null> {
  const { group = null, unit = null, costly = [], to } = request;
  const scope = scopeOf(request, group);
  if (scope === null || unit === 'minute') return null;
  const periods = starts.length === 0 ? [request] : starts.map((start, index) => ({ from: start, to: starts[index + 1] ?? to }));
  const dimensions = [...(starts.length === 0 ? [] : ['unit']), ...(group === null ? [] : ['place'])];
  const placed = (select: (parts: PartsRequest, parameters: Parameters) => string): { text: string; parameters: Parameters } => {
    const parameters = createParameters();
    const parts = select({ ...partsRequest(request, scope, parameters), periods }, parameters);
    const bucket =
      starts.length === 0 ? 'null::integer' : `width_bucket(part.at, ${parameters.add(starts.map((at) => new Date(at)))}::timestamptz[])`;
    const place = group === null ? 'null::integer' : `coalesce(array_position(${parameters.add(names)}::text[], ${labelOf(scope)}), 0)`;
    return { text: `select part.*, ${bucket} as unit, ${place} as place from (${parts}) as part`, parameters };
  };

  // Of call rows at the ends of the range, failovers need a lookup each.
  const hasFailovers = costly.includes('failovers');
  const wanted: readonly Measure[] = hasFailovers ? [...measures, 'failovers'] : measures;
  const { text, parameters } = placed((parts, added) => selectParts(parts, wanted, added));
  const rows = await queries.query<PlacedRow>(
    `select ${starts.length === 0 ? 'null::integer as unit' : 'unit'}, ${group === null ? 'null::integer as place' : 'place'}, ${sumsSql}
            ${hasFailovers ? ', sum(failovers)::bigint as failovers' : ''}
       from (${text}) as part
      ${dimensions.length === 0 ? '' : `group by cube (${dimensions.join(', ')})`}
     having sum(calls) <> 0`,
    parameters.values,
  );
  const histograms = (['latency', 'firstChunk'] as const).filter((name) => costly.includes(name));
  if (histograms.length === 0) return rows;
  const total = rows.find((row) => row.unit === null && row.place === null);
  if ((total?.calls ?? 0) <= exactCalls) return null;
  const percentiles = await Promise.all(
    histograms.map(async (name) => {
      const counted = placed((parts, added) => selectHistogram(parts, name === 'latency' ? 'durations' : 'first_chunks', added));
      const slots = await queries.query<SlotRow>(
        `select unit, place, slot::integer as slot, sum(n)::bigint as n from (${counted.text}) as part group by 1, 2, 3 having sum(n) <> 0`,
        counted.parameters.values,
      );
      return [name, toPercentiles(slots)] as const;
    }),
  );
  return rows.map((row) => ({
    ...row,
    ...Object.fromEntries(percentiles.map(([name, byPosition]) => [name, byPosition.get(positionOf(row.unit, row.place)) ?? null])),
  }));
}

/** The top groups with their figures. */
export async function readRollupTop(queries: Queries, request: TopRequest & { readonly top: number }, group: Group) {
  const { rank = 'cost', top, costly = [] } = request;
  const scope = scopeOf(request, group);
  if (scope === null || costly.length > 0) return null;
  const parameters = createParameters();
  const parts = selectParts(partsRequest(request, scope, parameters), measures, parameters);
  return queries.query<FiguresRow & { readonly name: string | null }>(
    `select ${labelOf(scope)} as name, ${sumsSql} from (${parts}) as part
      group by 1 having sum(calls) <> 0 order by ${ranks[rank]} desc, sum(calls) desc, 1 limit ${parameters.add(top)}::integer`,
    parameters.values,
  );
}

interface SlotRow {
  readonly unit: number | null;
  readonly place: number | null;
  readonly slot: number;
  readonly n: number;
}

const positionOf = (unit: number | null, place: number | null): string => `${unit ?? ''}/${place ?? ''}`;

/** The 50th and 95th percentile by position, also those of all units and of all groups. */
function toPercentiles(rows: readonly SlotRow[]): ReadonlyMap<string, readonly number[]> {
  const histograms = new Map<string, Map<number, number>>();
  for (const { unit, place, slot, n } of rows) {
    for (const position of new Set([positionOf(unit, place), positionOf(unit, null), positionOf(null, place), positionOf(null, null)])) {
      const histogram = histograms.get(position) ?? new Map<number, number>();
      histograms.set(position, histogram.set(slot, n + (histogram.get(slot) ?? 0)));
    }
  }
  return new Map(
    [...histograms].map(([position, histogram]) => {
      const slots = [...histogram].toSorted(([one], [other]) => one - other);
      const total = slots.reduce((sum, [, n]) => sum + n, 0);
      return [position, [0.5, 0.95].map((part) => valueOfSlot(slotAt(slots, part * total)))];
    }),
  );
}

/** The slot of the call with this number, counted from the fastest. */
function slotAt(slots: readonly (readonly [number, number])[], number: number): number {
  let counted = 0;
  for (const [slot, n] of slots) {
    counted += n;
    if (counted >= number) return slot;
  }
  return slots.at(-1)?.[0] ?? 0;
}
