/**
 * Decides what happens to each field of a translated request, using a table of rules (`member-rules.ts`). No field
 * disappears silently. We either translate it, report it as dropped or adjusted, or refuse the whole request as
 * untranslatable.
 */

import type { ErrorDetails } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from '../json/lossless-json.ts';

/** The paths of all fields that we've changed, without list positions, e.g. `tools.cache_control`. */
export interface RequestChanges {
  /** The vendor doesn't receive these. */
  readonly dropped: Set<string>;
  /** For these, the vendor receives the closest value that it accepts. */
  readonly adjusted: Set<string>;
}

export function createChanges(): RequestChanges {
  return { dropped: new Set(), adjusted: new Set() };
}

/** A condition can depend on more than the value of the field. */
interface RuleContext<Target> {
  /** The object that the field is in. */
  readonly parent: JsonObject;
  readonly request: JsonObject;
  readonly target: Target;
}

type Condition<Target> = (value: unknown, context: RuleContext<Target>) => boolean;

export type MemberRule<Target> =
  /** We let the translators handle the field. */
  | { readonly kind: 'translated' }
  /**
   * If `applies` returns true for the value, we drop, adjust or refuse the field. If not, the rule in `otherwise`
   * applies.
   */
  | {
      readonly kind: 'dropped' | 'adjusted' | 'refused';
      readonly applies: Condition<Target>;
      readonly otherwise: MemberRule<Target>;
      /** Tells the caller why we refuse the request. */
      readonly reason: string;
      readonly details?: ErrorDetails;
    }
  | { readonly kind: 'object'; readonly members: MemberRules<Target> }
  /**
   * A list of objects that all have the same rule. We leave anything else to the translators, which reject what they
   * don't know.
   */
  | { readonly kind: 'list'; readonly item: MemberRule<Target> }
  /**
   * An object whose fields depend on its `type`. If there are no rules for a type, we leave it to the translators,
   * which reject it.
   */
  | { readonly kind: 'union'; readonly types: Readonly<Record<string, MemberRules<Target>>>; readonly defaultType: string };

/** Fields without a rule are dropped. */
export type MemberRules<Target> = Readonly<Record<string, MemberRule<Target>>>;

/** Records every field that we drop or adjust in `changes`. Throws UntranslatableError if we have to refuse a field. */
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

/** Returns functions for writing tables of rules. `Target` describes the model that we translate requests for. */
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
