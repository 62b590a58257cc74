/** Upper bounds are at least what the gateway charges when the vendor reports no usage. */
import { expect, test } from '@jest/globals';
import { newId } from '../../../src/core/ids.ts';
import type { Price } from '../../../src/core/pricing.ts';
import { estimateRequest } from '../../../src/pipeline/call/estimate.ts';
import { backgroundCaller, buildInternalCall } from '../../../src/pipeline/call/internal-call.ts';
import { usageBounds } from '../../../src/pipeline/call/usage-bounds.ts';

const searched: Price = {
  inputNanos: 0n,
  outputNanos: 0n,
  cachedInputNanos: 0n,
  cacheWriteNanos: 0n,
  cacheWrite1hNanos: 0n,
  perSearchNanos: 2_000_000n,
};

const reranked = (documents: readonly string[]) =>
  buildInternalCall({
    id: newId(0),
    route: 'rerank',
    caller: backgroundCaller('acme'),
    slug: 'acme',
    model: 'rank',
    members: { query: 'hi', documents },
    timeoutMs: 1,
    now: 0,
  });

test.each([
  ['many small documents', Array.from({ length: 1_001 }, () => 'x'), 11],
  ['a few long ones', Array.from({ length: 3 }, () => 'x'.repeat(50_000)), 4],
  ['none', [], 1],
])('a rerank call of %s reserves the searches that it may be charged', (_what, documents, searches) => {
  const call = reranked(documents);
  const candidate = {
    id: 'two/rank',
    provider: 'two',
    model: 'rank',
    dialect: 'chat',
    price: searched,
    maxOutputTokens: null,
    traits: {},
  } as const;
  const { costNanos } = usageBounds(call, [candidate]);
  expect(costNanos).toBe(searches * 2_000_000);
  expect(estimateRequest(call, searched).costNanos).toBeLessThanOrEqual(costNanos);
});
