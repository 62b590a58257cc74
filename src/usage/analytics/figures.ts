/** The figures of a set of calls. Attempts have the same figures. */

export interface Figures {
  /** Calls, or attempts when grouped by provider. */
  readonly calls: number;
  /** Those that did not succeed, unless the caller disconnected. */
  readonly errors: number;
  /** Sum of the known costs in nano-dollars. */
  readonly costNanos: bigint;
  /** Calls whose cost is unknown, because their model has no price. */
  readonly unpriced: number;
  readonly tokens: { readonly input: number; readonly cachedInput: number; readonly cacheWrite: number; readonly output: number };
  /** Milliseconds of successful calls. Null when there are none. */
  readonly latency: Percentiles | null;
  /** Milliseconds until the first chunk of successful streams. Null when there are none. */
  readonly firstChunk: Percentiles | null;
  readonly cacheHits: number;
  /** Calls that the response cache could have served. */
  readonly cacheLookups: number;
  /** Calls with more than one attempt; attempts after the first. */
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

/** Figures that cost more than a pass over the rows: sorting, or a lookup per call. They are zero or null when not requested. */
export type CostlyFigure = 'latency' | 'firstChunk' | 'failovers';

/** A row of aggregates. */
export interface FiguresRow {
  readonly calls: number;
  readonly errors: number;
  /** As text, since a sum may exceed the safe integers. */
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
