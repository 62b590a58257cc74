import { expect, test } from '@jest/globals';
import { evaluateRules } from '../../../src/console/rules/rule-test.ts';
import type { ContentRule } from '../../../src/guardrails/content-rule.ts';

const rules = ['a', 'b', 'c'].map((expression): ContentRule => ({ place: 'input', action: 'block', class: 'expression', expression }));
const matches = async (budgetMs?: number) => (await evaluateRules('project', rules, 'a c', budgetMs)).map(({ isMatch }) => isMatch);

test('every rule is tested alone', async () => {
  expect(await matches()).toEqual([true, false, true]);
});

test('expressions that take too long do not keep the process from other requests', async () => {
  let served = false;
  setImmediate(() => {
    served = true;
  });
  expect(await matches(0)).toEqual([true, null, null]);
  expect(served).toBe(true);
});
