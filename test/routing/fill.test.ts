import { describe, expect, test } from '@jest/globals';
import type { TokenPrice } from '../../src/core/pricing.ts';
import { buildCatalog, type CatalogSourceRow, type Kind } from '../../src/routing/catalog.ts';
import { type Asked, project as bareProject, idsOf as idsOfPlan, plan as planOf } from './plans.ts';

/** A price whose two halves both count. */
const costing = (nanos: bigint): TokenPrice => ({
  inputNanos: nanos / 3n,
  outputNanos: nanos - nanos / 3n,
  cachedInputNanos: 0n,
  cacheWriteNanos: 0n,
  cacheWrite1hNanos: 0n,
});
const row = (kind: Kind, nanos: bigint | null, perSearchNanos: bigint | null = null): CatalogSourceRow => ({
  kind,
  price: nanos === null ? null : costing(nanos),
  maxOutputTokens: null,
  perSearchNanos,
});

const served = ['chat', 'embeddings', 'moderations', 'rerank', 'responses'] as const;
const source = {
  providers: {
    away: { dialect: 'chat', serves: served },
    openai: { dialect: 'chat', serves: served },
    azure: { dialect: 'chat', serves: ['chat'] },
    anthropic: { dialect: 'messages', serves: ['messages'] },
  },
  models: {
    'away/gpt': row('chat', 1n),
    'away/mini': row('chat', 1n),
    'away/embed': row('embeddings', 1n),
    'openai/secret': row('chat', null),
    'openai/gpt': row('chat', 90n),
    'azure/gpt': row('chat', 60n),
    'openai/mini': row('chat', 6n),
    'anthropic/claude': row('chat', 30n),
    'openai/embed-large': row('embeddings', 9n),
    'openai/embed-small': row('embeddings', 3n),
    'openai/judge': row('moderations', null),
    'openai/rank-dear': row('rerank', null, 9n),
    'openai/rank': row('rerank', null, 3n),
    'openai/picture': row('images', 1n),
  },
  tiers: {
    standard: ['away/gpt'],
    served: ['away/gpt', 'openai/gpt'],
    embed: ['away/embed'],
    mixed: ['away/embed', 'away/gpt'],
    unheard: ['nobody/x', 'y'],
    empty: [],
    picture: ['openai/picture'],
  },
} as const;

const catalog = buildCatalog(source);
const project = { ...bareProject, providers: ['openai', 'azure', 'anthropic'] };
const plan = (asked: Asked) => planOf({ catalog, catalogFill: true, ...asked, project: { ...project, ...asked.project } });
const idsOf = (asked: Asked): string[] => idsOfPlan({ catalog, catalogFill: true, ...asked, project: { ...project, ...asked.project } });

const chatModels = ['openai/mini', 'anthropic/claude', 'azure/gpt', 'openai/gpt', 'openai/secret'];

describe("substitutes for a tier that none of the project's providers serves", () => {
  test.each<[string, Asked, string[]]>([
    ['of a chat tier', { model: 'standard' }, chatModels],
    ['for auto', { model: 'auto' }, chatModels],
    ['in both dialects', { model: 'standard', route: 'messages' }, chatModels],
    ['in both dialects for responses', { model: 'standard', route: 'responses' }, chatModels],
    ['of an embeddings tier', { model: 'embed', route: 'embeddings' }, ['openai/embed-small', 'openai/embed-large']],
    ['for auto embeddings', { route: 'embeddings' }, ['openai/embed-small', 'openai/embed-large']],
    ['of a reranking tier, by price per search', { route: 'rerank' }, ['openai/rank', 'openai/rank-dear']],
    ['for auto moderations', { route: 'moderations' }, ['openai/judge']],
    ['of a tier with several kinds', { model: 'mixed' }, chatModels],
    ['of a tier with unknown models', { model: 'unheard' }, chatModels],
    ['of an empty tier', { model: 'empty' }, chatModels],
    [
      "of an application's tier",
      { model: 'own', source: 'bot', project: { applications: new Map([['bot', { tiers: { own: ['away/x'] } }]]) } },
      chatModels,
    ],
    ['for auto without a configured tier', { catalog: buildCatalog({ ...source, tiers: {} }) }, chatModels],
  ])('substitutes models from the catalog, cheapest first: %s', (_name, asked, ids) => {
    expect(idsOf(asked)).toEqual(ids);
  });

  test('never substitutes more than twenty models', () => {
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`openai/m${n}`, row('chat', BigInt(n))]));
    const full = buildCatalog({ ...source, models: { ...source.models, ...many } });
    expect(idsOf({ model: 'standard', catalog: full })).toHaveLength(20);
  });
});

