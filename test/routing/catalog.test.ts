import { describe, expect, test } from '@jest/globals';
import { tokenCost } from '../../src/core/cost.ts';
import { noTokens } from '../../src/core/pricing.ts';
import type { CatalogSourceRow } from '../../src/routing/catalog.ts';
import { buildCatalog, toPrice } from '../../src/routing/catalog.ts';

const tokens = { inputNanos: 10n, outputNanos: 20n, cachedInputNanos: 3n, cacheWriteNanos: 4n, cacheWrite1hNanos: 5n };
const row = (parts: Partial<CatalogSourceRow>): CatalogSourceRow => ({ price: null, maxOutputTokens: null, ...parts });

describe('the price of a model', () => {
  test("uses the catalog's prices for tokens, long calls and searches", () => {
    const above = [{ tokens: 100, price: tokens }];
    expect(toPrice(row({ price: tokens }))).toEqual(tokens);
    expect(toPrice(row({ price: tokens, aboveTokens: above, perSearchNanos: 7n }))).toEqual({ ...tokens, above, perSearchNanos: 7n });
  });

  test("uses the catalog's prices for image input, service tiers and tools", () => {
    const more = { imageInputNanos: 8n, tierMillionths: { flex: 500_000n }, perToolUseNanos: { web_search: 9n } };
    expect(toPrice(row({ price: tokens, ...more }))).toEqual({ ...tokens, ...more });
    expect(toPrice(row({ price: tokens, tierMillionths: {}, perToolUseNanos: {} }))).toEqual(tokens);
  });

  test('charges only searches for a model with a price per search', () => {
    const price = toPrice(row({ kind: 'rerank', perSearchNanos: 2_000_000n }));
    expect(price && tokenCost({ ...noTokens, input: 1_000 }, price, { searches: 2 })).toBe(4_000_000);
  });

  test('assumes that moderations are free, but that the cost of other models without a price is unknown', () => {
    const free = toPrice(row({ kind: 'moderations' }));
    expect(free && tokenCost({ ...noTokens, input: 1_000 }, free)).toBe(0);
    expect(toPrice(row({ kind: 'moderations', price: tokens }))).toEqual(tokens);
    expect(toPrice(row({}))).toBeNull();
    expect(toPrice(row({ kind: 'images' }))).toBeNull();
  });
});

test('knows the kind and limits of each model in the catalog', () => {
  const { models } = buildCatalog({
    providers: {},
    models: { 'a/x': row({ kind: 'embeddings', maxInputTokens: 8 }), 'a/y': row({ maxOutputTokens: 9 }) },
    tiers: {},
  });
  const unitPrices = { perImageNanos: null, perMillionCharactersNanos: null, perSecondNanos: null };
  expect([...models]).toEqual([
    [
      'a/x',
      {
        kind: 'embeddings',
        price: null,
        unitPrices,
        contextWindow: null,
        imageTokens: null,
        firstContentTimeoutMs: null,
        maxInputTokens: 8,
        maxOutputTokens: null,
        traits: {},
        serves: null,
        takes: null,
      },
    ],
    [
      'a/y',
      {
        kind: 'chat',
        price: null,
        unitPrices,
        contextWindow: null,
        imageTokens: null,
        firstContentTimeoutMs: null,
        maxInputTokens: null,
        maxOutputTokens: 9,
        traits: {},
        serves: null,
        takes: null,
      },
    ],
  ]);
});
