/** Finds the hours with matching calls, so that a list doesn't have to read the whole range. */
import { hourMs } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { type CallSelection, createParameters, onlyOwnCalls } from '../analytics/call-filter.ts';
import type { Period } from '../analytics/range.ts';
import type { Segment } from '../rollups/spans.ts';
import { selectSums } from '../sums.ts';
import { aggregateFilterOf, aggregateScopeOf } from './aggregate-scope.ts';
import { aggregatesOf, coverByAggregates, isMostlyRows } from './aggregates.ts';

export interface MatchingPeriods {
  readonly periods: readonly Period[];
  /**
   * The number of calls in these periods that match the filters. Filters that aggregates don't support are ignored, and
   * periods without aggregates count as zero.
   */
  readonly calls: number;
}

/**
 * Yields lists of periods that may contain matching calls, latest first. Judging by the filters that aggregates
 * support, each list except the last contains at least `wanted` matching calls. Returns null if aggregates don't help.
 */
export async function findMatchingPeriods(
  queries: Queries,
  { projectId, filter = {}, from, to }: CallSelection,
  wanted: number,
): Promise<AsyncGenerator<MatchingPeriods> | null> {
  const { scope, filter: known } = aggregateFilterOf(filter);
  // If the gateway's own calls are hidden, subtract them. Only aggregates by application know which calls these are. If
  // these aggregates don't support the other filters, we don't subtract anything.
  const own = filter.own === 'hide' && scope === 'project' ? onlyOwnCalls(known) : null;
  const subtracted = own !== null && aggregateScopeOf(own, null) === 'source' ? own : null;
  if (Object.keys(known).length === 0 && subtracted === null) return null;
  const cover = await coverByAggregates(queries, projectId, [{ from, to }]);
  if (isMostlyRows(cover)) return null;

  const readMatching = async (segments: readonly Segment[]): Promise<(Segment & { readonly calls: number })[]> => {
    const parameters = createParameters();
    const request = { projectId, scope, filter: known, group: null, cover: { segments, edges: [] } };
    const whole = aggregatesOf(request, parameters);
    const part = subtracted === null ? [] : aggregatesOf({ ...request, scope: 'source', filter: subtracted }, parameters);
    const addends = [...whole, ...part.map((each) => ({ ...each, isSubtracted: true as const }))];
    const rows = await queries.query<{ at: Date; calls: number }>(
      `select at, sum(calls)::bigint as calls from (${selectSums(addends, ['calls'])}) as part
        group by at having sum(calls) > 0 order by at desc`,
      parameters.values,
    );
    return rows.map(({ at, calls }) => {
      const start = at.getTime();
      const span = segments.find((segment) => start >= segment.from && start < segment.to)?.span ?? 'hour';
      return { from: start, to: start + (span === 'day' ? 24 * hourMs : hourMs), calls, span };
    });
  };

  return (async function* () {
    // Count the calls in the edges as zero. We don't know how many there are, because the edges have no aggregates.
    const edges = cover.edges.map((edge) => ({ ...edge, calls: 0, span: 'hour' as const }));
    const left = [...(await readMatching(cover.segments)), ...edges].toSorted((one, other) => other.from - one.from);
    /** Removes the latest spans from `left` and returns them. Stops once they have at least `wanted` matching calls. */
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
      const taken = take();
      yield { periods: taken, calls: taken.reduce((sum, { calls }) => sum + calls, 0) };
    }
  })();
}