describe("substitutes for a model that none of the project's providers serves", () => {
  test.each<[string, Asked, string[]]>([
    ['for a full id', { model: 'away/gpt' }, ['openai/gpt', 'azure/gpt']],
    ['for an unknown provider', { model: 'nobody/mini' }, ['openai/mini']],
    ['and serve the route', { model: 'away/gpt', route: 'moderations' }, ['openai/gpt']],
    ['or no kind, which counts as chat', { model: 'nobody/mini', route: 'moderations' }, ['openai/mini']],
  ])('substitutes models with the same name from other providers: %s', (_name, asked, ids) => {
    expect(idsOf(asked)).toEqual(ids);
  });
});

describe('catalog fill', () => {
  test.each(['nobody/embed-small', 'away/embed-small', 'away/gpt'])(
    "doesn't substitute another model for the embedding model %s",
    (model) => {
      expect(() => plan({ model, route: 'embeddings' })).toThrow('no models available for route');
    },
  );

  test("doesn't substitute models if a provider serves one of the chain's models", () => {
    expect(idsOf({ model: 'served' })).toEqual(['openai/gpt']);
    expect(plan({ model: 'served' }).entries).toEqual([
      { model: 'openai/gpt', skipped: null },
      { model: 'away/gpt', skipped: 'provider_not_in_project' },
    ]);
  });

  const none = 'no models available for route';
  test.each<[string, Asked, string]>([
    ['catalog fill is off', { model: 'standard', catalogFill: false }, none],
    ['the project turned it off', { model: 'standard', project: { catalogFill: false } }, none],
    ['the name is unknown', { model: 'anything' }, none],
    ['no other model has the same name', { model: 'away/other' }, none],
    ['no model with the same name serves the route', { model: 'away/gpt', route: 'embeddings', project: { providers: ['azure'] } }, none],
    ['the model with the same name is of another kind', { model: 'nobody/embed-small' }, none],
    ['the model with the same name serves another route', { model: 'nobody/rank', route: 'embeddings' }, none],
    ['no other model has the bare name', { model: 'judge', project: { providers: ['azure'] } }, none],
    ['there is no model of that kind', { model: 'embed', route: 'embeddings', project: { providers: ['anthropic'] } }, none],
    ["the tier isn't for the route", { model: 'embed', route: 'chat' }, none],
    ['a chat tier is used for moderations', { model: 'standard', route: 'moderations' }, none],
    ['the project has no providers', { model: 'standard', project: { providers: [] } }, 'no providers configured'],
    ["the key doesn't permit the served chain", { model: 'served', keyModels: ['azure/gpt'] }, 'model not permitted for this key: served'],
    ['the key permits no substitute', { model: 'standard', keyModels: ['away/gpt'] }, 'model not permitted for this key: standard'],
    ['the key permits only the requested id', { model: 'away/gpt', keyModels: ['away/gpt'] }, 'model not permitted for this key: away/gpt'],
  ])('returns 400 no_route if %s', (_name, asked, message) => {
    expect(() => plan(asked)).toThrow(expect.objectContaining({ code: 'no_route', status: 400, message }));
  });

  test('lets a project turn catalog fill on if the deployment has turned it off', () => {
    expect(idsOf({ model: 'standard', catalogFill: false, project: { catalogFill: true } })).toEqual(chatModels);
  });
});

describe("a key's allow-list and substitutes", () => {
  test.each<[string, Asked, string[]]>([
    ['by id', { model: 'standard', keyModels: ['openai/gpt'] }, ['openai/gpt']],
    ['by bare name', { model: 'away/gpt', keyModels: ['gpt'] }, ['openai/gpt', 'azure/gpt']],
    ['by their tier', { model: 'standard', keyModels: ['standard'] }, chatModels],
    ['by auto', { model: 'auto', keyModels: ['auto'] }, chatModels],
  ])('lets a key permit substitutes %s', (_name, asked, ids) => {
    expect(idsOf(asked)).toEqual(ids);
  });
});

test('puts retired substitutes last', () => {
  expect(idsOf({ model: 'standard', project: { retired: ['openai/mini'] } })).toEqual([
    'anthropic/claude',
    'azure/gpt',
    'openai/gpt',
    'openai/secret',
    'openai/mini',
  ]);
});

test('records the substitutes and why models were skipped', () => {
  expect(plan({ model: 'unheard', keyModels: ['gpt'] }).entries).toEqual([
    { model: 'azure/gpt', skipped: null, filled: true },
    { model: 'openai/gpt', skipped: null, filled: true },
    { model: 'nobody/x', skipped: 'unknown_provider' },
    { model: 'y', skipped: 'unknown_provider' },
    { model: 'openai/mini', skipped: 'not_permitted_for_key', filled: true },
    { model: 'anthropic/claude', skipped: 'not_permitted_for_key', filled: true },
    { model: 'openai/secret', skipped: 'not_permitted_for_key', filled: true },
  ]);
});
