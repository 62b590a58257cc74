import { describe, expect, test } from '@jest/globals';
import { parseStoredSettings, toProjectSettings } from '../../src/projects/project-settings.ts';
import { buildCatalog } from '../../src/routing/catalog.ts';
import { checkApplicationChange, checkProjectChange } from '../../src/routing/check-change.ts';
import { checkModel, listUsableModels } from '../../src/routing/check-models.ts';

const row = { price: null, maxOutputTokens: null };
const catalog = buildCatalog({
  providers: {
    openai: { dialect: 'chat', serves: ['chat', 'responses', 'embeddings'], tags: ['us'] },
    mistral: { dialect: 'chat', serves: ['chat'], tags: ['eu'] },
    art: { dialect: 'chat', serves: ['images'] },
  },
  models: {
    'openai/gpt-5': row,
    'openai/gpt-5-mini': row,
    'openai/embed': { ...row, kind: 'embeddings' },
    'mistral/meta/llama': row,
    'art/painter': { ...row, kind: 'images' },
  },
  tiers: { standard: ['openai/gpt-5', 'mistral/meta/llama'], embed: ['openai/embed'] },
  imageTiers: { pictures: ['art/painter'] },
});
const settings = (stored: Record<string, unknown>) => toProjectSettings(parseStoredSettings(stored), new Map());
const check = (before: Record<string, unknown>, after: Record<string, unknown>, catalogFill = false) =>
  checkProjectChange({ catalog, catalogFill }, settings(before), settings(after));
const warningsOf = (...states: Parameters<typeof check>) => check(...states).warnings.map(({ message }) => message);

describe('mistakes in the settings of a project', () => {
  test("reports a provider that isn't configured and suggests the right name", () => {
    const tiers = { standard: ['openai/gpt-5', 'opnai/gpt-5'] };
    expect(check({}, { tiers }).mistakes).toEqual([
      { path: 'tiers.standard.1', message: 'no provider named opnai is configured; did you mean openai?' },
    ]);
    expect(check({}, { image_tiers: { pictures: ['arrt/painter'] } }).mistakes).toMatchObject([{ path: 'image_tiers.pictures.0' }]);
    expect(check({}, { providers: ['openai', 'nobody'] }).mistakes).toMatchObject([{ path: 'providers' }]);
    expect(check({}, { retired: ['openai', 'openai/gpt-5', 'opnai', 'opnai/gpt-5'] }).mistakes.map(({ message }) => message)).toEqual([
      'no provider named opnai is configured; did you mean openai?',
      'opnai/gpt-5: no provider named opnai is configured; did you mean openai?',
    ]);
  });

  test('accepts a provider that is no longer configured if the settings already named it', () => {
    const before = { tiers: { old: ['removed/a'] }, retired: ['removed'], providers: ['removed', 'openai'] };
    expect(check(before, { ...before, tiers: { ...before.tiers, fast: ['removed/a', 'openai/gpt-5'] } }).mistakes).toEqual([]);
  });

  test('accepts a model name with a slash', () => {
    expect(check({}, { tiers: { wide: ['meta/llama'] } })).toEqual({ mistakes: [], warnings: [] });
  });
});

describe('warnings about the settings of a project', () => {
  test("suggests a similar model if the provider doesn't have the requested model", () => {
    expect(warningsOf({}, { tiers: { fast: ['openai/gpt-5-mnii'] } })).toEqual([
      'the catalog has no model openai/gpt-5-mnii, so its price and its limits are unknown; did you mean openai/gpt-5-mini?',
    ]);
  });

  test('warns about tiers that the change leaves without a usable model', () => {
    const refused = 'the project could not use any model in the tier embed, so calls to it would be refused';
    expect(warningsOf({}, { providers: ['mistral', 'art'] })).toEqual([refused]);
    expect(warningsOf({}, { required_tags: ['eu'] }, true)).toEqual([
      'the project could not use any model in the tier embed, so calls to it would go to other models in the catalog',
      'the project could not use any model in the tier pictures, so calls to it would go to other models in the catalog',
    ]);
    const before = { providers: ['mistral', 'art'] };
    expect(warningsOf(before, { ...before, tiers: { fast: ['mistral/meta/llama'] } })).toEqual([]);
    expect(warningsOf({}, { tiers: { standard: [] } })).toEqual([
      'the project could not use any model in the tier standard, so calls to it would be refused',
    ]);
    expect(warningsOf({}, { tiers: { constructor: ['art/painter'] } })).toEqual([
      'the project could not use any model in the tier constructor, so calls to it would be refused',
    ]);
  });

  test('warns about a new required tag that no provider has', () => {
    expect(check({}, { required_tags: ['eu', 'eu-2'] }).warnings).toContainEqual({
      path: 'required_tags',
      message: 'no provider has the tag eu-2; did you mean eu?',
    });
    const before = { required_tags: ['retired-tag'] };
    expect(check(before, { ...before, providers: ['openai'] }).warnings.map(({ path }) => path)).not.toContain('required_tags');
  });

  test('warns about a tier that would no longer exist', () => {
    const before = { tiers: { standard: ['openai/gpt-5'], fast: ['openai/gpt-5'] } };
    expect(warningsOf(before, {})).toEqual(['the tier fast would no longer exist, so calls that name it would be refused']);
  });

  test("checks an application's tiers together with the project's tiers", () => {
    const project = settings({ tiers: { own: ['openai/gpt-5'] } });
    const application = { ...settings({}), tiers: { own: [], standard: ['opnai/gpt-5'] } };
    expect(checkApplicationChange({ catalog, catalogFill: false }, project, settings({}), application)).toMatchObject({
      mistakes: [{ path: 'tiers.standard.0' }],
      warnings: [{ path: 'tiers.standard' }, { path: 'tiers.own' }],
    });
  });
});

test("lists the models that a project can use and explains why it can't use the others", () => {
  const scope = { catalog, project: { providers: ['openai', 'art'], requiredTags: ['us'] } };
  expect(listUsableModels(scope, 'tiers')).toEqual(['openai/gpt-5', 'openai/gpt-5-mini', 'openai/embed']);
  expect(listUsableModels({ ...scope, project: { ...scope.project, requiredTags: [] } }, 'image_tiers')).toEqual(['art/painter']);
  expect(checkModel(scope, 'tiers', 'openai/other')).toEqual({ reason: null, lacks: [], isListed: false });
  expect(checkModel(scope, 'tiers', 'mistral/meta/llama').reason).toBe('provider_not_in_project');
  expect(checkModel(scope, 'tiers', 'nobody/a').reason).toBe('unknown_provider');
  expect(checkModel(scope, 'tiers', 'art/painter').reason).toBe('route_not_served');
  expect(checkModel(scope, 'image_tiers', 'art/painter')).toMatchObject({ reason: 'tags_missing', lacks: ['us'] });
});
