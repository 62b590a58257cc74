/**
 * Itemizes the cost of a stored call at the prices that were in force when it started, and checks whether that adds up
 * to the stored cost.
 */
import type { Route } from '../../core/call.ts';
import { ratesFor } from '../../core/cost.ts';
import { ownValue } from '../../core/own-value.ts';
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
    /** Attempts that failed, but that the vendor bills anyway. */
    | 'earlier attempts'
    /** A tool that the vendor runs, e.g. `tool web_search`. We count how often it was used. */
    | `tool ${string}`;
  readonly count: number;
  /**
   * The price in nano-dollars for as many units as `per` says. Null for `earlier attempts`, because each of them may
   * have had a different price.
   */
  readonly priceNanos: bigint | null;
  readonly per: 1 | 1_000_000;
  /** The exact cost of the line. Only the total is rounded. */
  readonly costNanos: { readonly whole: bigint; readonly millionths: bigint };
}

export type CostComparison =
  | 'equal'
  /** The stored cost is different, e.g. because the price was corrected later or the vendor reported the usage late. */
  | 'different'
  /** Responses from the cache are free. */
  | 'cache_hit'
  /** The call got no response, so there's no cost to compare. */
  | 'no_response'
  | 'price_unknown'
  /** The model has a price per unit, e.g. per image, but the number of units isn't stored. */
  | 'units_not_kept'
  /** The cost of a video is only known when it's ready. */
  | 'video';

export interface CostBreakdown {
  readonly lines: readonly CostLine[];
  /** The total in whole nano-dollars. Null if it can't be computed. */
  readonly sumNanos: number | null;
  readonly comparison: CostComparison;
  /** Set if the prices for long inputs apply. It's the number of tokens above which they do. */
  readonly aboveTokens: number | null;
  /** The vendor's service tier, which is already part of the prices. Null for the standard tier. */
  readonly serviceTier: string | null;
}

export interface ChargedCall {
  readonly route: Route;
  readonly model: string | null;
  readonly cache: string | null;
  readonly tokens: Tokens;
  readonly units: CallUnits | null;
  readonly costNanos: number | null;
  /**
   * The costs of all billed attempts except the last. We need them separately, because `tokens` only covers the last
   * one.
   */
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
    ...Object.entries(units?.toolUses ?? {}).map(([tool, uses]) => toLine(`tool ${tool}`, uses, ownValue(perToolUseNanos, tool) ?? 0n, 1)),
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
  // Keep three decimals of the count, because vendors report seconds to the millisecond at best.
  const millionths = (BigInt(Math.round(count * 1_000)) * priceNanos * 1_000n) / BigInt(per);
  return { item, count, priceNanos, per, costNanos: { whole: millionths / 1_000_000n, millionths: millionths % 1_000_000n } };
}
