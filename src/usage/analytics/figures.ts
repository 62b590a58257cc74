export interface Figures {
  /**
   * The number of calls. If the figures are grouped by an attribute of attempts (see `isOfAttempts`), this is the
   * number of attempts.
   */
  readonly calls: number;
  /** The number of failed calls. A call doesn't fail if its caller disconnects. */
  readonly errors: number;
  /** The sum of all known costs in nano-dollars. */
  readonly costNanos: bigint;
  /** The number of calls with an unknown cost, because their model had no price. */
  readonly unpriced: number;
  readonly tokens: { readonly input: number; readonly cachedInput: number; readonly cacheWrite: number; readonly output: number };
  /** The duration of successful calls in milliseconds. Null if there were none. */
  readonly latency: Percentiles | null;
  /** The time to the first chunk of successful streams, in milliseconds. Null if there were none. */
  readonly firstChunk: Percentiles | null;
  readonly cacheHits: number;
  /** The number of calls that could have been served from the response cache. */
  readonly cacheLookups: number;
  /**
   * The number of calls that had a second attempt. If the figures count attempts, this is the number of attempts that
   * weren't the first of their call.
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
 * Figures that are slow to compute, because we have to sort rows or look up the attempts of each call. If they aren't
 * requested, they're zero or null.
 */
export type CostlyFigure = 'latency' | 'firstChunk' | 'failovers';

type Counts = Pick<Figures, 'calls' | 'errors' | 'unpriced' | 'cacheHits' | 'cacheLookups'> & Figures['tokens'];

export interface FiguresRow extends Counts {
  /** This is a string, because the sum may exceed the range of safe integers. */
  readonly cost: string;
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
