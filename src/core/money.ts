/**
 * Money is a whole number of nano-dollars (1e-9 USD). Prices are nano-dollars per million tokens, taken from decimal text, so that no
 * binary fraction ever enters a sum (vendor facts 9).
 */
import type { Price, Tokens } from './call.ts';

/** USD as a JSON number with at most nine decimals, for answers; exact below eight million dollars, where a double's digits end. */
export function usdOf(nanos: number): number {
  return nanos / 1e9;
}

/** Nano-dollars of a decimal USD amount given as text or number, e.g. `0.075`; throws RangeError when it is none or negative. */
export function nanosOfUsd(usd: string | number): bigint {
  const text = typeof usd === 'number' ? toPlainDecimal(usd) : usd;
  const match = /^(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) throw new RangeError(`not an amount in USD: ${text}`);
  const [, whole = '0', fraction = ''] = match;
  const padded = fraction.padEnd(9, '0');
  const roundUp = padded.charCodeAt(9) >= 53 ? 1n : 0n; // the tenth decimal is '5' or more
  return BigInt(whole) * 1_000_000_000n + BigInt(padded.slice(0, 9)) + roundUp;
}

/** Cost of `tokens` at `price` in nano-dollars, rounded once, half up. */
export function costOf(tokens: Tokens, price: Price): number {
  const total =
    BigInt(tokens.input) * price.inputNanos +
    BigInt(tokens.cachedInput) * price.cachedInputNanos +
    BigInt(tokens.cacheWrite) * price.cacheWriteNanos +
    BigInt(tokens.cacheWrite1h) * price.cacheWrite1hNanos +
    BigInt(tokens.output) * price.outputNanos;
  return Number((total + 500_000n) / 1_000_000n);
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
