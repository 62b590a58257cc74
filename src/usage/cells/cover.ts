/** Which parts of a period are read from cells, and which from call rows. */
import { dayMs, hourMs } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import type { Period } from '../analytics/range.ts';
import type { Cover } from '../rollups/spans.ts';

/** `edges`: less than an hour at an end of a period, hours that are outdated, and what the cells lack yet. */
export type CellCover = Cover<'hour' | 'day'>;

/** Call rows of a longer part are counted before they are read. */
const maxUncoveredMs = 6 * hourMs;

/**
 * Covers adjacent periods such that no segment crosses a border between them. The figures are read by a later statement: an hour whose calls
 * change in between is read as it was before.
 */
export async function coverByCells(queries: Queries, projectId: string, periods: readonly Period[]): Promise<CellCover> {
  const [from, to] = [periods[0]?.from ?? 0, periods.at(-1)?.to ?? 0];
  const rows = await queries.query<{ filledFrom: number; span: 'hour' | 'day' | null; start: Date | null }>(
    `select extract(epoch from filled_from)::float8 * 1000 as "filledFrom", outdated.span, outdated.start
       from usage_cells_fill
       left join (
         select distinct span, start from usage_outdated
          where project_id = $1::uuid and start >= $2::timestamptz - interval '1 day' and start < $3::timestamptz
       ) as outdated on true`,
    [projectId, new Date(from), new Date(to)],
  );
  const filledFrom = rows[0]?.filledFrom ?? Number.POSITIVE_INFINITY;
  const startsOf = (wanted: 'hour' | 'day'): number[] =>
    rows.flatMap(({ span, start }) => (span === wanted && start !== null ? [start.getTime()] : []));
  const hours = new Set(startsOf('hour'));
  const days = new Set([...startsOf('day'), ...[...hours].map((hour) => hour - (hour % dayMs))]);
  const outdated = { hour: hours, day: days } as const;
  const lengths = [
    ['day', dayMs],
    ['hour', hourMs],
  ] as const;

  const segments: CellCover['segments'][number][] = [];
  const edges: Period[] = [];
  for (const period of periods) {
    for (let at = period.from; at < period.to; ) {
      const [span, length] =
        lengths.find(([name, ms]) => at % ms === 0 && at + ms <= period.to && at >= filledFrom && !outdated[name].has(at)) ?? [];
      const next = length === undefined ? Math.min(period.to, at - (at % hourMs) + hourMs) : at + length;
      const last = span === undefined ? edges.at(-1) : segments.at(-1);
      const isAdjacent = last?.to === at && (span === undefined || segments.at(-1)?.span === span);
      const joined = { from: isAdjacent ? last.from : at, to: next };
      if (span === undefined) edges.splice(isAdjacent ? -1 : edges.length, 1, joined);
      else segments.splice(isAdjacent ? -1 : segments.length, 1, { ...joined, span });
      at = next;
    }
  }
  return { segments, edges };
}

/** Whether so much is read from call rows that cells may not help. */
export function isMostlyRows({ edges }: CellCover): boolean {
  return edges.reduce((sum, { from, to }) => sum + to - from, 0) > maxUncoveredMs;
}
