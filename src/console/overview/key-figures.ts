/** Shows the key figures of a period and their change since the previous period. */
import type { Figures } from '../../usage/analytics/figures.ts';
import { cachedInputShare, share } from '../../usage/analytics/metrics.ts';
import {
  countOf,
  formatCompact,
  formatCount,
  formatDuration,
  formatPercent,
  type Stat,
  statDelta,
  total,
  totalUsd,
} from '../frame/components.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { rangeQuery } from '../frame/time-range.ts';

export function statsOf(
  context: ConsoleContext,
  current: Figures,
  previous: Figures,
  refused: { readonly current: number; readonly previous: number },
): Stat[] {
  const calls = (query: Record<string, string>): string => projectPath(context, '/calls', { ...rangeQuery(context), ...query });
  const explore = (metric: string): string => projectPath(context, '/explore', { ...rangeQuery(context), metric });
  const errorShare = share(current.errors, current.calls);
  const cacheShare = share(current.cacheHits, current.cacheLookups);
  const failoverShare = share(current.failovers, current.calls);
  const times = (figures: Figures['latency']): string => (figures ? `95% within ${formatDuration(figures.p95)}` : 'No successful calls');
  return [
    {
      label: 'Spend',
      value: total(current.costNanos),
      href: explore('cost'),
      hint: `${totalUsd(previous.costNanos)} in the previous period`,
      ...statDelta(Number(current.costNanos), Number(previous.costNanos), null),
    },
    {
      label: 'Calls',
      value: formatCount(current.calls),
      href: calls({}),
      hint: `${formatCount(previous.calls)} in the previous period`,
      ...statDelta(current.calls, previous.calls, null),
    },
    {
      label: 'Errors',
      value: formatPercent(errorShare),
      href: calls({ result: 'error' }),
      hint: `${formatCount(current.errors)} of ${formatCount(current.calls)} calls`,
      ...statDelta(errorShare, share(previous.errors, previous.calls), false),
    },
    {
      label: 'Refused',
      value: formatCount(refused.current),
      href: projectPath(context, '/calls/refused', rangeQuery(context)),
      hint: `${formatCount(refused.previous)} in the previous period`,
      ...statDelta(refused.current, refused.previous, false),
    },
    {
      label: 'Latency, median',
      value: formatDuration(current.latency?.p50 ?? null),
      href: explore('latency_p95'),
      hint: times(current.latency),
      ...statDelta(current.latency?.p50 ?? null, previous.latency?.p50 ?? null, false),
    },
    {
      label: 'Time to first chunk, median',
      value: formatDuration(current.firstChunk?.p50 ?? null),
      href: explore('first_chunk_p95'),
      hint: current.firstChunk ? times(current.firstChunk) : 'No streams',
      ...statDelta(current.firstChunk?.p50 ?? null, previous.firstChunk?.p50 ?? null, false),
    },
    {
      label: 'Cache hits',
      value: formatPercent(cacheShare),
      href: calls({ cache: 'hit' }),
      hint: `${formatCount(current.cacheHits)} of ${formatCount(current.cacheLookups)} calls`,
      ...statDelta(cacheShare, share(previous.cacheHits, previous.cacheLookups), true),
    },
    {
      label: 'Failovers',
      value: formatPercent(failoverShare),
      href: calls({ failover: 'yes' }),
      hint: `${countOf(current.failovers, 'call')} with more than one attempt`,
      ...statDelta(failoverShare, share(previous.failovers, previous.calls), false),
    },
    {
      label: 'Tokens',
      value: formatCompact(current.tokens.input + current.tokens.cachedInput + current.tokens.cacheWrite + current.tokens.output),
      href: explore('tokens'),
      hint: `${formatCompact(current.tokens.output)} of them output; ${formatPercent(cachedInputShare(current))} of the input was cached`,
    },
  ];
}
