import { expect, test } from '@jest/globals';
import { buildCatalog } from '../../src/routing/catalog.ts';
import { findModelStates, findUnknownNames } from '../../src/routing/key-models.ts';
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
])('accepts %s', (name) => {
  expect(findUnknownNames(view, [name])).toEqual([]);
});

test.each([
  ['standrad', '"standrad" is neither a tier nor a model (did you mean "standard"?)'],
  ['checkuot', '"checkuot" is neither a tier nor a model (did you mean "checkout"?)'],
  ['opnai/gpt', 'no provider "opnai" is configured for "opnai/gpt" (did you mean "openai/gpt"?)'],
  ['zzzzzzzz', '"zzzzzzzz" is neither a tier nor a model; write models that the catalog does not list as provider/model'],
  ['zzz/zzzzzzzz', 'no provider "zzz" is configured for "zzz/zzzzzzzz"'],
])('rejects %s', (name, message) => {
  expect(findUnknownNames(view, ['auto', name])).toEqual([{ path: 'models', message }]);
});

test('suggests names only for the first few unknown names', () => {
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
