/**
 * A model's prices as they are kept in `model_prices`: whole nano-dollars as decimal text (a JSON number would be read as a binary
 * fraction), of tokens per million.
 */

import { type JsonObject, listOf, objectOf } from '../../core/json/narrow.ts';
import type { Price, TokenPrice } from '../../core/pricing.ts';

/** All that a call of the model may be charged by. */
export interface ModelPrices {
  /** Tokens and searches; null: unknown. */
  readonly price: Price | null;
  readonly perImageNanos: bigint | null;
  readonly perMillionCharactersNanos: bigint | null;
  readonly perSecondNanos: bigint | null;
}

/** Null when nothing is known of what the model costs. */
export function storedPriceOf({ price, perImageNanos, perMillionCharactersNanos, perSecondNanos }: ModelPrices): JsonObject | null {
  const stored = {
    ...(price && tokensJson(price)),
    ...(price?.above && { above: price.above.map((above) => ({ tokens: above.tokens, ...tokensJson(above.price) })) }),
    ...(price?.perSearchNanos !== undefined && { per_search: String(price.perSearchNanos) }),
    ...(perImageNanos !== null && { per_image: String(perImageNanos) }),
    ...(perMillionCharactersNanos !== null && { per_million_characters: String(perMillionCharactersNanos) }),
    ...(perSecondNanos !== null && { per_second: String(perSecondNanos) }),
  };
  return Object.keys(stored).length === 0 ? null : stored;
}

/** What was stored; throws when it was not stored by `storedPriceOf`. */
export function readStoredPrice(stored: unknown): ModelPrices {
  const { input, above, per_search, per_image, per_million_characters, per_second, ...tokens } = objectOf(stored);
  const price: Price | null =
    input === undefined
      ? null
      : {
          ...readTokens({ input, ...tokens }),
          ...(per_search !== undefined && { perSearchNanos: nanosOf(per_search) }),
          ...(above !== undefined && {
            above: listOf(above).map((entry) => ({ tokens: Number(objectOf(entry).tokens), price: readTokens(objectOf(entry)) })),
          }),
        };
  const amount = (value: unknown): bigint | null => (value === undefined ? null : nanosOf(value));
  return {
    price,
    perImageNanos: amount(per_image),
    perMillionCharactersNanos: amount(per_million_characters),
    perSecondNanos: amount(per_second),
  };
}

function tokensJson(price: TokenPrice): Record<string, string> {
  return {
    input: String(price.inputNanos),
    output: String(price.outputNanos),
    cached_input: String(price.cachedInputNanos),
    cache_write: String(price.cacheWriteNanos),
    cache_write_1h: String(price.cacheWrite1hNanos),
  };
}

function readTokens(stored: JsonObject): TokenPrice {
  return {
    inputNanos: nanosOf(stored.input),
    outputNanos: nanosOf(stored.output),
    cachedInputNanos: nanosOf(stored.cached_input),
    cacheWriteNanos: nanosOf(stored.cache_write),
    cacheWrite1hNanos: nanosOf(stored.cache_write_1h),
  };
}

function nanosOf(value: unknown): bigint {
  if (typeof value !== 'string' || !/^\d+$/.test(value)) throw new TypeError('a stored price is no whole number of nano-dollars');
  return BigInt(value);
}
