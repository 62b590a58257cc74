/**
 * Decides what happens to each field of a translated request, using a table of rules (`member-rules.ts`). No field
 * disappears silently. It's either translated, or reported as dropped or adjusted, or makes the whole request
 * untranslatable.
 */

import type { ErrorDetails } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from '../json/lossless-json.ts';

/** The paths of all fields that were changed, without list positions, e.g. `tools.cache_control`. */
export interface RequestChanges {
  readonly dropped: Set<string>;
  /** Fields for which the vendor receives the closest value that it accepts. */
  readonly adjusted: Set<string>;
}

export function createChanges(): RequestChanges {
  return { dropped: new Set(), adjusted: new Set() };
}

/** We pass this to a rule's condition, together with the value of the field. */
interface RuleContext<Target> {
  readonly parent: JsonObject;
  readonly request: JsonObject;
  readonly target: Target;
}

type Condition<Target> = (value: unknown, context: RuleContext<Target>) => boolean;

export type MemberRule<Target> =
  | { readonly kind: 'translated' }
  /**
   * The field is dropped, adjusted or refused if `applies` returns true for its value. Otherwise, the rule in
   * `otherwise` applies.
   */
  | {
      readonly kind: 'dropped' | 'adjusted' | 'refused';
      readonly applies: Condition<Target>;
      readonly otherwise: MemberRule<Target>;
      readonly reason: string;
      readonly details?: ErrorDetails;
    }
  | { readonly kind: 'object'; readonly members: MemberRules<Target> }
  /**
   * Applies the same rule to each object of a list. We skip everything that isn't an object, because the translators
   * reject what they don't know.
   */
  | { readonly kind: 'list'; readonly item: MemberRule<Target> }
  /**
   * An object whose fields depend on its `type`. If a type has no rules, we leave it to the translators, which reject
   * it.
   */
  | { readonly kind: 'union'; readonly types: Readonly<Record<string, MemberRules<Target>>>; readonly defaultType: string };

/** Fields without a rule are dropped. */
export type MemberRules<Target> = Readonly<Record<string, MemberRule<Target>>>;

/**
 * Records every field that's dropped or adjusted in `changes`. Throws UntranslatableError if a field has to be refused.
 */
export function applyRules<Target>(request: JsonObject, rules: MemberRules<Target>, target: Target, changes: RequestChanges): void {
  applyToMembers(rules, { parent: request, request, target }, changes, '');
}

function applyToMembers<Target>(rules: MemberRules<Target>, context: RuleContext<Target>, changes: RequestChanges, prefix: string): void {
  for (const [name, value] of Object.entries(context.parent)) {
    if (value === undefined || value === null) continue;
    const path = `${prefix}${name}`;
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (rule === undefined) changes.dropped.add(path);
    else applyRule(value, rule, context, changes, path);
  }
}

function applyRule<Target>(
  value: unknown,
  rule: MemberRule<Target>,
  context: RuleContext<Target>,
  changes: RequestChanges,
  path: string,
): void {
  switch (rule.kind) {
    case 'translated':
      return;
    case 'dropped':
    case 'adjusted':
    case 'refused':
      if (!rule.applies(value, context)) applyRule(value, rule.otherwise, context, changes, path);
      else if (rule.kind === 'refused') rejectUntranslatable(rule.reason, { param: path, details: rule.details });
      else changes[rule.kind].add(path);
      return;
    case 'object':
      if (isLosslessObject(value)) applyToMembers(rule.members, { ...context, parent: value }, changes, `${path}.`);
      else changes.dropped.add(path);
      return;
    case 'list':
      if (!Array.isArray(value)) return;
      for (const item of value) if (isLosslessObject(item)) applyRule(item, rule.item, context, changes, path);
      return;
    case 'union': {
      if (!isLosslessObject(value)) return;
      const type = typeof value.type === 'string' ? value.type : rule.defaultType;
      const members = Object.hasOwn(rule.types, type) ? rule.types[type] : undefined;
      if (members) applyToMembers(members, { ...context, parent: value }, changes, `${path}.`);
    }
  }
}

const always = (): boolean => true;

/** Returns functions for writing tables of rules. `Target` describes the model that requests are translated for. */
export function createRuleBuilders<Target>() {
  const translated: MemberRule<Target> = { kind: 'translated' };
  return {
    translated,
    dropped: (applies: Condition<Target> = always, otherwise: MemberRule<Target> = translated): MemberRule<Target> => ({
      ...{ kind: 'dropped', applies, otherwise, reason: '' },
    }),
    adjusted: (applies: Condition<Target>, otherwise: MemberRule<Target> = translated): MemberRule<Target> => ({
      ...{ kind: 'adjusted', applies, otherwise, reason: '' },
    }),
    refused: (
      reason: string,
      applies: Condition<Target> = always,
      otherwise: MemberRule<Target> = translated,
      details?: ErrorDetails,
    ): MemberRule<Target> => ({
      ...{ kind: 'refused', applies, otherwise, reason },
      ...(details && { details }),
    }),
    object: (members: MemberRules<Target>): MemberRule<Target> => ({ kind: 'object', members }),
    list: (item: MemberRule<Target>): MemberRule<Target> => ({ kind: 'list', item }),
    union: (types: Readonly<Record<string, MemberRules<Target>>>, defaultType = ''): MemberRule<Target> => ({
      ...{ kind: 'union', types, defaultType },
    }),
  };
}
