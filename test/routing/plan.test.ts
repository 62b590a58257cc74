import { describe, expect, test } from '@jest/globals';
import type { Caller } from '../../src/core/call.ts';
import type { Breakers } from '../../src/failover/breaker.ts';
import { createBreakers } from '../../src/failover/breaker.ts';
import type { Catalog, CatalogSource } from '../../src/routing/catalog.ts';
import { buildCatalog, splitModelId } from '../../src/routing/catalog.ts';
import type { Plan, PlanRequest } from '../../src/routing/plan.ts';
import { createPlanner } from '../../src/routing/plan.ts';
import type { ProjectRouting } from '../../src/routing/rules.ts';

const price = { inputNanos: 1n, outputNanos: 2n, cachedInputNanos: 3n, cacheWriteNanos: 4n, cacheWrite1hNanos: 5n };
const unknown = { price: null, maxOutputTokens: null };

const source: CatalogSource = {
  providers: {
    openai: { dialect: 'chat' },
    azure: { dialect: 'chat' },
    router: { dialect: 'chat' },
    anthropic: { dialect: 'messages' },
    google: { dialect: 'gemini' },
  },
  models: {
    'openai/gpt': { price, maxOutputTokens: 100 },
    'openai/mini': unknown,
    'azure/mini': unknown,
    'router/meta/llama': unknown,
    'anthropic/claude': unknown,
    'google/veo': unknown,
    'gone/gpt': unknown,
  },
  tiers: {
    standard: ['openai/gpt', 'anthropic/claude', 'azure/mini'],
    wide: ['mini', 'meta/llama', 'openai/gpt'],
    repeated: ['openai/gpt', 'azure/mini', 'openai/gpt'],
    odd: ['nobody/x', 'unheard', 'openai/gpt'],
    claude: ['openai/gpt'],
    empty: [],
    video: ['google/veo'],
  },
};

const project: ProjectRouting = { providers: null, tiers: {}, retired: [] };

interface Asked {
  readonly model?: string;
  readonly dialect?: PlanRequest['dialect'];
  readonly keyModels?: readonly string[];
  readonly project?: Partial<ProjectRouting>;
  readonly catalog?: Catalog;
  readonly breakers?: Breakers;
}

function plan(asked: Asked): Plan {
  const catalog = asked.catalog ?? buildCatalog(source);
  const caller: Caller = { keyId: 'k', keyPrefix: 'p', projectId: 'acme', models: asked.keyModels ?? null, expiresAt: null };
  const planner = createPlanner({ catalog: () => catalog, breakers: asked.breakers ?? createBreakers({ now: () => 0 }) });
  return planner.plan({
    caller,
    project: { ...project, ...asked.project },
    dialect: asked.dialect ?? 'chat',
    modelAsked: asked.model ?? 'auto',
  });
}

const idsOf = (asked: Asked): string[] => plan(asked).candidates.map(({ id }) => id);

describe('what a model name stands for', () => {
  test.each<[string, string, string[]]>([
    ['a tier', 'repeated', ['openai/gpt', 'azure/mini']],
    ['auto: the tier standard', 'auto', ['openai/gpt', 'azure/mini']],
    ['a full id', 'azure/mini', ['azure/mini']],
    ['a full id with more slashes', 'router/meta/llama', ['router/meta/llama']],
    ['an id that the catalog does not list, at a known provider', 'openai/new-model', ['openai/new-model']],
    ['the tail of an id', 'gpt', ['openai/gpt']],
    ['the tail of several, in file order', 'mini', ['openai/mini', 'azure/mini']],
    ['a tail with a slash', 'meta/llama', ['router/meta/llama']],
    ['a tier of tails', 'wide', ['openai/mini', 'azure/mini', 'router/meta/llama', 'openai/gpt']],
    ['a tier before a tail of the same name', 'claude', ['openai/gpt']],
    ['a tier with names that nobody serves', 'odd', ['openai/gpt']],
  ])('%s', (_name, model, ids) => {
    expect(idsOf({ model })).toEqual(ids);
  });

  test('the dialect decides which of a tier can be asked', () => {
    expect(idsOf({ model: 'standard', dialect: 'messages' })).toEqual(['anthropic/claude']);
  });

  test("a project's tiers are laid over those of the file, by name", () => {
    const tiers = { standard: ['azure/mini'], own: ['mini'] };
    expect(idsOf({ model: 'auto', project: { tiers } })).toEqual(['azure/mini']);
    expect(idsOf({ model: 'own', project: { tiers } })).toEqual(['openai/mini', 'azure/mini']);
    expect(idsOf({ model: 'repeated', project: { tiers } })).toEqual(['openai/gpt', 'azure/mini']);
  });
});

