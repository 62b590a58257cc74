/** Tests the error for a call that no provider with the required tags can serve. */
import { expect, test } from '@jest/globals';
import { buildCatalog } from '../../src/routing/catalog.ts';
import { lacksTags } from '../../src/routing/no-route.ts';
import { plan, source } from './plans.ts';

test("a no_route error lists the tier's providers with their missing tags", () => {
  const { openai } = source.providers;
  if (!openai) throw new Error('there is no provider openai');
  const catalog = buildCatalog({ ...source, providers: { ...source.providers, openai: { ...openai, tags: ['eu'] } } });
  const ask = () => plan({ catalog, model: 'standard', project: { requiredTags: ['eu', 'zdr'] } });
  expect(ask).toThrow('required tags are missing: openai (zdr), azure (eu, zdr)');
  expect(ask).toThrow(expect.objectContaining({ code: 'no_route', refusal: { reason: 'tags_missing', rule: 'zdr, eu' } }));
});

test('lists no more than ten providers in a no_route error', () => {
  const providers = (count: number) => Array.from({ length: count }, (_, n) => ({ provider: `p${n}`, lacks: ['eu'] }));
  const listed = 'p0 (eu), p1 (eu), p2 (eu), p3 (eu), p4 (eu), p5 (eu), p6 (eu), p7 (eu), p8 (eu), p9 (eu)';
  expect(lacksTags('auto', providers(10)).message).toBe(`required tags are missing: ${listed}`);
  expect(lacksTags('auto', providers(12)).message).toBe(`required tags are missing: ${listed} and 2 more`);
});
