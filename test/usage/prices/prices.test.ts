import { beforeEach, describe, expect, test } from '@jest/globals';
import { noTokens, type Price } from '../../../src/core/pricing.ts';
import { explainCost } from '../../../src/usage/analytics/cost-lines.ts';
import { priceAt, recordPrices } from '../../../src/usage/prices/price-history.ts';
import { type ModelPrices, parseStoredPrice, toStoredPrice } from '../../../src/usage/prices/stored-price.ts';
import { describeAnyDatabase } from '../../db/databases.ts';

const tokens = { inputNanos: 150_000_000n, outputNanos: 2n ** 60n, cachedInputNanos: 1n, cacheWriteNanos: 0n, cacheWrite1hNanos: 5n };
const nothing: ModelPrices = { price: null, perImageNanos: null, perMillionCharactersNanos: null, perSecondNanos: null };
const of = (price: Price): ModelPrices => ({ ...nothing, price });

describe('a stored price', () => {
  test.each<[string, ModelPrices]>([
    ['of tokens, larger than a double can hold', of(tokens)],
    [
      'with longer calls and searches',
      of({ ...tokens, perSearchNanos: 0n, imageInputNanos: 7n, above: [{ tokens: 200_000, price: tokens }] }),
    ],
    [
      'with service tiers and tools',
      of({ ...tokens, tierMillionths: { priority: 2_000_000n, flex: 500_000n }, perToolUseNanos: { web_search: 10_000_000n } }),
    ],
    ['of images, characters and seconds', { price: null, perImageNanos: 1n, perMillionCharactersNanos: 2n, perSecondNanos: 3n }],
  ])('stores and reads a price %s', (_title, prices) => {
    expect(parseStoredPrice(JSON.parse(JSON.stringify(toStoredPrice(prices))))).toEqual(prices);
  });

  test('adds a separate cost line for image tokens', () => {
    const price = { ...tokens, inputNanos: 5_000_000_000n, imageInputNanos: 8_000_000_000n };
    const call = {
      route: 'images',
      model: 'a/edit',
      cache: null,
      tokens: { ...noTokens, input: 1_000 },
      costNanos: 7_400_000,
      earlierNanos: [],
    } as const;
    const { lines, sumNanos, comparison } = explainCost({ ...call, units: { images: 1, imageTokens: 800 } }, of(price));
    expect(lines.map(({ item, count, costNanos }) => [item, count, costNanos.whole])).toEqual([
      ['input', 200, 1_000_000n],
      ['image input', 800, 6_400_000n],
    ]);
    expect([sumNanos, comparison]).toEqual([7_400_000, 'equal']);
  });

  test('includes the service tier and tools in the cost lines', () => {
    const price = {
      ...{ ...tokens, inputNanos: 1_000_000_000n, outputNanos: 2_000_000_000n },
      ...{ tierMillionths: { priority: 2_000_000n }, perToolUseNanos: { web_search: 10_000_000n } },
    };
    const units = { serviceTier: 'priority', toolUses: { web_search: 3 } };
    const call = {
      route: 'responses',
      model: 'a/x',
      cache: null,
      tokens: { ...noTokens, input: 1_000, output: 500 },
      units,
      earlierNanos: [],
    } as const;
    const { lines, sumNanos, comparison, serviceTier } = explainCost({ ...call, costNanos: 34_000_000 }, of(price));
    expect(lines.map(({ item, count, costNanos }) => [item, count, costNanos.whole])).toEqual([
      ['input', 1_000, 2_000_000n],
      ['output', 500, 2_000_000n],
      ['tool web_search', 3, 30_000_000n],
    ]);
    expect([sumNanos, comparison, serviceTier]).toEqual([34_000_000, 'equal', 'priority']);
  });

  test('adds a cost line for earlier attempts', () => {
    const price = { ...tokens, outputNanos: 2_000_000_000n };
    const call = { route: 'chat', model: 'a/x', cache: null, tokens: { ...noTokens, output: 500 }, units: null } as const;
    const { lines, sumNanos, comparison } = explainCost({ ...call, costNanos: 1_000_300, earlierNanos: [100, 200] }, of(price));
    expect(lines.map(({ item, count, priceNanos, costNanos }) => [item, count, priceNanos, costNanos.whole])).toEqual([
      ['output', 500, 2_000_000_000n, 1_000_000n],
      ['earlier attempts', 2, null, 300n],
    ]);
    expect([sumNanos, comparison]).toEqual([1_000_300, 'equal']);
  });

  test('returns no cost lines if no price is known', () => {
    expect(toStoredPrice(nothing)).toBeNull();
    expect(() => parseStoredPrice({ input: 1.5 })).toThrow(TypeError);
  });
});

describeAnyDatabase('price history', (database) => {
  beforeEach(() => database().query('delete from model_prices'));

  const cheap = toStoredPrice(of(tokens));
  const dear = toStoredPrice(of({ ...tokens, inputNanos: 9n }));
  const entry = (model: string, price: ReturnType<typeof toStoredPrice>, source = 'file') => ({ model, price, source });
  const rows = () =>
    database().query<{ model: string; from: Date; source: string }>(
      `select model, effective_from as "from", source from model_prices order by model, effective_from`,
    );

  test('adds a row to the price history only when the price changes', async () => {
    expect(await recordPrices(database(), [entry('a/x', cheap), entry('a/y', null), entry('a/z', cheap, 'starter')], 1_000)).toEqual([
      'a/x',
      'a/z',
    ]);
    expect(await recordPrices(database(), [entry('a/x', cheap), entry('a/y', null), entry('a/z', cheap)], 2_000)).toEqual([]);
    expect(await recordPrices(database(), [entry('a/x', dear, 'import'), entry('a/z', null)], 3_000)).toEqual(['a/x', 'a/z']);
    expect(await rows()).toEqual([
      { model: 'a/x', from: new Date(1_000), source: 'file' },
      { model: 'a/x', from: new Date(3_000), source: 'import' },
      { model: 'a/z', from: new Date(1_000), source: 'starter' },
      { model: 'a/z', from: new Date(3_000), source: 'file' },
    ]);
  });

  test('returns the latest price before a given time', async () => {
    await recordPrices(database(), [entry('a/x', cheap)], 1_000);
    await recordPrices(database(), [entry('a/x', dear)], 2_000);
    await recordPrices(database(), [entry('a/x', null)], 3_000);
    expect(await priceAt(database(), 'a/x', 999)).toBeNull();
    expect(await priceAt(database(), 'a/x', 1_000)).toEqual(of(tokens));
    expect((await priceAt(database(), 'a/x', 2_999))?.price?.inputNanos).toBe(9n);
    expect(await priceAt(database(), 'a/x', 3_000)).toBeNull();
    expect(await priceAt(database(), 'a/nobody', 3_000)).toBeNull();
  });

  test('adds a later row to the price history even if the clock is behind', async () => {
    await recordPrices(database(), [entry('a/x', cheap)], 5_000);
    await recordPrices(database(), [entry('a/x', dear)], 4_000);
    expect((await rows()).map(({ from }) => from.getTime())).toEqual([5_000, 5_001]);
    expect((await priceAt(database(), 'a/x', 6_000))?.price?.inputNanos).toBe(9n);
  });

  test('stores each price only once if several processes store it at the same time', async () => {
    const entries = Array.from({ length: 600 }, (_, index) => entry(`a/m${index}`, cheap));
    const added = await Promise.all([1, 2, 3, 4].map((n) => recordPrices(database(), entries, 1_000 + n)));
    expect(added.flat()).toHaveLength(600);
    expect(await rows()).toHaveLength(600);
  });
});
