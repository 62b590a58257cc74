/**
 * Reads and replaces a project's content rules, which are loaded together with the project. A change makes every
 * process drop the project from its cache.
 */
import { gatewayError } from '../core/errors.ts';
import type { Clock } from '../core/time.ts';
import { type ContentRule, maxRules, parseRuleInput, parseRulesInput, parseStoredRules, ruleIdOf } from '../guardrails/content-rule.ts';
import { type ChangeProjectOptions, changeProject } from './change-project.ts';
import { assertNotModified, type ReadSettings } from './optimistic-lock.ts';

export type ContentRules = ReturnType<typeof createContentRules>;

export function createContentRules(options: ChangeProjectOptions & { readonly clock: Clock }) {
  const { database, clock } = options;
  const update = <Result>(
    projectId: string,
    change: (current: readonly ContentRule[]) => { readonly rules: readonly ContentRule[]; readonly result: Result },
  ): Promise<Result> =>
    changeProject(options, projectId, async (tx) => {
      const [row] = await tx.query<{ rules: unknown }>('select rules from projects where id = $1::uuid for update', [projectId]);
      const changed = change(parseStoredRules(row?.rules ?? []));
      await tx.query('update projects set rules = $2::jsonb, updated_at = $3::timestamptz where id = $1::uuid', [
        projectId,
        JSON.stringify(changed.rules),
        new Date(clock.now()),
      ]);
      return changed.result;
    });

  return {
    async find(projectId: string): Promise<readonly ContentRule[]> {
      const [row] = await database.query<{ rules: unknown }>('select rules from projects where id = $1::uuid', [projectId]);
      return parseStoredRules(row?.rules ?? []);
    },
    /** Replaces all rules. If any of them are invalid, throws a `bad_request` that lists all problems. */
    async put(projectId: string, input: unknown): Promise<readonly ContentRule[]> {
      const rules = parseRulesInput(input);
      return update(projectId, () => ({ rules, result: rules }));
    },
    /**
     * Adds a rule at `position`, or at the end. Throws `bad_request`, or `conflict` if another rule already looks for
     * the same text in the same place.
     */
    async add(projectId: string, input: unknown, position?: number): Promise<ContentRule> {
      const rule = parseRuleInput(input);
      return update(projectId, (current) => {
        if (current.length >= maxRules)
          throw gatewayError('bad_request', { message: `a project can have at most ${maxRules} rules; remove one first` });
        assertOnly(rule, current);
        const at = position !== undefined && Number.isInteger(position) && position >= 0 ? position : current.length;
        return { rules: current.toSpliced(at, 0, rule), result: rule };
      });
    },
    /**
     * Changes fields of the rule with this id (`ruleIdOf`). Null removes the expression. Throws the same errors as
     * `add`, `not_found` if there's no such rule, and `conflict` if it no longer has the values in `read`.
     */
    change: (projectId: string, ruleId: string, change: object, read: ReadSettings) =>
      update(projectId, (current) => {
        const { rule: before, position } = findRule(current, ruleId);
        assertNotModified({ expression: null, ...before }, read);
        const members = Object.entries({ ...before, ...change }).filter(([, value]) => value !== null);
        const after = parseRuleInput(Object.fromEntries(members));
        assertOnly(after, current.toSpliced(position, 1));
        return { rules: current.with(position, after), result: { before, after } };
      }),
    /** Throws `not_found` if the project has no rule with this id. */
    remove: (projectId: string, ruleId: string) =>
      update(projectId, (current) => {
        const found = findRule(current, ruleId);
        return { rules: current.toSpliced(found.position, 1), result: found };
      }),
  };
}

function findRule(rules: readonly ContentRule[], ruleId: string): { readonly rule: ContentRule; readonly position: number } {
  const position = rules.findIndex((rule) => ruleIdOf(rule) === ruleId);
  const rule = rules[position];
  if (!rule) throw gatewayError('not_found', { message: 'no such rule' });
  return { rule, position };
}

function assertOnly(rule: ContentRule, others: readonly ContentRule[]): void {
  if (others.some((other) => ruleIdOf(other) === ruleIdOf(rule)))
    throw gatewayError('conflict', {
      message: 'there is already a rule with this class or expression for this place; change that rule instead',
    });
}
