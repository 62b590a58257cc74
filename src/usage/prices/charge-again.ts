/** What a stored call or attempt costs at other prices than it was charged by, from what its row has kept: the tokens. Pure. */
import type { Route, Tokens } from '../../core/call.ts';
import { costOf } from '../../core/money.ts';
import type { ModelPrices } from './stored-price.ts';

export type NewCharge =
  | { readonly kind: 'cost'; readonly nanos: number }
  /** `price_unknown`: there was none; `units_not_kept`: charged by what rows do not hold; `video`: `src/videos` settles it. */
  | { readonly kind: 'price_unknown' | 'units_not_kept' | 'video' };

/** `prices` null: nothing was known of what the model costs. */
export function chargeAgain(route: Route, tokens: Tokens, prices: ModelPrices | null): NewCharge {
  switch (route) {
    case 'video':
      return { kind: 'video' };
    case 'images':
      return chargeMedia(tokens, prices, prices?.perImageNanos ?? null);
    case 'speech':
      return chargeMedia(tokens, prices, prices?.perMillionCharactersNanos ?? prices?.perSecondNanos ?? null);
    case 'rerank':
      return prices?.price?.perSearchNanos ? { kind: 'units_not_kept' } : chargeTokens(tokens, prices);
    case 'chat':
    case 'messages':
    case 'embeddings':
    case 'moderations':
    case 'responses':
      return chargeTokens(tokens, prices);
  }
}

/** By the rule of `pipeline/media-settle.ts`: units go before tokens, and tokens that the vendor does not count are guessed from the request. */
function chargeMedia(tokens: Tokens, prices: ModelPrices | null, unitNanos: bigint | null): NewCharge {
  if (unitNanos !== null) return { kind: 'units_not_kept' };
  const charge = chargeTokens(tokens, prices);
  const isCounted = Object.values(tokens).some((count) => count !== 0);
  return charge.kind === 'cost' && !isCounted ? { kind: 'units_not_kept' } : charge;
}

function chargeTokens(tokens: Tokens, prices: ModelPrices | null): NewCharge {
  const price = prices?.price ?? null;
  // The database counts no further.
  return price === null ? { kind: 'price_unknown' } : { kind: 'cost', nanos: Math.min(costOf(tokens, price), Number.MAX_SAFE_INTEGER) };
}
