import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { TextRoute } from '../../src/core/call.ts';
import { createBreakers } from '../../src/failover/breaker.ts';
import { buildCatalog, splitModelId } from '../../src/routing/catalog.ts';
import type { Plan, Planner, PlanRequest } from '../../src/routing/plan.ts';
import { createPlanner } from '../../src/routing/plan.ts';
import { createPoolState } from '../../src/routing/pools.ts';
import { type Asked, callerWith, idsOf, plan, price, project, source } from './plans.ts';

const { loads } = createPoolState();
const affinity = () => ({ hash: 1, member: null });

describe('resolving a model name', () => {
  test.each<[string, string, string[]]>([
    ['a tier', 'repeated', ['openai/gpt', 'azure/mini']],
    ['auto to the tier standard', 'auto', ['openai/gpt', 'azure/mini']],
    ['a full id', 'azure/mini', ['azure/mini']],
    ['a full id with more slashes', 'router/meta/llama', ['router/meta/llama']],
    ["an id of a known provider that the catalog doesn't list", 'openai/new-model', ['openai/new-model']],
    ['a bare name', 'gpt', ['openai/gpt']],
    ['a bare name of several models, in file order', 'mini', ['openai/mini', 'azure/mini']],
    ['a bare name with a slash', 'meta/llama', ['router/meta/llama']],
    ['a tier of bare names', 'wide', ['openai/mini', 'azure/mini', 'router/meta/llama', 'openai/gpt']],
    ['a tier before a model of the same name', 'claude', ['openai/gpt']],
    ['a tier with unknown names', 'odd', ['openai/gpt']],
  ])('resolves %s', (_name, model, ids) => {
    expect(idsOf({ model })).toEqual(ids);
  });

  test('returns the dialect of each model in a chain with vendors of both dialects', () => {
    expect(idsOf({ model: 'both' })).toEqual(['openai/gpt', 'anthropic/claude', 'azure/mini']);
    expect(plan({ model: 'both', route: 'messages' }).candidates.map(({ dialect }) => dialect)).toEqual(['chat', 'messages', 'chat']);
  });

  test("prefers a project's tiers to the tiers in the configuration", () => {
    const tiers = { standard: ['azure/mini'], own: ['mini'] };
    expect(idsOf({ model: 'auto', project: { tiers } })).toEqual(['azure/mini']);
    expect(idsOf({ model: 'own', project: { tiers } })).toEqual(['openai/mini', 'azure/mini']);
    expect(idsOf({ model: 'repeated', project: { tiers } })).toEqual(['openai/gpt', 'azure/mini']);
  });
});

describe('tiers of an application', () => {
  const applications = new Map([
    ['bot', { tiers: { standard: ['azure/mini'], own: ['openai/mini'] } }],
    ['odd', { tiers: {} }],
  ]);
  const tiers = { standard: ['openai/mini'], wide: ['openai/gpt'] };

  test.each<[string, string, string, string[]]>([
    ["prefers an application's tiers to those of its project", 'bot', 'standard', ['azure/mini']],
    ["resolves auto to the application's own standard tier", 'bot', 'auto', ['azure/mini']],
    ['lets an application define additional tiers', 'bot', 'own', ['openai/mini']],
    ["uses the project's other tiers for an application", 'bot', 'wide', ['openai/gpt']],
    ["uses the configuration's other tiers for an application", 'bot', 'repeated', ['openai/gpt', 'azure/mini']],
    ["uses the project's tiers if the application has none", 'odd', 'standard', ['openai/mini']],
    ["uses the project's tiers if the application is unknown", 'nobody', 'standard', ['openai/mini']],
    ["doesn't mistake the name of a JavaScript property for a known application", 'constructor', 'standard', ['openai/mini']],
  ])('%s', (_name, application, model, ids) => {
    expect(idsOf({ source: application, model, project: { tiers, applications } })).toEqual(ids);
  });

  test("doesn't let an application use another application's tier", () => {
    expect(() => plan({ source: 'odd', model: 'own', project: { applications } })).toThrow('no models available for route');
  });

  test('lets an application define an empty tier', () => {
    const emptied = new Map([['bot', { tiers: { standard: [] } }]]);
    expect(() => plan({ source: 'bot', project: { applications: emptied } })).toThrow('no models available for route');
  });
});

