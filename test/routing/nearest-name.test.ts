import { expect, test } from '@jest/globals';
import { findNearestName } from '../../src/routing/nearest-name.ts';

const names = [
  'standard',
  'openai/gpt-4o',
  'openai/gpt-4o-mini',
  'anthropic/claude-sonnet-4-5',
  'anthropic/claude-haiku-4-5-20251001',
  'router/meta-llama/llama-3.3-70b',
];
const all = () => true;

test.each([
  ['gpt-4o-mni', 'openai/gpt-4o-mini'],
  ['GPT-4o', 'openai/gpt-4o'],
  ['antropic/claude-sonnet-4-5', 'anthropic/claude-sonnet-4-5'],
  ['claude-haiku-4-5', 'anthropic/claude-haiku-4-5-20251001'],
  ['claude-haiku-4-5-latest', 'anthropic/claude-haiku-4-5-20251001'],
  ['claude-3-5-sonnet-latest', 'anthropic/claude-sonnet-4-5'],
  ['router/gpt-4o-min', 'openai/gpt-4o-mini'],
  ['standart', 'standard'],
  ['meta-llama/llama-3.3', 'router/meta-llama/llama-3.3-70b'],
  ['nobody/x', null],
  ['nosuch', null],
  ['', null],
  ['gpt-4o'.repeat(11), null],
])('suggests that %s might mean %s', (asked, nearest) => {
  expect(findNearestName(asked, names, all)).toBe(nearest);
});

test("never suggests a name that isn't allowed", () => {
  expect(findNearestName('gpt-4o-mini', names, (name) => name !== 'openai/gpt-4o-mini')).toBe('openai/gpt-4o');
  expect(findNearestName('gpt-4o', names, () => false)).toBeNull();
});
