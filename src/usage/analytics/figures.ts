/** The figures that we report about any set of calls or attempts. */

export interface Figures {
  /** Counts attempts instead if the figures are grouped by something about attempts (see `isOfAttempts`). */
  readonly calls: number;
  /** How many calls failed. Calls whose caller disconnected didn't fail. */
  readonly errors: number;
  /** The sum of all known costs in nano-dollars. */
  readonly costNanos: bigint;
  /** How many calls have no known cost, because there was no price for their model. */
  readonly unpriced: number;
  readonly tokens: { readonly input: number; readonly cachedInput: number; readonly cacheWrite: number; readonly output: number };
  /** How long successful calls took, in milliseconds. Null if there are none. */
  readonly latency: Percentiles | null;
  /** How long successful streams took until the first chunk, in milliseconds. Null if there are none. */
  readonly firstChunk: Percentiles | null;
  readonly cacheHits: number;
  /** Calls that we looked up in the response cache. */
  readonly cacheLookups: number;
  /** How many calls had a second attempt. If we count attempts, it's how many of those weren't the first one. */
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
 * These figures are costly, because we have to sort the rows or look up the attempts of each call. They're zero or null
 * unless the request asks for them.
 */
export type CostlyFigure = 'latency' | 'firstChunk' | 'failovers';

export interface FiguresRow {
  readonly calls: number;
  readonly errors: number;
  /** The sum can be larger than a safe integer, so it's a string. */
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