describe('what each route can serve', () => {
  test.each<[TextRoute, string[]]>([
    ['chat', ['openai/gpt', 'azure/mini']],
    ['messages', ['openai/gpt', 'azure/mini']],
    ['responses', ['openai/gpt', 'azure/mini']],
    ['moderations', ['openai/gpt', 'azure/mini']],
    ['rerank', ['openai/gpt', 'azure/mini']],
    ['embeddings', ['azure/mini']],
  ])('resolves auto on %s', (route, ids) => {
    expect(idsOf({ route })).toEqual(ids);
  });

  test.each<TextRoute>(['embeddings', 'moderations', 'rerank'])("skips providers that don't serve %s and records the reason", (route) => {
    const { candidates, entries: lines } = plan({
      route,
      model: 'all',
      project: { tiers: { all: ['router/meta/llama', 'anthropic/claude', 'azure/mini'] } },
    });
    expect(candidates).toMatchObject([{ id: 'azure/mini', dialect: 'chat' }]);
    expect(lines).toEqual([
      { model: 'azure/mini', skipped: null },
      { model: 'router/meta/llama', skipped: 'route_not_served' },
      { model: 'anthropic/claude', skipped: 'route_not_served' },
    ]);
  });

  test('sends Responses API calls to any vendor and translates them if necessary', () => {
    const providers = {
      ...source.providers,
      azure: { dialect: 'chat', serves: ['chat', 'responses'] as const, responses: 'unknown' as const },
      none: { dialect: 'chat', serves: ['embeddings'] as const },
    };
    const models = {
      ...source.models,
      'openai/mini': { price: null, maxOutputTokens: null, serves: ['chat'] as const },
      'azure/own': { price: null, maxOutputTokens: null, serves: ['responses'] as const },
    };
    const all = ['openai/gpt', 'openai/mini', 'azure/mini', 'azure/own', 'router/meta/llama', 'anthropic/claude', 'none/x'];
    const { candidates, entries } = plan({
      route: 'responses',
      model: 'all',
      project: { tiers: { all } },
      catalog: buildCatalog({ ...source, providers, models }),
    });
    expect(candidates.map(({ id, responses }) => [id, responses])).toEqual([
      ['openai/gpt', 'native'],
      ['openai/mini', 'translated'],
      ['azure/mini', 'unknown'],
      ['azure/own', 'native'],
      ['router/meta/llama', 'translated'],
      ['anthropic/claude', 'translated'],
    ]);
    expect(entries).toContainEqual({ model: 'none/x', skipped: 'route_not_served' });
  });

  test("skips a vendor that doesn't serve its dialect's route", () => {
    const providers = { ...source.providers, openai: { dialect: 'chat', serves: ['embeddings'] as const } };
    const catalog = buildCatalog({ ...source, providers });
    expect(idsOf({ catalog })).toEqual(['azure/mini']);
    expect(idsOf({ catalog, model: 'both', route: 'messages' })).toEqual(['anthropic/claude', 'azure/mini']);
    expect(plan({ catalog }).entries).toContainEqual({ model: 'openai/gpt', skipped: 'route_not_served' });
  });

  test('skips a responses-only model on chat and messages', () => {
    const providers = { ...source.providers, openai: { dialect: 'chat', serves: ['chat', 'responses'] as const } };
    const models = { ...source.models, 'openai/gpt': { price: null, maxOutputTokens: null, serves: ['responses'] as const } };
    const catalog = buildCatalog({ ...source, providers, models });
    expect(idsOf({ catalog, model: 'both', route: 'messages' })).toEqual(['anthropic/claude', 'azure/mini']);
    expect(plan({ catalog }).entries).toContainEqual({ model: 'openai/gpt', skipped: 'route_not_for_model' });
    expect(idsOf({ catalog, route: 'responses' })).toEqual(['openai/gpt', 'azure/mini']);
    expect(() => plan({ catalog, model: 'openai/gpt', catalogFill: false })).toThrow('no models available for route');
  });
});

