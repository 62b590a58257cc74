import { describe, expect, test } from '@jest/globals';
import { buildCatalog } from '../../src/routing/catalog.ts';
import { listChatModels, listModels } from '../../src/routing/list-models.ts';
import type { ProjectRouting } from '../../src/routing/rules.ts';
import { callerWith, project } from './plans.ts';

const known = { price: null, maxOutputTokens: null };
const catalog = buildCatalog({
  providers: {
    openai: { dialect: 'chat', serves: ['chat', 'embeddings', 'images'] },
    anthropic: { dialect: 'messages', serves: ['messages'] },
  },
  models: {
    'openai/gpt': known,
    'openai/embed': { ...known, kind: 'embeddings' },
    'openai/rank': { ...known, kind: 'rerank' },
    'openai/picture': { ...known, kind: 'images' },
    'anthropic/claude': known,
    'gone/gpt': known,
  },
  tiers: { standard: ['openai/gpt'], fine: ['anthropic/claude'], embed: ['openai/embed'], gone: ['gone/gpt'], empty: [] },
});

interface Asked {
  readonly keyModels?: readonly string[];
  readonly project?: Partial<ProjectRouting>;
  readonly source?: string;
  readonly catalogFill?: boolean;
}

const list = (asked: Asked = {}) =>
  listModels({
    catalog,
    project: { ...project, ...asked.project },
    source: asked.source ?? 'acme',
    caller: callerWith(asked.keyModels ?? null),
    catalogFill: asked.catalogFill ?? false,
    startedAt: 1_715_367_049_999,
  });
const idsOf = (asked: Asked): string[] => list(asked).map(({ id }) => id);

const models = ['openai/gpt', 'openai/embed', 'openai/picture', 'anthropic/claude'];

test('lists models with the fields that SDKs require', () => {
  expect(list()[0]).toEqual({ id: 'openai/gpt', object: 'model', created: 1_715_367_049, owned_by: 'openai' });
  expect(list().at(-1)).toEqual({ id: 'auto', object: 'model', created: 1_715_367_049, owned_by: 'gateway' });
});

describe('the list of models', () => {
  const applications = new Map([['bot', { tiers: { mine: ['openai/gpt'] } }]]);

  test.each<[string, Asked, string[]]>([
    ['served models, then tiers with an available model, then auto', {}, [...models, 'standard', 'fine', 'embed', 'auto']],
    ['models of the providers of the project', { project: { providers: ['anthropic'] } }, ['anthropic/claude', 'fine']],
    ['nothing if every provider lacks a required tag', { project: { requiredTags: ['eu'] } }, []],
    ['nothing for a project without providers', { project: { providers: [] } }, []],
    ["a project's tiers", { project: { tiers: { mine: ['openai/gpt'], standard: [] } } }, [...models, 'fine', 'embed', 'mine', 'auto']],
    ["an application's tiers", { source: 'bot', project: { applications } }, [...models, 'standard', 'fine', 'embed', 'mine', 'auto']],
    ['no tiers of another application', { project: { applications } }, [...models, 'standard', 'fine', 'embed', 'auto']],
    ['retired models, which can still be called', { project: { retired: ['openai'] } }, [...models, 'standard', 'fine', 'embed', 'auto']],
    ['tiers that catalog fill would serve', { catalogFill: true }, [...models, 'standard', 'fine', 'embed', 'gone', 'empty', 'auto']],
    ['permitted models, and tiers with one of them', { keyModels: ['openai/gpt'] }, ['openai/gpt', 'standard', 'auto']],
    ['models permitted by bare name', { keyModels: ['claude'] }, ['anthropic/claude', 'fine']],
    ['only the tier, for a key that permits the tier', { keyModels: ['fine'] }, ['fine']],
    ['auto for a key that permits its default tier', { keyModels: ['standard'] }, ['standard', 'auto']],
    ['auto for embeddings too', { keyModels: ['openai/embed'] }, ['openai/embed', 'embed', 'auto']],
    ['auto alone', { keyModels: ['auto'] }, ['auto']],
    ['nothing for a key without permitted models', { keyModels: [] }, []],
  ])('lists %s', (_name, asked, ids) => {
    expect(idsOf(asked)).toEqual(ids);
  });
});

test('lists only chat models and their tiers for the playground', () => {
  const request = { catalog, project, source: 'acme', caller: callerWith(null), catalogFill: false };
  expect(listChatModels(request)).toEqual({ tiers: ['standard', 'fine', 'auto'], models: ['openai/gpt', 'anthropic/claude'] });
});
