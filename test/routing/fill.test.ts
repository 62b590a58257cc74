import { describe, expect, test } from '@jest/globals';
import type { TokenPrice } from '../../src/core/pricing.ts';
import { buildCatalog, type CatalogSourceRow, type Kind } from '../../src/routing/catalog.ts';
import { type Asked, project as bareProject, idsOf as idsOfPlan, plan as planOf } from './plans.ts';

/** A price whose halves say that both count. */
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

const chatModels = ['openai/mini', 'azure/gpt', 'openai/gpt', 'openai/secret'];

describe('a tier that no provider of the project serves is filled, cheapest first, unknown prices last', () => {
  test.each<[string, Asked, string[]]>([
    ['with models of its kind', { model: 'standard' }, chatModels],
    ['also for auto', { model: 'auto' }, chatModels],
    ['in the dialect of the caller', { model: 'standard', route: 'messages' }, ['anthropic/claude']],
    [
      'in both dialects where they are translated',
      { model: 'standard', translates: true },
      ['openai/mini', 'anthropic/claude', 'azure/gpt', 'openai/gpt', 'openai/secret'],
    ],
    ['with those that serve the route', { model: 'standard', route: 'responses' }, ['openai/mini', 'openai/gpt', 'openai/secret']],
    ['of embeddings', { model: 'embed', route: 'embeddings' }, ['openai/embed-small', 'openai/embed-large']],
    ['of embeddings for auto', { route: 'embeddings' }, ['openai/embed-small', 'openai/embed-large']],
    ['by what a search costs', { route: 'rerank' }, ['openai/rank', 'openai/rank-dear']],
    ['for auto of the kind of the route', { route: 'moderations' }, ['openai/judge']],
    ['of several kinds, with that of the route', { model: 'mixed' }, chatModels],
    ['of models that the catalog does not know, with the kind of the route', { model: 'unheard' }, chatModels],
    ['that is empty, with the kind of the route', { model: 'empty' }, chatModels],
    [
      'of an application',
      { model: 'own', source: 'bot', project: { applications: new Map([['bot', { tiers: { own: ['away/x'] } }]]) } },
      chatModels,
    ],
    ['for auto where nobody wrote down the tier', { catalog: buildCatalog({ ...source, tiers: {} }) }, chatModels],
  ])('%s', (_name, asked, ids) => {
    expect(idsOf(asked)).toEqual(ids);
  });

  test('at most twenty', () => {
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`openai/m${n}`, row('chat', BigInt(n))]));
    const full = buildCatalog({ ...source, models: { ...source.models, ...many } });
    expect(idsOf({ model: 'standard', catalog: full })).toHaveLength(20);
  });
});

describe('a model that no provider of the project serves is filled with its namesakes at others', () => {
  test.each<[string, Asked, string[]]>([
    ['a full id', { model: 'away/gpt' }, ['openai/gpt', 'azure/gpt']],
    ['of a provider that does not exist', { model: 'nobody/mini' }, ['openai/mini']],
    ['that serve the route', { model: 'away/gpt', route: 'responses' }, ['openai/gpt']],
    ['of the kind of the route', { model: 'nobody/embed-small', route: 'embeddings' }, ['openai/embed-small']],
    ['or of none, which counts as chat', { model: 'nobody/mini', route: 'embeddings' }, ['openai/mini']],
  ])('%s', (_name, asked, ids) => {
    expect(idsOf(asked)).toEqual(ids);
  });
});

describe('nothing is filled', () => {
  test('when a provider serves a model of the chain', () => {
    expect(idsOf({ model: 'served' })).toEqual(['openai/gpt']);
    expect(plan({ model: 'served' }).entries).toEqual([
      { model: 'openai/gpt', skipped: null },
      { model: 'away/gpt', skipped: 'provider_not_in_project' },
    ]);
  });

  const none = 'no models available for route';
  test.each<[string, Asked, string]>([
    ['the switch is off', { model: 'standard', catalogFill: false }, none],
    ['the project switched it off', { model: 'standard', project: { catalogFill: false } }, none],
    ['neither tier nor model', { model: 'anything' }, none],
    ['no namesake', { model: 'away/other' }, none],
    ['no namesake that serves the route', { model: 'away/mini', route: 'messages' }, none],
    ['a namesake of another kind than the route', { model: 'nobody/embed-small' }, none],
    ['such a namesake on the other route', { model: 'nobody/rank', route: 'embeddings' }, none],
    ['a tail has no namesakes but its own', { model: 'judge', project: { providers: ['azure'] } }, none],
    ['no model of the kind', { model: 'embed', route: 'embeddings', project: { providers: ['anthropic'] } }, none],
    ['a tier of another kind than the route', { model: 'embed', route: 'chat' }, none],
    ['another such tier', { model: 'standard', route: 'moderations' }, none],
    ['a project without providers', { model: 'standard', project: { providers: [] } }, none],
    ['the key refuses the chain that is served', { model: 'served', keyModels: ['azure/gpt'] }, 'model not permitted for this key: served'],
    ['the key refuses all that stand in', { model: 'standard', keyModels: ['away/gpt'] }, 'model not permitted for this key: standard'],
    ['the key knows the namesake only', { model: 'away/gpt', keyModels: ['away/gpt'] }, 'model not permitted for this key: away/gpt'],
  ])('400 no_route: %s', (_name, asked, message) => {
    expect(() => plan(asked)).toThrow(expect.objectContaining({ code: 'no_route', status: 400, message }));
  });

  test('but a project may switch on what the deployment has off', () => {
    expect(idsOf({ model: 'standard', catalogFill: false, project: { catalogFill: true } })).toEqual(chatModels);
  });
});

describe("the key's allow-list holds for models that stand in", () => {
  test.each<[string, Asked, string[]]>([
    ['by id', { model: 'standard', keyModels: ['openai/gpt'] }, ['openai/gpt']],
    ['by tail', { model: 'away/gpt', keyModels: ['gpt'] }, ['openai/gpt', 'azure/gpt']],
    ['a tier on the list opens what fills it', { model: 'standard', keyModels: ['standard'] }, chatModels],
    ['auto on the list too', { model: 'auto', keyModels: ['auto'] }, chatModels],
  ])('%s', (_name, asked, ids) => {
    expect(idsOf(asked)).toEqual(ids);
  });
});

test('retired models that stand in come last', () => {
  expect(idsOf({ model: 'standard', project: { retired: ['openai/mini'] } })).toEqual([
    'azure/gpt',
    'openai/gpt',
    'openai/secret',
    'openai/mini',
  ]);
});

test('the recorded lines tell what stands in, what was refused, and why the chain is not there', () => {
  expect(plan({ model: 'unheard', keyModels: ['gpt'] }).entries).toEqual([
    { model: 'azure/gpt', skipped: null, filled: true },
    { model: 'openai/gpt', skipped: null, filled: true },
    { model: 'nobody/x', skipped: 'unknown_provider' },
    { model: 'y', skipped: 'unknown_provider' },
    { model: 'openai/mini', skipped: 'not_permitted_for_key', filled: true },
    { model: 'openai/secret', skipped: 'not_permitted_for_key', filled: true },
  ]);
});