describe('the tier that a classifier chose for auto', () => {
  const chosen = { autoTier: 'strong' };

  test.each<[string, Asked, string[]]>([
    ['uses the chosen tier', chosen, ['openai/mini']],
    ['ignores the chosen tier for a call that names its model', { ...chosen, model: 'azure/mini' }, ['azure/mini']],
    ["uses standard if the chosen tier doesn't exist", { autoTier: 'trivial' }, ['openai/gpt', 'azure/mini']],
    [
      "uses standard if the project's providers don't serve the chosen tier",
      { ...chosen, project: { providers: ['azure'] } },
      ['azure/mini'],
    ],
    ["uses standard if the key doesn't permit the chosen tier", { ...chosen, keyModels: ['standard'] }, ['openai/gpt', 'azure/mini']],
    [
      'uses standard rather than fill the chosen tier from the catalog',
      { ...chosen, catalogFill: true, project: { providers: ['azure'] } },
      ['azure/mini'],
    ],
    ['permits the chosen tier if the key permits auto', { ...chosen, keyModels: ['auto'] }, ['openai/mini']],
    ['permits the chosen tier if the key permits it by name', { ...chosen, keyModels: ['strong'] }, ['openai/mini']],
    ['uses standard if no tier was chosen', { autoTier: null }, ['openai/gpt', 'azure/mini']],
  ])('%s', (_name, asked, ids) => {
    expect(idsOf(asked)).toEqual(ids);
  });
});

describe('a candidate', () => {
  test('returns candidates with everything that is needed to call them', () => {
    expect(plan({ model: 'openai/gpt' }).candidates).toEqual([
      {
        id: 'openai/gpt',
        provider: 'openai',
        model: 'gpt',
        dialect: 'chat',
        responses: 'native',
        price,
        maxOutputTokens: 100,
        maxInputTokens: null,
        contextWindow: null,
        imageTokens: null,
        firstContentTimeoutMs: null,
        traits: {},
      },
    ]);
    expect(plan({ model: 'router/meta/llama' }).candidates).toMatchObject([{ provider: 'router', model: 'meta/llama' }]);
    expect(plan({ model: 'openai/new-model' }).candidates).toMatchObject([{ model: 'new-model', price: null, maxOutputTokens: null }]);
  });
});

describe('400 no_route', () => {
  const none = 'no models available for route';
  const bare = { providers: {}, models: source.models, tiers: source.tiers };

  test.each<[string, Asked, string]>([
    ['no providers', { catalog: buildCatalog(bare) }, 'no providers configured'],
    [
      'providers that serve no text',
      { catalog: buildCatalog({ ...bare, providers: { google: { dialect: 'gemini', serves: ['video'] } } }) },
      none,
    ],
    ['a project that may only use a video provider', { project: { providers: ['google'] } }, none],
    ['an unknown name', { model: 'unheard' }, none],
    ['an id of an unknown provider', { model: 'nobody/x' }, none],
    ['a catalog id of a missing provider', { model: 'gone/gpt' }, none],
    ['an id that ends with a slash', { model: 'openai/' }, none],
    ['an id that begins with a slash', { model: '/gpt' }, none],
    ['the name of a JavaScript property', { model: 'constructor' }, none],
    ['the name __proto__', { model: '__proto__' }, none],
    ['an empty tier', { model: 'empty' }, none],
    ["a route that the provider doesn't serve", { model: 'router/meta/llama', route: 'rerank' }, none],
    ['a model that serves no text', { model: 'video' }, none],
    ['a project without providers', { project: { providers: [] } }, 'no providers configured'],
    ['a project whose providers are not configured', { project: { providers: ['gone'] } }, 'no providers configured'],
    ['a project with other providers', { model: 'openai/gpt', project: { providers: ['azure'] } }, none],
    ['a project that empties a tier', { model: 'standard', project: { tiers: { standard: [] } } }, none],
    [
      "a model that the key doesn't permit",
      { model: 'openai/gpt', keyModels: ['azure/mini'] },
      'model not permitted for this key: openai/gpt',
    ],
    [
      "a tier whose models the key doesn't permit",
      { model: 'standard', keyModels: ['router/meta/llama'] },
      'model not permitted for this key: standard',
    ],
    ["auto if the key doesn't permit its tier", { keyModels: ['wide'] }, 'model not permitted for this key: auto'],
    ['a key that permits nothing', { model: 'gpt', keyModels: [] }, 'model not permitted for this key: gpt'],
    [
      "a key that permits none of the project's models",
      { model: 'standard', keyModels: ['openai/gpt'], project: { providers: ['azure'] } },
      'model not permitted for this key: standard',
    ],
    [
      'a project without providers, whatever the key permits',
      { model: 'openai/gpt', keyModels: ['azure/mini'], project: { providers: [] } },
      'no providers configured',
    ],
  ])('returns 400 no_route for %s', (_name, asked, message) => {
    expect(() => plan(asked)).toThrow(expect.objectContaining({ code: 'no_route', status: 400, message }));
  });
});

