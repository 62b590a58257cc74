import { expect, test } from '@jest/globals';
import { buildCatalog } from '../../src/routing/catalog.ts';
import { findModelStates, findUnknownNames, findUnusableNames } from '../../src/routing/key-models.ts';
import { project as bareProject, source } from './plans.ts';

const catalog = buildCatalog({ ...source, imageTiers: { artful: ['openai/image'] } });
const project = {
  ...bareProject,
  tiers: { ours: ['openai/gpt'] },
  speechTiers: { spoken: ['openai/tts'] },
  applications: new Map([['shop', { tiers: { checkout: ['openai/gpt'] } }]]),
};
const view = { catalog, project };

test.each([
  ...['auto', 'standard', 'embed', 'strong', 'artful', 'ours', 'spoken', 'checkout'],
  ...['openai/gpt', 'mini', 'meta/llama', 'google/veo', 'openai/too-new-for-the-catalog'],
])('accepts an allow-list with %s', (name) => {
  expect(findUnknownNames(view, [name])).toEqual([]);
});

test.each([
  ['standrad', '"standrad" is neither a tier nor a model (did you mean "standard"?)'],
  ['checkuot', '"checkuot" is neither a tier nor a model (did you mean "checkout"?)'],
  ['opnai/gpt', 'no provider "opnai" is configured for "opnai/gpt" (did you mean "openai/gpt"?)'],
  ['zzzzzzzz', '"zzzzzzzz" is neither a tier nor a model; write models that the catalog does not list as provider/model'],
  ['zzz/zzzzzzzz', 'no provider "zzz" is configured for "zzz/zzzzzzzz"'],
])('rejects %s in an allow-list', (name, message) => {
  expect(findUnknownNames(view, ['auto', name])).toEqual([{ path: 'models.1', message }]);
});

test('suggests similar names only for the first few unknown names', () => {
  const issues = findUnknownNames(
    view,
    Array.from({ length: 1_000 }, (_, index) => `standard-${index}`),
  );
  expect(issues).toHaveLength(1_000);
  expect(issues.filter(({ message }) => message.includes('did you mean'))).toHaveLength(10);
});

test("distinguishes models that aren't in the catalog from unknown names", () => {
  expect([...findModelStates(view, ['auto', 'openai/new', 'standrad']).values()]).toEqual(['known', 'uncatalogued', 'unknown']);
});

test('reports the position of each unknown name in an allow-list, and repeated names only once', () => {
  const issues = findUnknownNames(view, ['old', 'auto', 'standrad', 'auto', 'standrad', 'strnog'], ['old']);
  expect(issues.map(({ path }) => path)).toEqual(['models.2', 'models.5']);
});

test('reports models of providers that the project may not use', () => {
  const limited = { catalog, project: { ...project, providers: ['openai'] } };
  const names = ['strong', 'openai/gpt', 'openai/new', 'mini', 'anthropic/claude', 'claude-2', 'meta/llama', 'anthropic/new', 'zzz/x'];
  expect(Object.fromEntries(findModelStates(limited, names))).toEqual({
    ...{ strong: 'known', 'openai/gpt': 'known', 'openai/new': 'uncatalogued', mini: 'known', 'claude-2': 'unknown', 'zzz/x': 'unknown' },
    ...{ 'anthropic/claude': 'not_allowed', 'meta/llama': 'not_allowed', 'anthropic/new': 'not_allowed' },
  });
  expect(findUnusableNames(limited, names).map(({ path, message }) => `${path}: ${message}`)).toEqual([
    'models.4: the project may not use the provider "anthropic", which "anthropic/claude" needs',
    expect.stringContaining('models.5: "claude-2" is neither a tier nor a model'),
    'models.6: the project may not use any provider that serves "meta/llama"',
    'models.7: the project may not use the provider "anthropic", which "anthropic/new" needs',
    expect.stringContaining('models.8: no provider "zzz" is configured'),
  ]);
  expect(findUnknownNames(limited, names).map(({ path }) => path)).toEqual(['models.5', 'models.8']);
});

test('reports every name if the project may not use any provider', () => {
  const names = ['auto', 'strong', 'openai/gpt', 'openai/new'];
  expect(findUnusableNames({ catalog, project: { ...project, providers: [] } }, names)).toEqual(
    names.map((name, index) => ({
      path: `models.${index}`,
      message: `no call can use "${name}", because the project may not use any provider`,
    })),
  );
});
