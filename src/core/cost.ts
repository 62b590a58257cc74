/**
 * Costs are whole numbers of nano-dollars (1e-9 USD). Prices are nano-dollars per million tokens. We parse them from
 * decimal text, so that no binary fraction gets into a sum.
 */
import type { CallUnits, Price, TokenPrice, Tokens, UnitPrices, Units } from './pricing.ts';

/** The difference between the new and the old cost of a stored call. An unknown cost counts as 0. */
export interface CostAdjustment {
  readonly callId: string;
  readonly nanos: number;
}

/**
 * Converts to USD for JSON, with at most nine decimals. A double represents this exactly up to eight million dollars.
 */
export function toUsd(nanos: number): number {
  return nanos / 1e9;
}

/**
 * Parses a decimal USD amount such as `0.075` to nano-dollars. Throws RangeError for negative amounts and anything that
 * isn't an amount.
 */
export function nanosFromUsd(usd: string | number): bigint {
  // We need the number's shortest digits without an exponent (`3e-6` -> `0.000003`), and shift them as text so that we
  // don't round twice.
  const text = typeof usd === 'number' ? (shiftDecimal(String(usd), 0) ?? String(usd)) : usd;
  const match = /^(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) throw new RangeError(`not an amount in USD: ${text}`);
  const [, whole = '0', fraction = ''] = match;
  const padded = fraction.padEnd(9, '0');
  const roundUp = padded.charCodeAt(9) >= 53 ? 1n : 0n; // Rounds up if the tenth decimal is 5 or more.
  return BigInt(whole) * 1_000_000_000n + BigInt(padded.slice(0, 9)) + roundUp;
}

/**
 * Returns the cost of `tokens`, and of everything that's charged in addition to them, in nano-dollars. Rounds once,
 * half up. All input tokens, including cached ones and cache writes, decide which price tier applies to the whole call.
 */
export function tokenCost(tokens: Tokens, price: Price, units: ChargedUnits = {}): number {
  const { searches = 0, imageTokens = 0, toolUses } = units;
  const { rates } = ratesFor(tokens, price, units);
  const imageInput = Math.min(imageTokens, tokens.input);
  let total = charge(tokens.input - imageInput, rates.inputNanos) + charge(tokens.output, rates.outputNanos);
  // Big integers are slow, and most calls have no tokens of these kinds.
  if (imageInput > 0) total += charge(imageInput, price.imageInputNanos ?? rates.inputNanos);
  if (tokens.cachedInput > 0) total += charge(tokens.cachedInput, rates.cachedInputNanos);
  if (tokens.cacheWrite > 0) total += charge(tokens.cacheWrite, rates.cacheWriteNanos);
  if (tokens.cacheWrite1h > 0) total += charge(tokens.cacheWrite1h, rates.cacheWrite1hNanos);
  if (searches > 0) total += charge(searches, price.perSearchNanos ?? 0n) * 1_000_000n;
  if (toolUses !== undefined) total += toolCost(toolUses, price) * 1_000_000n;
  return Number((total + 500_000n) / 1_000_000n);
}

function toolCost(toolUses: Readonly<Record<string, number>>, { perToolUseNanos = {} }: Price): bigint {
  return Object.entries(toolUses).reduce((sum, [tool, uses]) => sum + charge(uses, perToolUseNanos[tool] ?? 0n), 0n);
}

function charge(count: number, nanos: bigint): bigint {
  return BigInt(count) * nanos;
}

type ChargedUnits = Pick<CallUnits, 'searches' | 'imageTokens' | 'serviceTier' | 'toolUses'>;

/**
 * Returns the rates that apply to a call. `aboveTokens` is the input length above which they apply, or null if they
 * apply to any length.
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
 * A call can have several tiers, e.g. a faster one and a regional one, and their factors multiply. If we don't know a
 * tier's factor, we charge the standard price.
 */
function scaleRates(rates: TokenPrice, serviceTier: string, { tierMillionths = {} }: Price): TokenPrice {
  const factors = serviceTier.split('+').flatMap((tier) => tierMillionths[tier] ?? []);
  const scale = (nanos: bigint): bigint => factors.reduce((scaled, factor) => (scaled * factor + 999_999n) / 1_000_000n, nanos);
  return {
    inputNanos: scale(rates.inputNanos),
    outputNanos: scale(rates.outputNanos),
    cachedInputNanos: scale(rates.cachedInputNanos),
    cacheWriteNanos: scale(rates.cacheWriteNanos),
    cacheWrite1hNanos: scale(rates.cacheWrite1hNanos),
  };
}

/** Returns the cost of `units` in nano-dollars, rounded half up. Null if none of the units has a price. */
export function unitsCost({ images, characters, seconds }: Units, prices: UnitPrices): number | null {
  const { perImageNanos, perMillionCharactersNanos, perSecondNanos } = prices;
  const parts = [
    images === undefined || perImageNanos === null ? [] : [BigInt(images) * perImageNanos],
    characters === undefined || perMillionCharactersNanos === null
      ? []
      : [(BigInt(characters) * perMillionCharactersNanos + 500_000n) / 1_000_000n],
    // Milliseconds are as precise as any vendor's count of seconds.
    seconds === undefined || perSecondNanos === null ? [] : [(BigInt(Math.round(seconds * 1_000)) * perSecondNanos + 500n) / 1_000n],
  ].flat();
  return parts.length === 0 ? null : Number(parts.reduce((sum, part) => sum + part, 0n));
}

/**
 * Shifts the text of a JSON number by `places` decimal places (`3e-06`, 6 -> `3`). This works digit by digit, so that
 * no binary fraction is involved. Returns null for negative numbers and for anything that isn't a number.
 */
export function shiftDecimal(text: string, places: number): string | null {
  const match = /^(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text);
  if (!match) return null;
  const [, whole = '', fraction = '', exponent = '0'] = match;
  const digits = whole + fraction;
  const point = whole.length + Number(exponent) + places;
  const padded = point > 0 ? digits.padEnd(point, '0') : '0'.repeat(1 - point) + digits;
  const end = Math.max(point, 1);
  const decimals = padded.slice(end).replace(/0+$/, '');
  return `${padded.slice(0, end).replace(/^0+(?=\d)/, '')}${decimals === '' ? '' : `.${decimals}`}`;
}

/** Caps an amount at the largest integer that a JSON number and a `bigint` column hold exactly. */
export function clampToSafeInteger(amount: number): number {
  return Math.min(amount, Number.MAX_SAFE_INTEGER);
}
