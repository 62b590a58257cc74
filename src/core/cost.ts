/**
 * Money is a whole number of nano-dollars (1e-9 USD). Prices are nano-dollars per million tokens, taken from decimal text, so that no
 * binary fraction ever enters a sum (vendor facts 9).
 */
import type { Price, TokenPrice, Tokens, UnitPrices, Units } from './pricing.ts';

/** USD as a JSON number with at most nine decimals, for answers; exact below eight million dollars, where a double's digits end. */
export function toUsd(nanos: number): number {
  return nanos / 1e9;
}

/** Nano-dollars of a decimal USD amount given as text or number, e.g. `0.075`; throws RangeError when it is none or negative. */
export function nanosFromUsd(usd: string | number): bigint {
  const text = typeof usd === 'number' ? toPlainDecimal(usd) : usd;
  const match = /^(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) throw new RangeError(`not an amount in USD: ${text}`);
  const [, whole = '0', fraction = ''] = match;
  const padded = fraction.padEnd(9, '0');
  const roundUp = padded.charCodeAt(9) >= 53 ? 1n : 0n; // the tenth decimal is '5' or more
  return BigInt(whole) * 1_000_000_000n + BigInt(padded.slice(0, 9)) + roundUp;
}

/**
 * Cost of `tokens` and of `searches` (search units of a rerank call) at `price` in nano-dollars, rounded once, half up. A price above a bound of
 * tokens holds for the whole call, chosen by all of its input tokens, cached ones and cache writes too.
 */
export function tokenCost(tokens: Tokens, price: Price, searches = 0): number {
  const rates = ratesFor(tokens, price);
  const total =
    BigInt(tokens.input) * rates.inputNanos +
    BigInt(tokens.cachedInput) * rates.cachedInputNanos +
    BigInt(tokens.cacheWrite) * rates.cacheWriteNanos +
    BigInt(tokens.cacheWrite1h) * rates.cacheWrite1hNanos +
    BigInt(tokens.output) * rates.outputNanos +
    BigInt(searches) * (price.perSearchNanos ?? 0n) * 1_000_000n;
  return Number((total + 500_000n) / 1_000_000n);
}

function ratesFor(tokens: Tokens, price: Price): TokenPrice {
  if (price.above === undefined) return price;
  const input = tokens.input + tokens.cachedInput + tokens.cacheWrite + tokens.cacheWrite1h;
  return price.above.findLast((above) => input > above.tokens)?.price ?? price;
}

/** Cost of `units` in nano-dollars, characters rounded half up; null when none of them has a price. */
export function unitsCost({ images, characters, seconds }: Units, prices: UnitPrices): number | null {
  const { perImageNanos, perMillionCharactersNanos, perSecondNanos } = prices;
  const parts = [
    images === undefined || perImageNanos === null ? [] : [BigInt(images) * perImageNanos],
    characters === undefined || perMillionCharactersNanos === null
      ? []
      : [(BigInt(characters) * perMillionCharactersNanos + 500_000n) / 1_000_000n],
    // Vendors count fractions of a second; a thousandth is as exact as they are.
    seconds === undefined || perSecondNanos === null ? [] : [(BigInt(Math.round(seconds * 1_000)) * perSecondNanos + 500n) / 1_000n],
  ].flat();
  return parts.length === 0 ? null : Number(parts.reduce((sum, part) => sum + part, 0n));
}

/**
 * Plain decimal text of a JSON number as it is written, moved by `places` decimal places (`3e-06`, 6 -> `3`), digit by digit: no binary
 * fraction is made of it. Null for anything but a number from 0 on.
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

/** A number's shortest decimal digits without an exponent (`3e-6` -> `0.000003`), moved as text so that nothing is rounded twice. */
function toPlainDecimal(value: number): string {
  const match = /^(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(String(value));
  if (!match) return String(value);
  const [, whole = '', fraction = '', exponent = ''] = match;
  const digits = whole + fraction;
  const point = 1 + Number(exponent);
  return point > 0 ? digits.padEnd(point, '0') : `0.${'0'.repeat(-point)}${digits}`;
}
