/**
 * Recalculates the cost of a stored call or attempt from its stored tokens and units.
 */
import type { Route } from '../../core/call.ts';
import { clampToSafeInteger, tokenCost, unitsCost } from '../../core/cost.ts';
import type { CallUnits, Tokens } from '../../core/pricing.ts';
import type { ModelPrices } from './stored-price.ts';

export type RecalculatedCost =
  | { readonly kind: 'cost'; readonly nanos: number }
  /**
   * We can't recalculate the cost, because the model has no price, because it has a price per unit but the units aren't
   * stored, or because it's a video (`src/videos` settles those).
   */
  | { readonly kind: 'price_unknown' | 'units_not_kept' | 'video' };

/**
 * `units` is null if the call has none, or if they weren't stored at the time. `prices` is null if we don't know them.
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
 * Recalculates the cost of an image or audio call in the same way as `pipeline/media/media-record.ts`. Prices per unit
 * take precedence over token prices, and tokens that the vendor didn't report are estimated.
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
