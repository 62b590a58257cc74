/** Parses a project's content rules, in the format of the database and of the provisioning routes. */
import { hash } from 'node:crypto';
import { RE2JS } from 're2js';
import { z } from 'zod';
import { errorMessage } from '../core/error-messages.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';

export const ruleClasses = ['credential', 'card_number', 'email', 'phone', 'iban', 'expression'] as const;
export type RuleClass = (typeof ruleClasses)[number];

export type RulePlace = 'input' | 'output';

export interface ContentRule {
  readonly class: RuleClass;
  readonly place: RulePlace;
  readonly action: 'block' | 'observe';
  /** An RE2 expression, which only rules of the class `expression` have. */
  readonly expression?: string;
}

/**
 * The id of a rule depends on what it looks for, but not on its action. That way, the rule keeps its hits if somebody
 * switches it from observe to block.
 */
export function ruleIdOf({ class: ruleClass, place, expression = '' }: ContentRule): string {
  return hash('sha256', JSON.stringify([ruleClass, place, expression])).slice(0, 16);
}

export const maxRules = 50;
const maxExpressionLength = 500;
/**
 * The maximum number of instructions in a compiled expression. We measured up to 20 ns per instruction and character.
 * At this limit that's 20 µs per character, or 60 ms for a piece of 3 KiB.
 */
const maxProgramSize = 1_000;

const storedRule = z.strictObject({
  class: z.enum(ruleClasses),
  place: z.enum(['input', 'output']),
  action: z.enum(['block', 'observe']),
  expression: z.string().min(1).max(maxExpressionLength).exactOptional(),
});
const rule = storedRule.superRefine((input, context) => {
  const reject = (message: string): void => context.addIssue({ code: 'custom', path: ['expression'], message });
  if (input.class !== 'expression') {
    if (input.expression !== undefined) reject('is only allowed if class is expression');
  } else if (input.expression === undefined) reject('is required if class is expression');
  else {
    const problem = findProblem(input.expression);
    if (problem !== null) reject(problem);
  }
});

const storedRules = z.array(storedRule);
const body = z.strictObject({ rules: z.array(rule).max(maxRules) });

/** Parses the body of `PUT /provision/teams/{project}/rules`. Throws `bad_request` with a list of all mistakes. */
export function parseRulesInput(input: unknown): readonly ContentRule[] {
  return parseOrBadRequest(body, input).rules;
}

/** Parses a content rule. Throws `bad_request` with a list of all mistakes. */
export function parseRuleInput(input: unknown): ContentRule {
  return parseOrBadRequest(rule, input);
}

/** Don't validate stored rules again, because earlier versions accepted larger expressions. */
export function parseStoredRules(row: unknown): readonly ContentRule[] {
  return storedRules.parse(row);
}

function findProblem(expression: string): string | null {
  try {
    const compiled = RE2JS.compile(expression);
    const size = compiled.programSize();
    if (size > maxProgramSize)
      return `is too complex: it compiles to ${size} instructions, but at most ${maxProgramSize} are allowed; use fewer or shorter repetitions`;
    return compiled.test('') ? 'matches the empty string, so it would match every text' : null;
  } catch (error) {
    return `is not a valid RE2 expression: ${errorMessage(error)}`;
  }
}
