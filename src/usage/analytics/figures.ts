/** The figures that we report for a set of calls, or for a set of attempts. */

export interface Figures {
  /** The number of calls, or the number of attempts if the figures are grouped by provider. */
  readonly calls: number;
  /** The number of calls that didn't succeed, not counting calls whose caller disconnected. */
  readonly errors: number;
  /** The sum of all known costs in nano-dollars. */
  readonly costNanos: bigint;
  /** The number of calls whose cost is unknown because their model has no price. */
  readonly unpriced: number;
  readonly tokens: { readonly input: number; readonly cachedInput: number; readonly cacheWrite: number; readonly output: number };
  /** The duration of successful calls in milliseconds. Null if there are no such calls. */
  readonly latency: Percentiles | null;
  /** The time to the first chunk of successful streams in milliseconds. Null if there are no such calls. */
  readonly firstChunk: Percentiles | null;
  readonly cacheHits: number;
  /** The number of calls that the response cache could have served. */
  readonly cacheLookups: number;
  /**
   * The number of calls with more than one attempt. If we count attempts, the number of attempts after the first one.
   */
  readonly failovers: number;
}

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
}

export const noFigures: Figures = {
  calls: 0,
  errors: 0,
  costNanos: 0n,
  unpriced: 0,
  tokens: { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 },
  latency: null,
  firstChunk: null,
  cacheHits: 0,
  cacheLookups: 0,
  failovers: 0,
};

/**
 * Figures that take more than a pass over the rows, because we have to sort them or look up the attempts of each call.
 * They are zero or null unless requested.
 */
export type CostlyFigure = 'latency' | 'firstChunk' | 'failovers';

/** A row of sums as the database returns it. */
export interface FiguresRow {
  readonly calls: number;
  readonly errors: number;
  /** We read the sum as text, because it may exceed the safe integers. */
  readonly cost: string;
  readonly unpriced: number;
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly output: number;
  readonly cacheHits: number;
  readonly cacheLookups: number;
  readonly latency?: readonly number[] | null;
  readonly firstChunk?: readonly number[] | null;
  readonly failovers?: number;
}

export function toFigures(row: FiguresRow): Figures {
  const { calls, errors, cost, unpriced, input, cachedInput, cacheWrite, output, cacheHits, cacheLookups } = row;
  return {
    calls,
    errors,
    costNanos: BigInt(cost),
    unpriced,
    tokens: { input, cachedInput, cacheWrite, output },
    latency: toPercentiles(row.latency),
    firstChunk: toPercentiles(row.firstChunk),
    cacheHits,
    cacheLookups,
    failovers: row.failovers ?? 0,
  };
}

function toPercentiles(values: readonly number[] | null | undefined): Percentiles | null {
  const [p50, p95] = values ?? [];
  return p50 === undefined || p95 === undefined ? null : { p50, p95 };
}
