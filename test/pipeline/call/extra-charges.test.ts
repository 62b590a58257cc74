/** Tests what we charge for a response in addition to its tokens at the standard price. */
import { expect, test } from '@jest/globals';
import type { Call, CallMetadata, TextRoute } from '../../../src/core/call.ts';
import type { Candidate, ResponsesSupport } from '../../../src/core/candidate.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import type { Price } from '../../../src/core/pricing.ts';
import { noTokens } from '../../../src/core/pricing.ts';
import type { ResponseSummary } from '../../../src/dialects/contract/route-codec.ts';
import { bodyKeys } from '../../../src/dialects/json/body-members.ts';
import { settleResponse } from '../../../src/pipeline/call/settle.ts';
import { recalculateCost } from '../../../src/usage/prices/recalculate-cost.ts';

const price: Price = {
  ...{ inputNanos: 0n, outputNanos: 1_000_000_000n, cachedInputNanos: 0n, cacheWriteNanos: 0n, cacheWrite1hNanos: 0n },
  tierMillionths: { priority: 2_000_000n, flex: 500_000n, fast: 6_000_000n, us: 1_100_000n },
  perToolUseNanos: { web_search: 10_000_000n, web_search_preview: 25_000_000n },
};

/** Settles a response with 1,000 output tokens. In the standard tier, they cost $0.001. */
function settle(
  members: object,
  summary: Partial<ResponseSummary>,
  {
    route = 'responses' as TextRoute,
    dialect = 'chat' as Candidate['dialect'],
    responses = 'native' as ResponsesSupport,
    prices = price as Price | null,
  } = {},
) {
  const body = Buffer.from(JSON.stringify({ model: 'one/m', ...members }));
  const call = { route, body, spans: scanObject(body, bodyKeys), isInternal: true, startedAt: 0 } as unknown as Call;
  const candidate: Candidate = { id: 'one/m', provider: 'one', model: 'm', dialect, responses, price: prices, maxOutputTokens: null };
  const attempt = { n: 1, candidate, waitMs: 0, startedAt: 0, status: 200, requestId: null, firstByteMs: 1, contentMs: null };
  const end = { call, sent: call, recalled: [], metadata: {} as CallMetadata, failed: [], endedAt: 2 };
  const tokens = { ...noTokens, output: 1_000 };
  const { result } = settleResponse(
    end,
    attempt,
    { tokens, isFinal: true, generatedCharacters: 0, turn: { text: '', toolCalls: [] }, ...summary },
    'ok',
  );
  const { costNanos, units, estimated } = result;
  // Repricing the stored call has to result in the same cost.
  const stored = { price: prices, perImageNanos: null, perMillionCharactersNanos: null, perSecondNanos: null };
  if (prices) expect(recalculateCost(route, tokens, units ?? null, stored)).toEqual({ kind: 'cost', nanos: costNanos });
  return { usd: costNanos === null ? null : costNanos / 1e9, units, estimated };
}

test('marks the cost as an estimate if a search model has no price for its search', () => {
  const settled = settle({ messages: [], web_search_options: {} }, {}, { route: 'chat', prices: { ...price, perToolUseNanos: {} } });
  expect(settled).toEqual({ usd: 0.001, units: { toolUses: { web_search: 1 } }, estimated: true });
  for (const options of [null, false, []])
    expect(settle({ messages: [], web_search_options: options }, {}, { route: 'chat' })).toMatchObject({ usd: 0.001, estimated: false });
});

test.each<[string, object, Partial<ResponseSummary>, number, string | undefined]>([
  ['the standard tier', {}, { serviceTier: 'default' }, 0.001, undefined],
  ['no tier at all', {}, {}, 0.001, undefined],
  ['priority', { service_tier: 'priority' }, { serviceTier: 'priority' }, 0.002, 'priority'],
  ['priority that the vendor chose itself', { service_tier: 'auto' }, { serviceTier: 'priority' }, 0.002, 'priority'],
  ['priority that the vendor did not grant', { service_tier: 'priority' }, { serviceTier: 'default' }, 0.001, undefined],
  ['priority of a vendor that does not report it', { service_tier: 'priority' }, {}, 0.002, 'priority'],
  ['flex', { service_tier: 'flex' }, { serviceTier: 'flex' }, 0.0005, 'flex'],
  ['a faster mode in a region', { speed: 'fast', inference_geo: 'us' }, { serviceTier: 'standard' }, 0.0066, 'fast+us'],
])('prices a response with %s', (_what, members, summary, usd, serviceTier) => {
  const settled = settle(members, summary);
  expect(settled.usd).toBeCloseTo(usd, 9);
  expect([settled.units?.serviceTier, settled.estimated]).toEqual([serviceTier, false]);
});

test("doesn't assume a service tier for a translated request", () => {
  expect(settle({ service_tier: 'priority' }, {}, { route: 'chat', dialect: 'messages' })).toMatchObject({ usd: 0.001, estimated: false });
  expect(settle({ service_tier: 'flex' }, {}, { responses: 'translated' })).toMatchObject({ usd: 0.001, estimated: false });
});

test('charges for tool calls at the prices in the catalog', () => {
  expect(settle({}, { toolUses: { web_search: 3 } })).toMatchObject({
    usd: 0.031,
    units: { toolUses: { web_search: 3 } },
    estimated: false,
  });
  const preview = { tools: [{ type: 'web_search_preview' }] };
  expect(settle(preview, { toolUses: { web_search: 1 } })).toMatchObject({ usd: 0.026, units: { toolUses: { web_search_preview: 1 } } });
  expect(settle(preview, { toolUses: { file_search: 1 } })).toMatchObject({ usd: 0.001, units: { toolUses: { file_search: 1 } } });
  expect(settle({ web_search_options: {} }, {}, { route: 'chat' })).toMatchObject({ usd: 0.011, units: { toolUses: { web_search: 1 } } });
});

test('marks the cost as an estimate if the price of a service tier or tool is unknown', () => {
  expect(settle({}, { serviceTier: 'turbo' })).toMatchObject({ usd: 0.001, units: { serviceTier: 'turbo' }, estimated: true });
  expect(settle({}, { toolUses: { file_search: 2 } })).toMatchObject({
    usd: 0.001,
    units: { toolUses: { file_search: 2 } },
    estimated: true,
  });
  // If the model has no price at all, the cost is unknown, so it isn't marked as an estimate.
  expect(settle({}, { serviceTier: 'turbo' }, { prices: null })).toMatchObject({ usd: null, estimated: false });
});

test("doesn't store a service tier that isn't a valid name", () => {
  expect(settle({ service_tier: 'my secret text' }, {}).units).toBeUndefined();
  expect(settle({}, { serviceTier: '\u0000' }).units).toBeUndefined();
});
