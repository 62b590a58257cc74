/**
 * Converts a model's prices to the JSON in `model_prices` and back. Amounts are whole nano-dollars, and token prices
 * are for a million tokens. JSON numbers would be parsed as floats and could lose precision, so we store strings.
 */

import { asArray, asObject, type JsonObject } from '../../core/json/narrow.ts';
import type { Price, TokenPrice, UnitPrices } from '../../core/pricing.ts';

export interface ModelPrices extends UnitPrices {
  /** The price of tokens and searches. Null if it's unknown. */
  readonly price: Price | null;
}

/** Returns null if the model has no price at all. */
export function toStoredPrice({ price, perImageNanos, perMillionCharactersNanos, perSecondNanos }: ModelPrices): JsonObject | null {
  const stored = {
    ...(price && toTokensJson(price)),
    ...(price?.above && { above: price.above.map((above) => ({ tokens: above.tokens, ...toTokensJson(above.price) })) }),
    ...(price?.perSearchNanos !== undefined && { per_search: String(price.perSearchNanos) }),
    ...(price?.imageInputNanos !== undefined && { image_input: String(price.imageInputNanos) }),
    ...(price?.tierMillionths && { service_tiers: formatAmounts(price.tierMillionths) }),
    ...(price?.perToolUseNanos && { per_tool_use: formatAmounts(price.perToolUseNanos) }),
    ...(perImageNanos !== null && { per_image: String(perImageNanos) }),
    ...(perMillionCharactersNanos !== null && { per_million_characters: String(perMillionCharactersNanos) }),
    ...(perSecondNanos !== null && { per_second: String(perSecondNanos) }),
  };
  return Object.keys(stored).length === 0 ? null : stored;
}

/** Throws if the JSON doesn't come from `toStoredPrice`. */
export function parseStoredPrice(stored: unknown): ModelPrices {
  const { input, above, per_search, image_input, service_tiers, per_tool_use, ...others } = asObject(stored);
  const { per_image, per_million_characters, per_second, ...tokens } = others;
  const price: Price | null =
    input === undefined
      ? null
      : {
          ...parseTokens({ input, ...tokens }),
          ...(per_search !== undefined && { perSearchNanos: parseNanos(per_search) }),
          ...(image_input !== undefined && { imageInputNanos: parseNanos(image_input) }),
          ...(service_tiers !== undefined && { tierMillionths: parseAmounts(service_tiers) }),
          ...(per_tool_use !== undefined && { perToolUseNanos: parseAmounts(per_tool_use) }),
          ...(above !== undefined && {
            above: asArray(above).map((entry) => ({ tokens: Number(asObject(entry).tokens), price: parseTokens(asObject(entry)) })),
          }),
        };
  const amount = (value: unknown): bigint | null => (value === undefined ? null : parseNanos(value));
  return {
    price,
    perImageNanos: amount(per_image),
    perMillionCharactersNanos: amount(per_million_characters),
    perSecondNanos: amount(per_second),
  };
}

function toTokensJson(price: TokenPrice): Record<string, string> {
  return {
    input: String(price.inputNanos),
    output: String(price.outputNanos),
    cached_input: String(price.cachedInputNanos),
    cache_write: String(price.cacheWriteNanos),
    cache_write_1h: String(price.cacheWrite1hNanos),
  };
}

function parseTokens(stored: JsonObject): TokenPrice {
  return {
    inputNanos: parseNanos(stored.input),
    outputNanos: parseNanos(stored.output),
    cachedInputNanos: parseNanos(stored.cached_input),
    cacheWriteNanos: parseNanos(stored.cache_write),
    cacheWrite1hNanos: parseNanos(stored.cache_write_1h),
  };
}

/** Amounts are whole nano-dollars, except for the factors of service tiers, which are whole millionths. */
function formatAmounts(amounts: Readonly<Record<string, bigint>>): Record<string, string> {
  return Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, String(amount)]));
}

function parseAmounts(stored: unknown): Record<string, bigint> {
  return Object.fromEntries(Object.entries(asObject(stored)).map(([name, amount]) => [name, parseNanos(amount)]));
}

function parseNanos(value: unknown): bigint {
  if (typeof value !== 'string' || !/^\d+$/.test(value)) throw new TypeError('a stored price is not a whole number of nano-dollars');
  return BigInt(value);
}
