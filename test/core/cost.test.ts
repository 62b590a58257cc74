import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { nanosFromUsd, shiftDecimal, tokenCost, toUsd, unitsCost } from '../../src/core/cost.ts';
import type { Price, Tokens } from '../../src/core/pricing.ts';
import { noTokens } from '../../src/core/pricing.ts';

const free: Price = { inputNanos: 0n, outputNanos: 0n, cachedInputNanos: 0n, cacheWriteNanos: 0n, cacheWrite1hNanos: 0n };

/** Returns `digits` x 10^`exponent` dollars in nano-dollars, rounded half up, using only integers. */
function exactNanos(digits: bigint, exponent: number): bigint {
  const shift = exponent + 9;
  if (shift >= 0) return digits * 10n ** BigInt(shift);
  const divisor = 10n ** BigInt(-shift);
  return (2n * digits + divisor) / (2n * divisor);
}

/** Returns the shortest decimal of a number as digits and exponent. */
function decimalOf(value: number): [bigint, number] {
  const [mantissa = '0', exponent = '0'] = String(value).split('e');
  const [whole = '0', fraction = ''] = mantissa.split('.');
  return [BigInt(whole + fraction), Number(exponent) - fraction.length];
}

describe('nanosFromUsd', () => {
  test.each<[string | number, bigint]>([
    ['0', 0n],
    [0, 0n],
    ['1', 1_000_000_000n],
    [1, 1_000_000_000n],
    ['0.075', 75_000_000n],
    [0.075, 75_000_000n],
    [0.15, 150_000_000n],
    ['15.00', 15_000_000_000n],
    ['007.5', 7_500_000_000n],
    [3e-6, 3000n],
    [1e-9, 1n],
    [2.5e-7, 250n],
    [0.1 + 0.2, 300_000_000n],
    ['0.0000000005', 1n],
    ['0.0000000004999', 0n],
    ['0.0000000015', 2n],
    [5e-10, 1n],
    [4.9999999999999e-10, 0n],
    [1.4999999999999e-9, 1n],
    [1e-300, 0n],
    ['0.9999999995', 1_000_000_000n],
    ['123456789012345678901234567890.123456789', 123456789012345678901234567890123456789n],
    [1e21, 10n ** 30n],
    [1.5e22, 15n * 10n ** 30n],
  ])('converts %p to %p nano-dollars', (usd, nanos) => {
    expect(nanosFromUsd(usd)).toBe(nanos);
  });

  test.each([
    '',
    ' ',
    '-1',
    '+1',
    '1.',
    '.5',
    '1e3',
    '1,5',
    '$1',
    '0x10',
    '١',
    ' 1',
    '1 ',
    '1\n',
    'NaN',
    Number.NaN,
    Number.POSITIVE_INFINITY,
    -1,
    -1e-7,
  ])('rejects %p as an amount', (usd) => {
    expect(() => nanosFromUsd(usd)).toThrow(RangeError);
  });

  test('parses decimal amounts exactly and rounds half up at the tenth decimal place', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.nat({ max: 25 }), (digits, decimals) => {
        const text = String(digits).padStart(decimals + 1, '0');
        const usd = decimals === 0 ? text : `${text.slice(0, -decimals)}.${text.slice(-decimals)}`;
        expect(nanosFromUsd(usd)).toBe(exactNanos(digits, -decimals));
      }),
    );
  });

  test('converts the shortest decimal representation of a number to nano-dollars', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e24, noNaN: true }), fc.integer({ min: -12, max: 3 }), (value, scale) => {
        for (const usd of [value, value * 10 ** (scale - 20), Number(`${(value % 1e4).toFixed(3)}e${scale}`)]) {
          expect(nanosFromUsd(usd)).toBe(exactNanos(...decimalOf(usd)));
        }
      }),
      { numRuns: 1000 },
    );
  });
});