describe("a key's allow-list", () => {
  test.each<[string, readonly string[], string, string[]]>([
    ['an id', ['azure/mini'], 'mini', ['azure/mini']],
    ['an id within a tier', ['azure/mini'], 'standard', ['azure/mini']],
    ['a bare name', ['mini'], 'mini', ['openai/mini', 'azure/mini']],
    ['a full id by its bare name', ['mini'], 'openai/mini', ['openai/mini']],
    ['a bare name within a tier', ['mini'], 'standard', ['azure/mini']],
    ['a bare name with a slash', ['meta/llama'], 'router/meta/llama', ['router/meta/llama']],
    ['a tier', ['standard'], 'standard', ['openai/gpt', 'azure/mini']],
    ['auto by its tier', ['standard'], 'auto', ['openai/gpt', 'azure/mini']],
    ['several models', ['gpt', 'azure/mini'], 'wide', ['azure/mini', 'openai/gpt']],
  ])('permits %s', (_name, keyModels, model, ids) => {
    expect(idsOf({ model, keyModels })).toEqual(ids);
  });

  test('permits a tier without permitting its models directly', () => {
    expect(() => plan({ model: 'openai/gpt', keyModels: ['standard'] })).toThrow('model not permitted for this key: openai/gpt');
    expect(() => plan({ model: 'repeated', keyModels: ['standard'] })).toThrow('model not permitted for this key: repeated');
  });

  test("doesn't permit the models of an aggregator whose names look like an id that the key permits", () => {
    const models = { ...source.models, 'router/openai/gpt': { price: null, maxOutputTokens: null } };
    const view = { catalog: buildCatalog({ ...source, models }), keyModels: ['openai/gpt', 'openai/unlisted'] };
    expect(idsOf({ ...view, model: 'openai/gpt' })).toEqual(['openai/gpt']);
    for (const model of ['router/openai/gpt', 'router/openai/unlisted', 'azure/openai/gpt'])
      expect(() => plan({ ...view, model })).toThrow('model not permitted for this key');
  });

  test("doesn't permit any models if a key's allow-list contains only the name of a provider", () => {
    expect(() => plan({ model: 'openai/gpt', keyModels: ['openai'] })).toThrow('model not permitted');
  });
});

