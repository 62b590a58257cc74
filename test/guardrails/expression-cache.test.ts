import { expect, test } from '@jest/globals';
import { createExpressionCache } from '../../src/guardrails/expression-cache.ts';
import { createRandom } from '../support/random.ts';

const random = createRandom(34);
/** For an expression with a large repeat count, RE2 adds an automaton state for every character of this text. */
const text = Array.from({ length: 2_000 }, () => random.pick(['a', 'b'])).join('');

test('limits the total size of cached regular expressions', () => {
  const cache = createExpressionCache(2 * 1024 * 1024);
  const sizes: number[] = [];
  for (let count = 0; count < 12; count += 1) {
    expect(cache.test(`[ab]*a[ab]{${250 + count}}[^ab]`, text)).toBe(false);
    sizes.push(cache.bytes());
  }
  expect(Math.max(...sizes)).toBeLessThanOrEqual(2 * 1024 * 1024);
  // Three automata already fill more than half of the cache, so it can hold only a few of them.
  expect(sizes[2]).toBeGreaterThan(1024 * 1024);
});

test('still evaluates a regular expression that is too large to cache', () => {
  const cache = createExpressionCache(64 * 1024 * 1024);
  expect(cache.test('[ab]*a[ab]{300}[^ab]', text.repeat(5))).toBe(false);
  expect(cache.bytes()).toBeLessThan(700 * 1024);
  expect(cache.test('[ab]*a[ab]{300}[^ab]', `${text.repeat(2)}a${'b'.repeat(300)}!`)).toBe(true);
});
