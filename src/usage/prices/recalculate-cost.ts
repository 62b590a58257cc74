/**
 * Computes again what a stored call or attempt costs, from its stored tokens and units and from prices that you pass.
 */
import type { Route } from '../../core/call.ts';
import { clampToSafeInteger, tokenCost, unitsCost } from '../../core/cost.ts';
import type { CallUnits, Tokens } from '../../core/pricing.ts';
import type { ModelPrices } from './stored-price.ts';

export type RecalculatedCost =
  | { readonly kind: 'cost'; readonly nanos: number }
  /**
   * Why we can't recalculate the cost. Either the model has no price, or it has a price per unit but we haven't stored
   * the units. The cost of a video is settled elsewhere, in `src/videos`.
   */
  | { readonly kind: 'price_unknown' | 'units_not_kept' | 'video' };

/**
 * Recalculates the cost of a call or an attempt. `units` is null if there are none, or if we didn't store units yet at
 * that time. `prices` is null if we don't know them.
 */
export function recalculateCost(route: Route, tokens: Tokens, units: CallUnits | null, prices: ModelPrices | null): RecalculatedCost {
  switch (route) {
    case 'video':
      return { kind: 'video' };
    case 'images':
    case 'speech':
    case 'transcriptions':
      return recalculateMedia(tokens, units, prices);
    case 'rerank':
      return prices?.price?.perSearchNanos && units?.searches === undefined
        ? { kind: 'units_not_kept' }
        : recalculateTokens(tokens, prices, units);
    case 'chat':
    case 'messages':
    case 'embeddings':
    case 'moderations':
    case 'responses':
      return recalculateTokens(tokens, prices, units);
  }
}

/**
 * Recalculates the cost of an image or audio call, just like `pipeline/media/media-record.ts` does. If there's a price
 * for the units, we charge those and not the tokens. If the vendor didn't report tokens, we estimate them.
 */
function recalculateMedia(tokens: Tokens, units: CallUnits | null, prices: ModelPrices | null): RecalculatedCost {
  const hasUnitPrice =
    prices !== null && [prices.perImageNanos, prices.perMillionCharactersNanos, prices.perSecondNanos].some((nanos) => nanos !== null);
  if (units === null && hasUnitPrice) return { kind: 'units_not_kept' };
  const unitCost = units && prices ? unitsCost(units, prices) : null;
  if (unitCost !== null) return { kind: 'cost', nanos: clampToSafeInteger(unitCost) };
  const charge = recalculateTokens(tokens, prices, units);
  const isCounted = Object.values(tokens).some((count) => count !== 0);
  return charge.kind === 'cost' && !isCounted ? { kind: 'units_not_kept' } : charge;
}

function recalculateTokens(tokens: Tokens, prices: ModelPrices | null, units: CallUnits | null): RecalculatedCost {
  const price = prices?.price ?? null;
  return price === null ? { kind: 'price_unknown' } : { kind: 'cost', nanos: clampToSafeInteger(tokenCost(tokens, price, units ?? {})) };
}