describe('the order of candidates', () => {
  test('puts retired models and providers last', () => {
    expect(idsOf({ model: 'wide', project: { retired: ['openai/mini'] } })).toEqual([
      'azure/mini',
      'router/meta/llama',
      'openai/gpt',
      'openai/mini',
    ]);
    expect(idsOf({ model: 'wide', project: { retired: ['openai'] } })).toEqual([
      'azure/mini',
      'router/meta/llama',
      'openai/mini',
      'openai/gpt',
    ]);
    expect(idsOf({ model: 'wide', project: { retired: ['openai', 'azure', 'router'] } })).toEqual([
      'openai/mini',
      'azure/mini',
      'router/meta/llama',
      'openai/gpt',
    ]);
    expect(idsOf({ model: 'openai/gpt', project: { retired: ['openai/gpt'] } })).toEqual(['openai/gpt']);
  });

  test('ignores tiers and bare model names in the list of retired models', () => {
    expect(idsOf({ model: 'standard', project: { retired: ['gpt', 'standard'] } })).toEqual(['openai/gpt', 'azure/mini']);
  });

  test('puts a provider with an open breaker after the healthy providers', () => {
    const breakers = createBreakers({ now: () => 0 });
    for (let n = 0; n < 5; n += 1) breakers.recordFailure('acme', 'openai');
    expect(idsOf({ model: 'wide', breakers })).toEqual(['azure/mini', 'router/meta/llama', 'openai/mini', 'openai/gpt']);
    expect(idsOf({ model: 'wide', breakers, project: { retired: ['azure'] } })).toEqual([
      'router/meta/llama',
      'openai/mini',
      'openai/gpt',
      'azure/mini',
    ]);
  });

  test('keeps the order of candidates if all breakers are open', () => {
    const breakers = createBreakers({ now: () => 0 });
    for (const provider of ['openai', 'azure', 'router']) for (let n = 0; n < 5; n += 1) breakers.recordFailure('acme', provider);
    expect(idsOf({ model: 'wide', breakers })).toEqual(['openai/mini', 'azure/mini', 'router/meta/llama', 'openai/gpt']);
    expect(idsOf({ model: 'openai/gpt', breakers })).toEqual(['openai/gpt']);
  });

  test('tries a provider last while it is in cooldown', () => {
    const breakers = createBreakers({ now: () => 0 });
    breakers.coolDown('acme', 'openai', 1000);
    expect(idsOf({ model: 'repeated', breakers })).toEqual(['azure/mini', 'openai/gpt']);
  });

  test('keeps the position of a model that gets the probe slot', () => {
    let now = 0;
    const breakers = createBreakers({ now: () => now });
    for (let n = 0; n < 5; n += 1) breakers.recordFailure('acme', 'openai');
    now = 30_000;
    expect(idsOf({ model: 'wide', breakers })).toEqual(['openai/mini', 'azure/mini', 'router/meta/llama', 'openai/gpt']);
    expect(idsOf({ model: 'wide', breakers })).toEqual(['azure/mini', 'router/meta/llama', 'openai/mini', 'openai/gpt']);
  });

  test("doesn't use the probe slot of a model that comes after a healthy model", () => {
    let now = 0;
    const breakers = createBreakers({ now: () => now });
    for (let n = 0; n < 5; n += 1) breakers.recordFailure('acme', 'azure');
    now = 30_000;
    expect(idsOf({ model: 'wide', breakers })).toEqual(['openai/mini', 'router/meta/llama', 'openai/gpt', 'azure/mini']);
    const azureFirst = { tiers: { turned: ['azure/mini', 'openai/mini'] } };
    expect(idsOf({ model: 'turned', breakers, project: azureFirst })).toEqual(['azure/mini', 'openai/mini']);
    expect(idsOf({ model: 'turned', breakers, project: azureFirst })).toEqual(['openai/mini', 'azure/mini']);
  });

  test("doesn't use a probe slot for a retired model or a single candidate", () => {
    let now = 0;
    const breakers = createBreakers({ now: () => now });
    for (let n = 0; n < 5; n += 1) breakers.recordFailure('acme', 'openai');
    now = 30_000;
    plan({ model: 'repeated', breakers, project: { retired: ['openai'] } });
    plan({ model: 'openai/gpt', breakers });
    expect(idsOf({ model: 'repeated', breakers })).toEqual(['openai/gpt', 'azure/mini']);
  });
});

