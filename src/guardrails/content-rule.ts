/** The content rules of a project as they are written, stored and sent (shapes 19). */
import { RE2JS } from 're2js';
import { z } from 'zod';
import { errorMessage, formatIssues } from '../core/error-messages.ts';
import { gatewayError } from '../core/errors.ts';

export const ruleClasses = ['credential', 'card_number', 'email', 'phone', 'iban', 'expression'] as const;
export type RuleClass = (typeof ruleClasses)[number];

export type RulePlace = 'input' | 'output';

export interface ContentRule {
  readonly class: RuleClass;
  readonly place: RulePlace;
  readonly action: 'block' | 'observe';
  /** Of the class `expression` alone, in the syntax of RE2. */
  readonly expression?: string;
}

const maxRules = 50;
const maxExpressionLength = 500;
/** Instructions of the compiled expression: the engine takes a step for each of them and each character at worst. */
const maxProgramSize = 2_000;

const rule = z
  .strictObject({
    class: z.enum(ruleClasses),
    place: z.enum(['input', 'output']),
    action: z.enum(['block', 'observe']),
    expression: z.string().min(1).max(maxExpressionLength).exactOptional(),
  })
  .superRefine((given, context) => {
    const refuse = (message: string): void => context.addIssue({ code: 'custom', path: ['expression'], message });
    if (given.class !== 'expression') {
      if (given.expression !== undefined) refuse('is only for the class expression');
    } else if (given.expression === undefined) refuse('is required for the class expression');
    else {
      const problem = findProblem(given.expression);
      if (problem !== null) refuse(problem);
    }
  });

const rules = z.array(rule).max(maxRules);
const body = z.strictObject({ rules });

/** Reads the body of `PUT /provision/teams/{project}/rules`; throws `bad_request` naming all that is wrong. */
export function parseRulesInput(input: unknown): readonly ContentRule[] {
  const parsed = body.safeParse(input);
  if (!parsed.success) throw gatewayError('bad_request', { message: formatIssues(parsed.error).join('; ') });
  return parsed.data.rules;
}

/** Rules of a row, which were checked when they were written. */
export function parseStoredRules(row: unknown): readonly ContentRule[] {
  return rules.parse(row);
}

function findProblem(expression: string): string | null {
  try {
    const compiled = RE2JS.compile(expression);
    if (compiled.programSize() > maxProgramSize) return 'is too large when its repetitions are written out';
    return compiled.test('') ? 'matches the empty text, and so everything' : null;
  } catch (error) {
    return `is no regular expression of RE2: ${errorMessage(error)}`;
  }
}
