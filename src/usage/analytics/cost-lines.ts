/** The cost of a stored call line by line, at the prices in force when it started, compared with the stored cost. */
import type { Route } from '../../core/call.ts';
import { ratesFor } from '../../core/cost.ts';
import type { CallUnits, Price, TokenPrice, Tokens } from '../../core/pricing.ts';
import { recalculateCost } from '../prices/recalculate-cost.ts';
import type { ModelPrices } from '../prices/stored-price.ts';

export interface CostLine {
  readonly item:
    | 'input'
    | 'image input'
    | 'cached input'
    | 'cache write'
    | 'cache write (1 h)'
    | 'output'
    | 'searches'
    | 'images'
    | 'characters'
    | 'seconds'
    /** Attempts without a response that their vendors bill. */
    | 'earlier attempts'
    /** Uses of a tool that the vendor ran, e.g. `tool web_search`. */
    | `tool ${string}`;
  readonly count: number;
  /** Nano-dollars per `per` of the item. Null for attempts, which have their own lines. */
  readonly priceNanos: bigint | null;
  readonly per: 1 | 1_000_000;
  /** Nano-dollars, exact: the sum is rounded once. */
  readonly costNanos: { readonly whole: bigint; readonly millionths: bigint };
}

/** How the lines relate to the stored cost. */
export type CostComparison =
  | 'equal'
  /** The stored cost is another one: a price or the call was corrected, or the vendor's usage came later. */
  | 'different'
  /** From the response cache. */
  | 'cache_hit'
  /** No vendor responded. */
  | 'no_response'
  | 'price_unknown'
  /** Charged by units that are not stored. */
  | 'units_not_kept'
  /** Charged by its seconds when the video is ready. */
  | 'video';

export interface CostBreakdown {
  readonly lines: readonly CostLine[];
  /** Rounded sum of the lines in nano-dollars. Null when it cannot be computed. */
  readonly sumNanos: number | null;
  readonly comparison: CostComparison;
  /** The input is longer than this number of tokens, above which other prices apply. Null otherwise. */
  readonly aboveTokens: number | null;
  /** The vendor's service tier. Its factor is already included in the prices. Null for the standard tier. */
  readonly serviceTier: string | null;
}

export interface ChargedCall {
  readonly route: Route;
  readonly model: string | null;
  readonly cache: string | null;
  readonly tokens: Tokens;
  readonly units: CallUnits | null;
  /** Null when unknown. */
  readonly costNanos: number | null;
  /** Costs of the billed attempts before the one that `tokens` are of. */
  readonly earlierNanos: readonly number[];
}

export function explainCost(call: ChargedCall, prices: ModelPrices | null): CostBreakdown {
  const { route, model, cache, tokens, units, costNanos, earlierNanos } = call;
  const without = (comparison: CostComparison): CostBreakdown => ({
    lines: [],
    sumNanos: null,
    comparison,
    aboveTokens: null,
    serviceTier: null,
  });
  if (cache === 'hit') return without('cache_hit');
  if (model === null) return without('no_response');
  const charge = recalculateCost(route, tokens, units, prices);
  if (charge.kind !== 'cost') return without(charge.kind);
  const unitLines = ['images', 'speech', 'transcriptions'].includes(route) ? linesOfUnits(units, prices) : [];
  const { rates, aboveTokens } = prices?.price ? ratesFor(tokens, prices.price, units ?? {}) : { rates: null, aboveTokens: null };
  const lines = unitLines.length > 0 ? unitLines : prices?.price && rates ? linesOfTokens(tokens, units, prices.price, rates) : [];
  const earlier = earlierNanos.reduce((sum, nanos) => sum + nanos, 0);
  const sumNanos = charge.nanos + earlier;
  return {
    lines: earlierNanos.length === 0 ? lines : [...lines, toAttemptsLine(earlierNanos.length, earlier)],
    sumNanos,
    comparison: sumNanos === costNanos ? 'equal' : 'different',
    aboveTokens: unitLines.length > 0 ? null : aboveTokens,
    serviceTier: units?.serviceTier ?? null,
  };
}

function linesOfTokens(tokens: Tokens, units: CallUnits | null, price: Price, rates: TokenPrice): CostLine[] {
  const { perSearchNanos, imageInputNanos, perToolUseNanos = {} } = price;
  const line = (item: CostLine['item'], count: number, priceNanos: bigint): CostLine[] =>
    count === 0 ? [] : [toLine(item, count, priceNanos, 1_000_000)];
  const imageInput = imageInputNanos === undefined ? 0 : Math.min(units?.imageTokens ?? 0, tokens.input);
  return [
    ...line('input', tokens.input - imageInput, rates.inputNanos),
    ...line('image input', imageInput, imageInputNanos ?? 0n),
    ...line('cached input', tokens.cachedInput, rates.cachedInputNanos),
    ...line('cache write', tokens.cacheWrite, rates.cacheWriteNanos),
    ...line('cache write (1 h)', tokens.cacheWrite1h, rates.cacheWrite1hNanos),
    ...line('output', tokens.output, rates.outputNanos),
    ...Object.entries(units?.toolUses ?? {}).map(([tool, uses]) => toLine(`tool ${tool}`, uses, perToolUseNanos[tool] ?? 0n, 1)),
    ...(units?.searches && perSearchNanos !== undefined ? [toLine('searches', units.searches, perSearchNanos, 1)] : []),
  ];
}

function linesOfUnits(units: CallUnits | null, prices: ModelPrices | null): CostLine[] {
  if (!units || !prices) return [];
  const { images, characters, seconds } = units;
  return [
    ...(images === undefined || prices.perImageNanos === null ? [] : [toLine('images', images, prices.perImageNanos, 1)]),
    ...(characters === undefined || prices.perMillionCharactersNanos === null
      ? []
      : [toLine('characters', characters, prices.perMillionCharactersNanos, 1_000_000)]),
    ...(seconds === undefined || prices.perSecondNanos === null ? [] : [toLine('seconds', seconds, prices.perSecondNanos, 1)]),
  ];
}

function toAttemptsLine(count: number, nanos: number): CostLine {
  return { item: 'earlier attempts', count, priceNanos: null, per: 1, costNanos: { whole: BigInt(nanos), millionths: 0n } };
}

function toLine(item: CostLine['item'], count: number, priceNanos: bigint, per: 1 | 1_000_000): CostLine {
  // Milliseconds are as precise as any vendor's count of seconds.
  const millionths = (BigInt(Math.round(count * 1_000)) * priceNanos * 1_000n) / BigInt(per);
  return { item, count, priceNanos, per, costNanos: { whole: millionths / 1_000_000n, millionths: millionths % 1_000_000n } };
}
