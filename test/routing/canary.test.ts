/** Tests which calls of a tier try its canary, and where it is in their plans. */
import { describe, expect, test } from '@jest/globals';
import { createBreakers } from '../../src/failover/breaker.ts';
import { buildCatalog } from '../../src/routing/catalog.ts';
import { createPlanner, type PlanRequest } from '../../src/routing/plan.ts';
import { createPoolState } from '../../src/routing/pools.ts';
import { callerWith, project, source } from './plans.ts';

const catalog = buildCatalog({
  ...source,
  canaries: { standard: { model: 'anthropic/claude', share: 0.25 }, strong: { model: 'openai/gpt', share: 0.5 } },
});
const breakers = createBreakers({ now: () => 0 });
const { loads } = createPoolState();
const caller = callerWith(null);

function planFor(position: number | null, request: Partial<PlanRequest> = {}) {
  const planner = createPlanner({ catalog, breakers, catalogFill: false, loads });
  const { entries } = planner.plan({
    ...{ caller, project, source: 'acme', route: 'chat', requestedModel: 'standard', conversation: () => position },
    ...request,
  });
  return entries;
}

const chain = ['openai/gpt', 'azure/mini'].map((model) => ({ model, skipped: null }));
const [first = { model: '', skipped: null }, ...others] = chain;
const canaryPlan = [{ model: 'anthropic/claude', skipped: null, canary: 'standard' }, ...chain];
const controlPlan = [{ ...first, control: 'standard' }, ...others];

test('tries the canary first for its share of conversations', () => {
  expect([planFor(0), planFor(0.24), planFor(0.25), planFor(0.99)]).toEqual([canaryPlan, canaryPlan, controlPlan, controlPlan]);
});

test('caches a plan with the canary and a plan without it for each key', () => {
  const planner = createPlanner({ catalog, breakers, catalogFill: false, loads });
  const planAt = (position: number) =>
    planner.plan({ caller, project, source: 'acme', route: 'chat', requestedModel: 'standard', conversation: () => position });
  const [canary, control] = [planAt(0), planAt(1)];
  expect([planAt(0.1), planAt(0.9), planAt(0.2)].map((plan, index) => plan === [canary, control, canary][index])).toEqual([
    true,
    true,
    true,
  ]);
});

test("leaves calls out of the comparison if the canary isn't tried first", () => {
  const retiring = { ...project, retired: ['anthropic/claude'] };
  expect(planFor(0, { project: retiring }).map(({ model, canary }) => [model, canary])).toEqual([
    ['openai/gpt', undefined],
    ['azure/mini', undefined],
    ['anthropic/claude', undefined],
  ]);

  const open = createBreakers({ now: () => 0 });
  for (let failure = 0; failure < 50; failure += 1) open.recordFailure(caller.projectId, 'anthropic');
  const planner = createPlanner({ catalog, breakers: open, catalogFill: false, loads });
  const plan = planner.plan({ caller, project, source: 'acme', route: 'chat', requestedModel: 'standard', conversation: () => 0 });
  expect(plan.entries).toEqual(canaryPlan);
  const { entries } = planner.order(plan, {
    caller,
    project,
    affinity: () => {
      throw new Error('no provider has a pool');
    },
  });
  expect(entries.map(({ model, canary }) => [model, canary])).toEqual([
    ['openai/gpt', undefined],
    ['azure/mini', undefined],
    ['anthropic/claude', undefined],
  ]);
});

test("doesn't try the canary if a call doesn't belong to a conversation", () => {
  expect(planFor(null)).toEqual(chain);
});

test("doesn't use the canary for calls that name a model instead of the tier", () => {
  expect(planFor(0, { requestedModel: 'claude' })).toEqual([{ model: 'openai/gpt', skipped: null }]);
  expect(planFor(0, { requestedModel: 'openai/gpt' })).toEqual([{ model: 'openai/gpt', skipped: null }]);
});

test('tries the canary of the tier that auto resolves to', () => {
  expect(planFor(0, { requestedModel: 'auto' })).toEqual(canaryPlan);
  const strong = [
    { model: 'openai/gpt', skipped: null, canary: 'strong' },
    { model: 'openai/mini', skipped: null },
  ];
  expect(planFor(0.3, { requestedModel: 'auto', autoTier: 'strong' })).toEqual(strong);
  expect(planFor(0.6, { requestedModel: 'auto', autoTier: 'strong' })).toEqual([
    { model: 'openai/mini', skipped: null, control: 'strong' },
  ]);
});

test("doesn't use the canary for a project's own tier of the same name", () => {
  expect(planFor(0, { project: { ...project, tiers: { standard: ['azure/mini'] } } })).toEqual([{ model: 'azure/mini', skipped: null }]);
});

describe('the canary', () => {
  test('tries the canary if the key permits the tier', () => {
    expect(planFor(0, { caller: callerWith(['standard']) })).toEqual(canaryPlan);
    expect(planFor(0, { caller: callerWith(['openai/gpt']) })).toContainEqual({
      model: 'anthropic/claude',
      skipped: 'not_permitted_for_key',
    });
  });

  test.each([
    ['provider_not_in_project', { project: { ...project, providers: ['openai', 'azure'] } }],
    ['price_unknown', { requiresPrice: true }],
  ])('skips the canary with %s like any other model', (reason, request) => {
    const entries = planFor(0, request);
    expect(entries).toContainEqual({ model: 'anthropic/claude', skipped: reason });
    expect(entries.filter((entry) => entry.canary ?? entry.control)).toEqual([]);
  });

  test('skips the canary if its provider lacks a required tag', () => {
    const openai = { dialect: 'chat', serves: ['chat'], tags: ['eu'] } as const;
    const tagged = buildCatalog({
      ...source,
      providers: { ...source.providers, openai },
      canaries: { standard: { model: 'anthropic/claude', share: 1 } },
    });
    const planner = createPlanner({ catalog: tagged, breakers, catalogFill: false, loads });
    const request = { caller, source: 'acme', route: 'chat', requestedModel: 'standard', conversation: () => 0 } as const;
    const { candidates, entries } = planner.plan({ ...request, project: { ...project, requiredTags: ['eu'] } });
    expect(entries).toContainEqual({ model: 'anthropic/claude', skipped: 'tags_missing', lacks: ['eu'] });
    expect(candidates.map(({ id }) => id)).toEqual(['openai/gpt']);
  });
});