describe('the recorded plan', () => {
  test('records the candidates in order, then the skipped models with reasons', () => {
    const { entries: lines } = plan({
      model: 'all',
      keyModels: ['gpt', 'claude', 'x'],
      project: {
        tiers: { all: ['nobody/x', 'unheard', 'anthropic/claude', 'router/meta/llama', 'azure/mini', 'openai/gpt', 'openai/gpt'] },
        providers: ['openai', 'azure', 'anthropic'],
      },
    });
    expect(lines).toEqual([
      { model: 'anthropic/claude', skipped: null },
      { model: 'openai/gpt', skipped: null },
      { model: 'nobody/x', skipped: 'unknown_provider' },
      { model: 'unheard', skipped: 'unknown_provider' },
      { model: 'router/meta/llama', skipped: 'provider_not_in_project' },
      { model: 'azure/mini', skipped: 'not_permitted_for_key' },
    ]);
  });
});

test('ignores circuit breakers until the plan is put in order', () => {
  let now = 0;
  const breakers = createBreakers({ now: () => now });
  for (let n = 0; n < 5; n += 1) breakers.recordFailure('acme', 'openai');
  const planner = createPlanner({ catalog: buildCatalog(source), breakers, catalogFill: true, loads });
  const own = { ...project, tiers: { mixed: ['openai/gpt', 'nobody/x', 'azure/mini'] } };
  const mixed = { caller: callerWith(null), project: own, source: 'acme', route: 'chat', requestedModel: 'mixed', affinity } as const;
  const linesOf = ({ entries: lines }: Plan) => lines.map(({ model, skipped }) => [model, skipped]);
  const unordered = planner.plan(mixed);
  const left = ['nobody/x', 'unknown_provider'];
  expect(linesOf(unordered)).toEqual([['openai/gpt', null], ['azure/mini', null], left]);
  const ordered = planner.order(unordered, mixed);
  expect(linesOf(ordered)).toEqual([['azure/mini', null], ['openai/gpt', null], left]);
  expect(ordered.candidates.map(({ id }) => id)).toEqual(['azure/mini', 'openai/gpt']);
  now = 30_000;
  for (let n = 0; n < 3; n += 1) planner.plan(mixed);
  expect(planner.order(planner.plan(mixed), mixed).candidates[0]?.id).toBe('openai/gpt');
});

test('builds the same plan regardless of earlier plans for the key', () => {
  const caller = callerWith(['standard', 'mini', 'openai/gpt']);
  const projects = [project, { ...project, tiers: { standard: ['mini'] } }, { ...project, retired: ['openai'] }];
  const catalog = buildCatalog(source);
  const create = () => createPlanner({ catalog, breakers: createBreakers({ now: () => 0 }), catalogFill: false, loads });
  const request = fc.record({
    caller: fc.constant(caller),
    project: fc.constantFrom(...projects),
    source: fc.constantFrom('acme', 'app'),
    route: fc.constantFrom('chat', 'embeddings'),
    requestedModel: fc.constantFrom('auto', 'standard', 'mini'),
    autoTier: fc.constantFrom(null, 'wide'),
    requiresPrice: fc.boolean(),
  });
  const outcomeOf = (planner: Planner, asked: PlanRequest) => {
    try {
      return planner.plan(asked);
    } catch (error) {
      return String(error);
    }
  };
  fc.assert(
    fc.property(fc.array(request, { maxLength: 10 }), (requests) => {
      const planner = create();
      for (const asked of requests) expect(outcomeOf(planner, asked)).toEqual(outcomeOf(create(), asked));
    }),
  );
});

test.each([
  ['openai/gpt', { provider: 'openai', model: 'gpt' }],
  ['router/meta/llama', { provider: 'router', model: 'meta/llama' }],
  ['gpt', null],
  ['', null],
  ['/', null],
  ['/gpt', null],
  ['openai/', null],
])('splits the model id %j into %j', (id, parts) => {
  expect(splitModelId(id)).toEqual(parts);
});
