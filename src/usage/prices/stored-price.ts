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

/**
 * Converts prices to an object with the names that gateway.yaml uses. Returns null if the model has no price at all.
 * `amount` formats nano-dollars. `factor` formats the factors of service tiers, which are given in millionths.
 */
export function writePrices<Amount>(
  { price, perImageNanos, perMillionCharactersNanos, perSecondNanos }: ModelPrices,
  amount: (nanos: bigint) => Amount,
  factor: (millionths: bigint) => Amount,
) {
  const writeTokens = (tokens: TokenPrice) => ({
    input: amount(tokens.inputNanos),
    output: amount(tokens.outputNanos),
    cached_input: amount(tokens.cachedInputNanos),
    cache_write: amount(tokens.cacheWriteNanos),
    cache_write_1h: amount(tokens.cacheWrite1hNanos),
  });
  const written = {
    ...(price && writeTokens(price)),
    ...(price?.perSearchNanos !== undefined && { per_search: amount(price.perSearchNanos) }),
    ...(price?.imageInputNanos !== undefined && { image_input: amount(price.imageInputNanos) }),
    ...(price?.tierMillionths && { service_tiers: mapValues(price.tierMillionths, factor) }),
    ...(price?.perToolUseNanos && { per_tool_use: mapValues(price.perToolUseNanos, amount) }),
    ...(price?.above && { above_tokens: Object.fromEntries(price.above.map((above) => [above.tokens, writeTokens(above.price)])) }),
    ...(perImageNanos !== null && { per_image: amount(perImageNanos) }),
    ...(perMillionCharactersNanos !== null && { per_million_characters: amount(perMillionCharactersNanos) }),
    ...(perSecondNanos !== null && { per_second: amount(perSecondNanos) }),
  };
  return Object.keys(written).length === 0 ? null : written;
}

/** Returns null if the model has no price at all. */
export function toStoredPrice(prices: ModelPrices): JsonObject | null {
  const written = writePrices(prices, String, String);
  if (!written?.above_tokens) return written;
  const { above_tokens: above, ...others } = written;
  // JavaScript keeps numeric keys in ascending order, so the entries are already sorted.
  return { ...others, above: Object.entries(above).map(([tokens, price]) => ({ tokens: Number(tokens), ...price })) };
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
          ...(service_tiers !== undefined && { tierMillionths: mapValues(asObject(service_tiers), parseNanos) }),
          ...(per_tool_use !== undefined && { perToolUseNanos: mapValues(asObject(per_tool_use), parseNanos) }),
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

function parseTokens(stored: JsonObject): TokenPrice {
  return {
    inputNanos: parseNanos(stored.input),
    outputNanos: parseNanos(stored.output),
    cachedInputNanos: parseNanos(stored.cached_input),
    cacheWriteNanos: parseNanos(stored.cache_write),
    cacheWrite1hNanos: parseNanos(stored.cache_write_1h),
  };
}

function mapValues<Value, Result>(record: Readonly<Record<string, Value>>, map: (value: Value) => Result): Record<string, Result> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));
}

function parseNanos(value: unknown): bigint {
  if (typeof value !== 'string' || !/^\d+$/.test(value)) throw new TypeError('a stored price must be a whole number of nano-dollars');
  return BigInt(value);
}
