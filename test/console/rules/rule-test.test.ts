import { expect, test } from '@jest/globals';
import { evaluateRules } from '../../../src/console/rules/rule-test.ts';
import type { ContentRule } from '../../../src/guardrails/content-rule.ts';

const rules = ['a', 'b', 'c'].map((expression): ContentRule => ({ place: 'input', action: 'block', class: 'expression', expression }));
const matches = async (budgetMs?: number) => (await evaluateRules('project', rules, 'a c', budgetMs)).map(({ isMatch }) => isMatch);

test('tests each content rule separately', async () => {
  expect(await matches()).toEqual([true, false, true]);
});

test("doesn't block other requests while it evaluates slow regular expressions", async () => {
  let served = false;
  setImmediate(() => {
    served = true;
  });
  expect(await matches(0)).toEqual([true, null, null]);
  expect(served).toBe(true);
});
