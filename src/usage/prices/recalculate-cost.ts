/** What a stored call or attempt costs at other prices than it was charged by, from what its row has kept: tokens and units. Pure. */
import type { Route } from '../../core/call.ts';
import { costOf, unitCostOf } from '../../core/cost.ts';
import type { CallUnits, Tokens } from '../../core/pricing.ts';
import type { ModelPrices } from './stored-price.ts';

export type NewCharge =
  | { readonly kind: 'cost'; readonly nanos: number }
  /** `price_unknown`: there was none; `units_not_kept`: charged by what its row does not hold; `video`: `src/videos` settles it. */
  | { readonly kind: 'price_unknown' | 'units_not_kept' | 'video' };

export interface KeptCounts {
  readonly route: Route;
  readonly tokens: Tokens;
  /** Null: of before rows kept them, or there were none. */
  readonly units: CallUnits | null;
}

/** `prices` null: nothing was known of what the model costs. */
export function chargeAgain({ route, tokens, units }: KeptCounts, prices: ModelPrices | null): NewCharge {
  switch (route) {
    case 'video':
      return { kind: 'video' };
    case 'images':
    case 'speech':
      return chargeMedia(tokens, units, prices);
    case 'rerank':
      return prices?.price?.perSearchNanos && units?.searches === undefined
        ? { kind: 'units_not_kept' }
        : chargeTokens(tokens, prices, units?.searches);
    case 'chat':
    case 'messages':
    case 'embeddings':
    case 'moderations':
    case 'responses':
      return chargeTokens(tokens, prices);
  }
}

/** By the rule of `pipeline/media-settle.ts`: units go before tokens, and tokens that the vendor does not count are guessed from the request. */
function chargeMedia(tokens: Tokens, units: CallUnits | null, prices: ModelPrices | null): NewCharge {
  const hasUnitPrice = prices !== null && [prices.perImageNanos, prices.perMillionCharactersNanos, prices.perSecondNanos].some(isPrice);
  if (units === null && hasUnitPrice) return { kind: 'units_not_kept' };
  const byUnits = units && prices ? unitCostOf(units, prices) : null;
  if (byUnits !== null) return { kind: 'cost', nanos: countable(byUnits) };
  const charge = chargeTokens(tokens, prices);
  const isCounted = Object.values(tokens).some((count) => count !== 0);
  return charge.kind === 'cost' && !isCounted ? { kind: 'units_not_kept' } : charge;
}

function isPrice(nanos: bigint | null): boolean {
  return nanos !== null;
}

function chargeTokens(tokens: Tokens, prices: ModelPrices | null, searches?: number): NewCharge {
  const price = prices?.price ?? null;
  return price === null ? { kind: 'price_unknown' } : { kind: 'cost', nanos: countable(costOf(tokens, price, searches)) };
}

/** The database counts no further. */
function countable(nanos: number): number {
  return Math.min(nanos, Number.MAX_SAFE_INTEGER);
}
