/** Where the calls are that match filters: hours whose cells match, so that a list reads these and not the whole range. */
import { hourMs } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { type CallSelection, createParameters } from '../analytics/call-filter.ts';
import type { Period } from '../analytics/range.ts';
import type { Segment } from '../rollups/spans.ts';
import { selectSums } from '../sums.ts';
import { cellFilterOf } from './cell-scope.ts';
import { cellsOf, coverByCells, isMostlyRows } from './cells.ts';

/**
 * Yields periods, the latest first. Those of one yield have at least `wanted` calls that match the filters of the cells, except the last ones.
 * Null when cells do not help.
 */
export async function findMatchingPeriods(
  queries: Queries,
  { projectId, filter = {}, from, to }: CallSelection,
  wanted: number,
): Promise<AsyncGenerator<readonly Period[]> | null> {
  const { scope, filter: known } = cellFilterOf(filter);
  if (Object.keys(known).length === 0) return null;
  const cover = await coverByCells(queries, projectId, [{ from, to }]);
  if (isMostlyRows(cover)) return null;

  const readMatching = async (segments: readonly Segment[]): Promise<(Segment & { readonly calls: number })[]> => {
    const parameters = createParameters();
    const request = { projectId, scope, filter: known, group: null, cover: { segments, edges: [] } };
    const rows = await queries.query<{ at: Date; calls: number }>(
      `select at, sum(calls)::bigint as calls from (${selectSums(cellsOf(request, parameters), ['calls'])}) as part group by at order by at desc`,
      parameters.values,
    );
    return rows.map(({ at, calls }) => {
      const start = at.getTime();
      const span = segments.find((segment) => start >= segment.from && start < segment.to)?.span ?? 'hour';
      return { from: start, to: start + (span === 'day' ? 24 * hourMs : hourMs), calls, span };
    });
  };

  return (async function* () {
    // Edges may have any number of matching calls, also none.
    const edges = cover.edges.map((edge) => ({ ...edge, calls: 0, span: 'hour' as const }));
    const left = [...(await readMatching(cover.segments)), ...edges].toSorted((one, other) => other.from - one.from);
    /** Takes the latest spans with at least so many matching calls. */
    const take = (): typeof left => {
      let calls = 0;
      const after = left.findIndex((span) => {
        calls += span.calls;
        return calls >= wanted;
      });
      return left.splice(0, after === -1 ? left.length : after + 1);
    };
    while (left.length > 0) {
      const spans = take();
      const days = spans.filter(({ span }) => span === 'day').map(({ from, to }) => ({ span: 'hour' as const, from, to }));
      const hours = days.length === 0 ? [] : await readMatching(days.toReversed());
      left.unshift(...[...spans.filter(({ span }) => span === 'hour'), ...hours].toSorted((one, other) => other.from - one.from));
      yield take();
    }
  })();
}