describe('tokenCost', () => {
  const price: Price = {
    inputNanos: nanosFromUsd('3'),
    outputNanos: nanosFromUsd('15'),
    cachedInputNanos: nanosFromUsd('0.3'),
    cacheWriteNanos: nanosFromUsd('3.75'),
    cacheWrite1hNanos: nanosFromUsd('6'),
  };

  test('prices each of the five kinds of tokens at its own rate', () => {
    expect(tokenCost({ ...noTokens, input: 1 }, price)).toBe(3000);
    expect(tokenCost({ ...noTokens, output: 1 }, price)).toBe(15_000);
    expect(tokenCost({ ...noTokens, cachedInput: 1 }, price)).toBe(300);
    expect(tokenCost({ ...noTokens, cacheWrite: 1 }, price)).toBe(3750);
    expect(tokenCost({ ...noTokens, cacheWrite1h: 1 }, price)).toBe(6000);
    expect(tokenCost({ input: 1000, cachedInput: 2000, cacheWrite: 300, cacheWrite1h: 40, output: 500 }, price)).toBe(12_465_000);
    expect(tokenCost(noTokens, price)).toBe(0);
  });

  test.each([
    [1, 499_999n, 0],
    [1, 500_000n, 1],
    [3, 500_000n, 2],
    [7, 142_857n, 1],
  ])('rounds half up once: %p tokens at %p cost %p', (input, inputNanos, cost) => {
    expect(tokenCost({ ...noTokens, input }, { ...free, inputNanos })).toBe(cost);
    expect(tokenCost({ ...noTokens, output: input }, { ...free, outputNanos: inputNanos })).toBe(cost);
  });

  test('rounds the total cost of a call instead of each part', () => {
    const tenth: Price = {
      inputNanos: 400_000n,
      outputNanos: 400_000n,
      cachedInputNanos: 400_000n,
      cacheWriteNanos: 400_000n,
      cacheWrite1hNanos: 400_000n,
    };
    expect(tokenCost({ input: 1, cachedInput: 1, cacheWrite: 1, cacheWrite1h: 1, output: 1 }, tenth)).toBe(2);
  });

  describe('higher prices for long inputs', () => {
    const long = { ...price, inputNanos: nanosFromUsd('6'), outputNanos: nanosFromUsd('22.5') };
    const longest = { ...price, inputNanos: nanosFromUsd('12'), outputNanos: nanosFromUsd('45') };
    const tiered: Price = {
      ...price,
      above: [
        { tokens: 1_000, price: long },
        { tokens: 2_000, price: longest },
      ],
    };

    test.each([
      ['charges the base price up to the threshold', { ...noTokens, input: 1_000, output: 10 }, price],
      ['charges the higher price for the whole call above it', { ...noTokens, input: 1_001, output: 10 }, long],
      ['counts cached input and cache writes', { input: 400, cachedInput: 300, cacheWrite: 200, cacheWrite1h: 101, output: 10 }, long],
      ['ignores output', { ...noTokens, input: 1, output: 5_000 }, price],
      ['applies the highest threshold that is exceeded', { ...noTokens, input: 2_001, output: 10 }, longest],
    ])('%s', (_title, used, at) => {
      expect(tokenCost(used, tiered)).toBe(tokenCost(used, at));
    });
  });

  test('adds the cost of web searches before rounding', () => {
    const search: Price = { ...free, inputNanos: 400_000n, perSearchNanos: 2_000_000n };
    expect(tokenCost(noTokens, search, { searches: 3 })).toBe(6_000_000);
    expect(tokenCost({ ...noTokens, input: 2 }, search, { searches: 1 })).toBe(2_000_001);
    expect(tokenCost({ ...noTokens, input: 1 }, price, { searches: 5 })).toBe(3_000);
    expect(tokenCost(noTokens, search)).toBe(0);
  });

  test('prices image tokens separately if there is a price for them', () => {
    const images: Price = { ...free, inputNanos: 5_000_000_000n, imageInputNanos: 8_000_000_000n };
    expect(tokenCost({ ...noTokens, input: 1_000 }, images, { imageTokens: 800 })).toBe(200 * 5_000 + 800 * 8_000);
    expect(tokenCost({ ...noTokens, input: 1_000 }, images)).toBe(5_000_000);
    expect(tokenCost({ ...noTokens, input: 1_000 }, images, { imageTokens: 2_000 })).toBe(8_000_000);
    expect(tokenCost({ ...noTokens, input: 1_000 }, { ...free, inputNanos: 5_000_000_000n }, { imageTokens: 800 })).toBe(5_000_000);
  });

  test('computes the cost of a call to the exact nano-dollar', () => {
    const count = fc.nat({ max: 50_000_000 });
    const rate = fc.bigInt({ min: 0n, max: 600_000_000_000n });
    const tokens: fc.Arbitrary<Tokens> = fc.record({
      input: count,
      cachedInput: count,
      cacheWrite: count,
      cacheWrite1h: count,
      output: count,
    });
    const prices: fc.Arbitrary<Price> = fc.record({
      inputNanos: rate,
      outputNanos: rate,
      cachedInputNanos: rate,
      cacheWriteNanos: rate,
      cacheWrite1hNanos: rate,
    });
    fc.assert(
      fc.property(tokens, prices, (used, at) => {
        const exact =
          BigInt(used.input) * at.inputNanos +
          BigInt(used.cachedInput) * at.cachedInputNanos +
          BigInt(used.cacheWrite) * at.cacheWriteNanos +
          BigInt(used.cacheWrite1h) * at.cacheWrite1hNanos +
          BigInt(used.output) * at.outputNanos;
        const cost = BigInt(tokenCost(used, at)) * 1_000_000n;
        expect(cost - exact <= 500_000n && exact - cost < 500_000n).toBe(true);
      }),
    );
  });
});