describe('a candidate', () => {
  test('carries what its attempt needs', () => {
    expect(plan({ model: 'openai/gpt' }).candidates).toEqual([
      { id: 'openai/gpt', provider: 'openai', model: 'gpt', dialect: 'chat', price, maxOutputTokens: 100 },
    ]);
    expect(plan({ model: 'router/meta/llama' }).candidates).toMatchObject([{ provider: 'router', model: 'meta/llama' }]);
    expect(plan({ model: 'openai/new-model' }).candidates).toMatchObject([{ model: 'new-model', price: null, maxOutputTokens: null }]);
  });
});

describe('400 no_route', () => {
  const none = 'no models available for route';
  const bare = { providers: {}, models: source.models, tiers: source.tiers };

  test.each<[string, Asked, string]>([
    ['no vendor at all', { catalog: buildCatalog(bare) }, 'no providers configured'],
    ['no vendor of text', { catalog: buildCatalog({ ...bare, providers: { google: { dialect: 'gemini' } } }) }, 'no providers configured'],
    ['a name that is neither tier nor model', { model: 'unheard' }, none],
    ['an id at an unknown provider', { model: 'nobody/x' }, none],
    ['an id of the catalog whose provider is gone', { model: 'gone/gpt' }, none],
    ['a slash with nothing behind it', { model: 'openai/' }, none],
    ['a slash with nothing before it', { model: '/gpt' }, none],
    ['names that JavaScript knows', { model: 'constructor' }, none],
    ['another such name', { model: '__proto__' }, none],
    ['an empty tier', { model: 'empty' }, none],
    ['a tier of another dialect', { model: 'anthropic/claude' }, none],
    ['a model that serves no text', { model: 'video' }, none],
    ['a project without providers', { project: { providers: [] } }, none],
    ['a project with other providers', { model: 'openai/gpt', project: { providers: ['azure'] } }, none],
    ['a project that empties a tier', { model: 'standard', project: { tiers: { standard: [] } } }, none],
    ['the key refuses the model', { model: 'openai/gpt', keyModels: ['azure/mini'] }, 'model not permitted for this key: openai/gpt'],
    [
      'the key refuses every model of a tier',
      { model: 'standard', keyModels: ['router/meta/llama'] },
      'model not permitted for this key: standard',
    ],
    ['the key refuses what auto stands for', { keyModels: ['wide'] }, 'model not permitted for this key: auto'],
    ['a key that may use nothing', { model: 'gpt', keyModels: [] }, 'model not permitted for this key: gpt'],
    [
      'the key refuses all that the project leaves',
      { model: 'standard', keyModels: ['openai/gpt'], project: { providers: ['azure'] } },
      'model not permitted for this key: standard',
    ],
    [
      'the project leaves none, whatever the key says',
      { model: 'openai/gpt', keyModels: ['azure/mini'], project: { providers: [] } },
      none,
    ],
  ])('%s', (_name, asked, message) => {
    expect(() => plan(asked)).toThrow(expect.objectContaining({ code: 'no_route', status: 400, message }));
  });
});

describe("a key's allow-list", () => {
  test.each<[string, readonly string[], string, string[]]>([
    ['an id', ['azure/mini'], 'mini', ['azure/mini']],
    ['an id within a tier', ['azure/mini'], 'standard', ['azure/mini']],
    ['a tail', ['mini'], 'mini', ['openai/mini', 'azure/mini']],
    ['a tail opens its full ids', ['mini'], 'openai/mini', ['openai/mini']],
    ['a tail within a tier', ['mini'], 'standard', ['azure/mini']],
    ['a tail with a slash', ['meta/llama'], 'router/meta/llama', ['router/meta/llama']],
    ['a tier', ['standard'], 'standard', ['openai/gpt', 'azure/mini']],
    ['a tier opens auto', ['standard'], 'auto', ['openai/gpt', 'azure/mini']],
    ['several', ['gpt', 'azure/mini'], 'wide', ['azure/mini', 'openai/gpt']],
  ])('%s', (_name, keyModels, model, ids) => {
    expect(idsOf({ model, keyModels })).toEqual(ids);
  });

  test('a tier on the list does not open its models by other names', () => {
    expect(() => plan({ model: 'openai/gpt', keyModels: ['standard'] })).toThrow('model not permitted for this key: openai/gpt');
    expect(() => plan({ model: 'repeated', keyModels: ['standard'] })).toThrow('model not permitted for this key: repeated');
  });

  test('a provider on the list opens nothing', () => {
    expect(() => plan({ model: 'openai/gpt', keyModels: ['openai'] })).toThrow('model not permitted');
  });
});

