/**
 * Computes costs in whole nano-dollars (1e-9 USD), from prices in nano-dollars per million tokens. Prices are parsed
 * from decimal text rather than from floats, so that sums have no rounding errors.
 */
import { ownValue } from './own-value.ts';
import type { CallUnits, Price, TokenPrice, Tokens, UnitPrices, Units } from './pricing.ts';
import { trimEnd } from './trim.ts';

/** The amount by which the stored cost of a call changes. An unknown cost counts as 0. */
export interface CostAdjustment {
  readonly callId: string;
  readonly nanos: number;
}

/**
 * Converts nano-dollars to USD for JSON, with at most nine decimals. A double represents this exactly up to eight
 * million dollars.
 */
export function toUsd(nanos: number): number {
  return nanos / 1e9;
}

/**
 * Parses a decimal USD amount such as `0.075` to nano-dollars. Throws a RangeError if the amount is negative or isn't a
 * number.
 */
export function nanosFromUsd(usd: string | number): bigint {
  // Convert numbers to decimal text without an exponent (`3e-6` -> `0.000003`). If we multiplied the float instead, the
  // amount would be rounded twice.
  const text = typeof usd === 'number' ? (shiftDecimal(String(usd), 0) ?? String(usd)) : usd;
  const match = /^(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) throw new RangeError(`not a valid amount in USD: ${text}`);
  const [, whole = '0', fraction = ''] = match;
  const padded = fraction.padEnd(9, '0');
  const roundUp = padded.charCodeAt(9) >= 53 ? 1n : 0n; // Round up if the tenth decimal is 5 or more (53 is '5').
  return BigInt(whole) * 1_000_000_000n + BigInt(padded.slice(0, 9)) + roundUp;
}

/**
 * Returns the cost of `tokens` in nano-dollars, including everything that's charged on top (e.g. searches). Rounds
 * once, half up. The total number of input tokens, including cached ones and cache writes, selects the price tier for
 * the whole call.
 */
export function tokenCost(tokens: Tokens, price: Price, units: ChargedUnits = {}): number {
  const { searches = 0, imageTokens = 0, toolUses } = units;
  const { rates } = ratesFor(tokens, price, units);
  const imageInput = Math.min(imageTokens, tokens.input);
  let total = charge(tokens.input - imageInput, rates.inputNanos) + charge(tokens.output, rates.outputNanos);
  // Most of these counts are 0 in most calls. Skip those, because BigInt arithmetic is slow.
  if (imageInput > 0) total += charge(imageInput, price.imageInputNanos ?? rates.inputNanos);
  if (tokens.cachedInput > 0) total += charge(tokens.cachedInput, rates.cachedInputNanos);
  if (tokens.cacheWrite > 0) total += charge(tokens.cacheWrite, rates.cacheWriteNanos);
  if (tokens.cacheWrite1h > 0) total += charge(tokens.cacheWrite1h, rates.cacheWrite1hNanos);
  if (searches > 0) total += charge(searches, price.perSearchNanos ?? 0n) * 1_000_000n;
  if (toolUses !== undefined) total += toolCost(toolUses, price) * 1_000_000n;
  return Number((total + 500_000n) / 1_000_000n);
}

function toolCost(toolUses: Readonly<Record<string, number>>, { perToolUseNanos = {} }: Price): bigint {
  return Object.entries(toolUses).reduce((sum, [tool, uses]) => sum + charge(uses, ownValue(perToolUseNanos, tool) ?? 0n), 0n);
}

function charge(count: number, nanos: bigint): bigint {
  return BigInt(count) * nanos;
}

type ChargedUnits = Pick<CallUnits, 'searches' | 'imageTokens' | 'serviceTier' | 'toolUses'>;

/**
 * Returns the token rates for a call. `aboveTokens` is the input length above which these rates apply, or null for the
 * base rates.
 */
export function ratesFor(
  tokens: Tokens,
  price: Price,
  { serviceTier }: Pick<CallUnits, 'serviceTier'>,
): { readonly rates: TokenPrice; readonly aboveTokens: number | null } {
  const input = tokens.input + tokens.cachedInput + tokens.cacheWrite + tokens.cacheWrite1h;
  const above = price.above?.findLast(({ tokens }) => input > tokens);
  const rates = above?.price ?? price;
  return { rates: serviceTier === undefined ? rates : scaleRates(rates, serviceTier, price), aboveTokens: above?.tokens ?? null };
}

/**
 * A call can have several service tiers, e.g. a faster one and a regional one. We multiply their factors. If we don't
 * know the factor for a tier, we charge the standard price.
 */
function scaleRates(rates: TokenPrice, serviceTier: string, { tierMillionths = {} }: Price): TokenPrice {
  const factors = serviceTier.split('+').flatMap((tier) => ownValue(tierMillionths, tier) ?? []);
  const scale = (nanos: bigint): bigint => factors.reduce((scaled, factor) => (scaled * factor + 999_999n) / 1_000_000n, nanos);
  return {
    inputNanos: scale(rates.inputNanos),
    outputNanos: scale(rates.outputNanos),
    cachedInputNanos: scale(rates.cachedInputNanos),
    cacheWriteNanos: scale(rates.cacheWriteNanos),
    cacheWrite1hNanos: scale(rates.cacheWrite1hNanos),
  };
}

/** Returns the cost in nano-dollars, rounded half up, or null if none of the units has a price. */
export function unitsCost({ images, characters, seconds }: Units, prices: UnitPrices): number | null {
  const { perImageNanos, perMillionCharactersNanos, perSecondNanos } = prices;
  const parts = [
    images === undefined || perImageNanos === null ? [] : [BigInt(images) * perImageNanos],
    characters === undefined || perMillionCharactersNanos === null
      ? []
      : [(BigInt(characters) * perMillionCharactersNanos + 500_000n) / 1_000_000n],
    // Vendors measure durations in milliseconds at best, so we don't lose anything by rounding.
    seconds === undefined || perSecondNanos === null
      ? []
      : [(BigInt(clampToSafeInteger(Math.round(seconds * 1_000))) * perSecondNanos + 500n) / 1_000n],
  ].flat();
  return parts.length === 0 ? null : Number(parts.reduce((sum, part) => sum + part, 0n));
}

/**
 * Shifts the decimal point of a JSON number by `places` (`3e-06`, 6 -> `3`), without the rounding errors of
 * floating-point arithmetic. Returns null for negative numbers and for text that isn't a number.
 */
export function shiftDecimal(text: string, places: number): string | null {
  const match = /^(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text);
  if (!match) return null;
  const [, whole = '', fraction = '', exponent = '0'] = match;
  const digits = whole + fraction;
  const point = whole.length + Number(exponent) + places;
  const padded = point > 0 ? digits.padEnd(point, '0') : '0'.repeat(1 - point) + digits;
  const end = Math.max(point, 1);
  const decimals = trimEnd(padded.slice(end), '0');
  return `${padded.slice(0, end).replace(/^0+(?=\d)/, '')}${decimals === '' ? '' : `.${decimals}`}`;
}

/** Caps an amount at the largest integer that JSON numbers and `bigint` columns can both represent exactly. */
export function clampToSafeInteger(amount: number): number {
  return Math.min(amount, Number.MAX_SAFE_INTEGER);
}
