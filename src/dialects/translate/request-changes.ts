/**
 * Decides what becomes of each member of a request that is translated, by a table of rules (`member-rules.ts`), so that none of them
 * disappears silently: a member is translated, dropped or adjusted under its name, or it makes the request untranslatable.
 */

import type { ErrorDetails } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { isLosslessObject } from '../json/lossless-json.ts';

/** Paths of members without positions, such as `tools.cache_control`. */
export interface RequestChanges {
  /** The vendor does not get them. */
  readonly dropped: Set<string>;
  /** The vendor gets the nearest value that it accepts. */
  readonly adjusted: Set<string>;
}

export function createChanges(): RequestChanges {
  return { dropped: new Set(), adjusted: new Set() };
}

/** What a rule may look at besides the value. */
interface RuleContext<Target> {
  /** The object that has the member. */
  readonly parent: JsonObject;
  /** The whole request. */
  readonly request: JsonObject;
  readonly target: Target;
}

type Condition<Target> = (value: unknown, context: RuleContext<Target>) => boolean;

export type MemberRule<Target> =
  /** The translators read it. */
  | { readonly kind: 'translated' }
  /** Dropped, adjusted or refused where `applies` is true for the value. */
  | {
      readonly kind: 'dropped' | 'adjusted' | 'refused';
      readonly applies: Condition<Target>;
      readonly otherwise: MemberRule<Target>;
      /** Of a refusal. */
      readonly reason: string;
      readonly details?: ErrorDetails;
    }
  | { readonly kind: 'object'; readonly members: MemberRules<Target> }
  /** A list of objects. Anything else in it, or in its place, is for the translators, which refuse what they don't know. */
  | { readonly kind: 'list'; readonly item: MemberRule<Target> }
  /** An object whose `type` says which members it has. Translators refuse types without rules. */
  | { readonly kind: 'union'; readonly types: Readonly<Record<string, MemberRules<Target>>>; readonly defaultType: string };

/** Members without a rule are dropped. */
export type MemberRules<Target> = Readonly<Record<string, MemberRule<Target>>>;

/** Adds what is dropped and adjusted to `changes`. Throws UntranslatableError. */
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

/** Functions that create rules, for the members of requests to one kind of target. */
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
