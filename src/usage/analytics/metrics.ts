/** Defines the metrics of the usage views: how to compute each one, and how to rank groups by it. */
import type { CostlyFigure, Figures } from './figures.ts';
import type { Group, Rank } from './figures-request.ts';

export type MetricUnit = 'count' | 'nanos' | 'tokens' | 'ms' | 'share';

export interface Metric {
  readonly name: string;
  readonly label: string;
  readonly unit: MetricUnit;
  /** True if the values of all groups add up to the total. Percentiles don't, for example. */
  readonly isAdditive: boolean;
  readonly rank: Rank;
  readonly costly?: CostlyFigure;
  /** Set if we can only compute the metric for calls and not for attempts. */
  readonly callsOnly?: true;
  /** Returns null if there's no value, e.g. no latency without calls. */
  readonly value: (figures: Figures) => number | null;
}

const percentile = (name: string, label: string, costly: 'latency' | 'firstChunk', part: 'p50' | 'p95'): Metric => ({
  ...{ name, label, unit: 'ms', isAdditive: false, rank: 'calls', costly },
  value: (figures) => figures[costly]?.[part] ?? null,
});

const tokens = (name: string, label: string, part: keyof Figures['tokens']): Metric => ({
  ...{ name, label, unit: 'tokens', isAdditive: true, rank: 'tokens' },
  value: (figures) => figures.tokens[part],
});

/** The first metric is the default. */
export const metrics: readonly [Metric, ...Metric[]] = [
  { name: 'cost', label: 'Cost', unit: 'nanos', isAdditive: true, rank: 'cost', value: ({ costNanos }) => Number(costNanos) },
  { name: 'calls', label: 'Calls', unit: 'count', isAdditive: true, rank: 'calls', value: ({ calls }) => calls },
  { name: 'errors', label: 'Errors', unit: 'count', isAdditive: true, rank: 'errors', value: ({ errors }) => errors },
  {
    name: 'error_share',
    label: 'Error rate',
    unit: 'share',
    isAdditive: false,
    rank: 'errors',
    value: ({ errors, calls }) => share(errors, calls),
  },
  { name: 'tokens', label: 'Tokens', unit: 'tokens', isAdditive: true, rank: 'tokens', value: totalTokens },
  tokens('tokens_input', 'Input tokens', 'input'),
  tokens('tokens_cached_input', 'Cached input tokens', 'cachedInput'),
  tokens('tokens_cache_write', 'Cache write tokens', 'cacheWrite'),
  tokens('tokens_output', 'Output tokens', 'output'),
  percentile('latency_p50', 'Latency, median', 'latency', 'p50'),
  percentile('latency_p95', 'Latency, 95th percentile', 'latency', 'p95'),
  percentile('first_chunk_p50', 'Time to first chunk, median', 'firstChunk', 'p50'),
  percentile('first_chunk_p95', 'Time to first chunk, 95th percentile', 'firstChunk', 'p95'),
  {
    ...{ name: 'cache_hits', label: 'Cache hit rate', unit: 'share', isAdditive: false, rank: 'calls', callsOnly: true },
    value: ({ cacheHits, cacheLookups }) => share(cacheHits, cacheLookups),
  },
  {
    ...{ name: 'cached_input_share', label: 'Share of cached input', unit: 'share', isAdditive: false, rank: 'tokens' },
    value: cachedInputShare,
  },
  {
    ...{ name: 'failovers', label: 'Failover rate', unit: 'share', isAdditive: false, rank: 'calls', costly: 'failovers' },
    value: ({ failovers, calls }) => share(failovers, calls),
  },
];

export const groupLabels: Readonly<Record<Group, string>> = {
  model: 'Model',
  source: 'Application',
  task: 'Task',
  key: 'Key',
  route: 'Route',
  status: 'Status',
  code: 'Error code',
  outcome: 'Outcome',
  provider: 'Provider (attempts)',
  attempted: 'Attempted model (attempts)',
  subject: 'End user',
  person: 'Person (playground)',
};

export function totalTokens({ tokens: { input, cachedInput, cacheWrite, output } }: Figures): number {
  return input + cachedInput + cacheWrite + output;
}

/**
 * Returns the share of input tokens that vendors have read from their prompt caches. Null if there are no input tokens.
 */
export function cachedInputShare({ tokens: { input, cachedInput, cacheWrite } }: Figures): number | null {
  return share(cachedInput, input + cachedInput + cacheWrite);
}

export function share(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}