test.each([
  [0, '0'],
  [1, '1e-9'],
  [1_500_000_000, '1.5'],
  [12_465_000, '0.012465'],
  [7_999_999_999_999_999, '7999999.999999999'],
])('formats %p nano-dollars as %s', (nanos, text) => {
  expect(String(toUsd(nanos))).toBe(text);
});

test('parses a formatted dollar amount back to the same value', () => {
  fc.assert(fc.property(fc.nat({ max: 8_000_000_000_000_000 }), (nanos) => expect(nanosFromUsd(toUsd(nanos))).toBe(BigInt(nanos))));
});

describe('shiftDecimal', () => {
  test.each([
    ['3e-06', 6, '3'],
    ['1.5e-07', 6, '0.15'],
    ['2.5E-6', 6, '2.5'],
    ['0.000003', 6, '3'],
    ['0.0000000028', 6, '0.0028'],
    ['1e+2', 0, '100'],
    ['0.039', 0, '0.039'],
    ['0.0', 6, '0'],
    ['0', 0, '0'],
    ['12', -3, '0.012'],
    ['3.3333333333333335e-05', 6, '33.333333333333335'],
  ])('shifts %s by %p places to %s', (text, places, moved) => {
    expect(shiftDecimal(text, places)).toBe(moved);
  });

  test.each(['', '-1', '1.', '.5', 'abc', '1e', '0x1', '1e9999', ' 1'])('rejects %p as an amount', (text) => {
    expect(shiftDecimal(text, 6)).toBeNull();
  });

  test('shifts the decimal point of any JSON number exactly', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e20, noNaN: true }), (value) => {
        const moved = shiftDecimal(String(value), 6);
        expect(moved).not.toBeNull();
        const [digits, exponent] = decimalOf(value);
        expect(nanosFromUsd(moved ?? '')).toBe(exactNanos(digits, exponent + 6));
      }),
    );
  });
});

test("charges nothing extra for tiers and tools that are named like an object's inherited properties", () => {
  const tokens: Tokens = { ...noTokens, output: 1_000 };
  const price: Price = { ...free, outputNanos: 1_000_000n, tierMillionths: { fast: 6_000_000n }, perToolUseNanos: { web_search: 1n } };
  for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
    const toolUses = Object.fromEntries([[name, 3]]);
    expect(tokenCost(tokens, price, { serviceTier: `${name}+fast`, toolUses })).toBe(6_000);
  }
});

test('charges any number of seconds that a vendor can report', () => {
  const prices = { perImageNanos: null, perMillionCharactersNanos: null, perSecondNanos: 1n };
  expect(unitsCost({ seconds: 1e308 }, prices)).toBeGreaterThan(1e12);
});