describe('the order of candidates', () => {
  test('retired models and providers come last, and are never refused', () => {
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

  test('a retired tail or tier retires nothing', () => {
    expect(idsOf({ model: 'standard', project: { retired: ['gpt', 'standard'] } })).toEqual(['openai/gpt', 'azure/mini']);
  });

  test('a provider whose breaker is open comes behind the others, before the retired', () => {
    const breakers = createBreakers({ now: () => 0 });
    for (let n = 0; n < 5; n += 1) breakers.failed('acme', 'openai');
    expect(idsOf({ model: 'wide', breakers })).toEqual(['azure/mini', 'router/meta/llama', 'openai/mini', 'openai/gpt']);
    expect(idsOf({ model: 'wide', breakers, project: { retired: ['azure'] } })).toEqual([
      'router/meta/llama',
      'openai/mini',
      'openai/gpt',
      'azure/mini',
    ]);
  });

  test('when all are open they keep their order', () => {
    const breakers = createBreakers({ now: () => 0 });
    for (const provider of ['openai', 'azure', 'router']) for (let n = 0; n < 5; n += 1) breakers.failed('acme', provider);
    expect(idsOf({ model: 'wide', breakers })).toEqual(['openai/mini', 'azure/mini', 'router/meta/llama', 'openai/gpt']);
    expect(idsOf({ model: 'openai/gpt', breakers })).toEqual(['openai/gpt']);
  });

  test('a provider that cools down comes behind the others', () => {
    const breakers = createBreakers({ now: () => 0 });
    breakers.cool('acme', 'openai', 1000);
    expect(idsOf({ model: 'repeated', breakers })).toEqual(['azure/mini', 'openai/gpt']);
  });

  test('in half-open state one model gets the probe and keeps its place', () => {
    let now = 0;
    const breakers = createBreakers({ now: () => now });
    for (let n = 0; n < 5; n += 1) breakers.failed('acme', 'openai');
    now = 30_000;
    expect(idsOf({ model: 'wide', breakers })).toEqual(['openai/mini', 'azure/mini', 'router/meta/llama', 'openai/gpt']);
    expect(idsOf({ model: 'wide', breakers })).toEqual(['azure/mini', 'router/meta/llama', 'openai/mini', 'openai/gpt']);
  });

  test('a retired model and a call with one candidate do not use up the probe', () => {
    let now = 0;
    const breakers = createBreakers({ now: () => now });
    for (let n = 0; n < 5; n += 1) breakers.failed('acme', 'openai');
    now = 30_000;
    plan({ model: 'repeated', breakers, project: { retired: ['openai'] } });
    plan({ model: 'openai/gpt', breakers });
    expect(idsOf({ model: 'repeated', breakers })).toEqual(['openai/gpt', 'azure/mini']);
  });
});

describe('the recorded lines', () => {
  test('are the candidates in their order, then why the others are none', () => {
    const { lines } = plan({
      model: 'all',
      keyModels: ['gpt', 'claude', 'x'],
      project: {
        tiers: { all: ['nobody/x', 'unheard', 'anthropic/claude', 'router/meta/llama', 'azure/mini', 'openai/gpt', 'openai/gpt'] },
        providers: ['openai', 'azure', 'anthropic'],
      },
    });
    expect(lines).toEqual([
      { model: 'openai/gpt', skipped: null },
      { model: 'nobody/x', skipped: 'unknown_provider' },
      { model: 'unheard', skipped: 'unknown_provider' },
      { model: 'anthropic/claude', skipped: 'other_dialect' },
      { model: 'router/meta/llama', skipped: 'provider_not_in_project' },
      { model: 'azure/mini', skipped: 'not_permitted_for_key' },
    ]);
  });
});

test('the catalog of the moment counts', () => {
  let catalog = buildCatalog(source);
  const planner = createPlanner({ catalog: () => catalog, breakers: createBreakers({ now: () => 0 }) });
  const request: PlanRequest = {
    caller: { keyId: 'k', keyPrefix: 'p', projectId: 'acme', models: null, expiresAt: null },
    project,
    dialect: 'chat',
    modelAsked: 'auto',
  };
  expect(planner.plan(request).candidates).toHaveLength(2);
  catalog = buildCatalog({ ...source, tiers: { standard: ['azure/mini'] } });
  expect(planner.plan(request).candidates).toMatchObject([{ id: 'azure/mini' }]);
});

test.each([
  ['openai/gpt', { provider: 'openai', model: 'gpt' }],
  ['router/meta/llama', { provider: 'router', model: 'meta/llama' }],
  ['gpt', null],
  ['', null],
  ['/', null],
  ['/gpt', null],
  ['openai/', null],
])('%j splits into %j', (id, parts) => {
  expect(splitModelId(id)).toEqual(parts);
});
