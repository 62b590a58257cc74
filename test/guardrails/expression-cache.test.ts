import { expect, test } from '@jest/globals';
import { createExpressionCache } from '../../src/guardrails/expression-cache.ts';
import { createRandom } from '../support/random.ts';

const random = createRandom(34);
/** Each character needs a new state of the automaton of an expression that counts far. */
const text = Array.from({ length: 2_000 }, () => random.pick(['a', 'b'])).join('');

test('compiled expressions are kept within the bytes of their automata', () => {
  const cache = createExpressionCache(2 * 1024 * 1024);
  const sizes: number[] = [];
  for (let count = 0; count < 12; count += 1) {
    expect(cache.test(`[ab]*a[ab]{${250 + count}}[^ab]`, text)).toBe(false);
    sizes.push(cache.bytes());
  }
  expect(Math.max(...sizes)).toBeLessThanOrEqual(2 * 1024 * 1024);
  // The automata are what takes the memory: no more than a few of them are kept.
  expect(sizes[2]).toBeGreaterThan(1024 * 1024);
});

test('the automaton of one expression is bounded, and the expression matches without it', () => {
  const cache = createExpressionCache(64 * 1024 * 1024);
  expect(cache.test('[ab]*a[ab]{300}[^ab]', text.repeat(5))).toBe(false);
  expect(cache.bytes()).toBeLessThan(700 * 1024);
  expect(cache.test('[ab]*a[ab]{300}[^ab]', `${text.repeat(2)}a${'b'.repeat(300)}!`)).toBe(true);
});
