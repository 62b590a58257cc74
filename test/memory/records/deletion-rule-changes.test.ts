/** Tests every kind of change of the deletion rule, for every current and pending rule. */
import { describe, expect, test } from '@jest/globals';
import { type DeletionRule, deletesMore } from '../../../src/memory/records/deletion-rule.ts';
import {
  defaultMemorySettings,
  isSameRule,
  parseMemorySettingsChange,
  type ShownMemorySettings,
} from '../../../src/memory/records/settings-schema.ts';

type Rule = readonly [days: number | null, unlearned: boolean];
type Change = Partial<DeletionRule>;

interface Outcome {
  readonly inForce: DeletionRule;
  readonly planned: DeletionRule | null;
}

const toRule = ([days, unlearned]: Rule): DeletionRule => ({ delete_conversations_after_days: days, delete_unlearned: unlearned });

function ruleOf({ delete_conversations_after_days, delete_unlearned }: DeletionRule): DeletionRule {
  return { delete_conversations_after_days, delete_unlearned };
}

function stateOf(inForce: DeletionRule, planned: DeletionRule | null): ShownMemorySettings {
  const { delete_conversations_after_days: days, delete_unlearned } = planned ?? {};
  const pending =
    typeof days === 'number' && delete_unlearned !== undefined
      ? { delete_conversations_after_days: days, delete_unlearned, effective_at: '2026-12-21T10:00:00Z', conversations: 3 }
      : null;
  return { ...defaultMemorySettings, ...inForce, pending_deletion: pending };
}

function apply(state: ShownMemorySettings, change: object): Outcome {
  const { settings, stricter } = parseMemorySettingsChange(change)(state);
  return { inForce: ruleOf(settings), planned: stricter };
}

const rulesWith = (...days: readonly (number | null)[]): DeletionRule[] =>
  days.flatMap((count) => [toRule([count, false]), toRule([count, true])]);

/** A plan never contains a part that deletes less than the rule in force, because such a part takes effect at once. */
function canBePlanned(planned: DeletionRule, inForce: DeletionRule): boolean {
  const [days, before] = [planned.delete_conversations_after_days, inForce.delete_conversations_after_days];
  const isNoLonger = days !== null && (before === null || days <= before);
  return deletesMore(planned, inForce) && isNoLonger && (planned.delete_unlearned || !inForce.delete_unlearned);
}

const states = rulesWith(null, 30, 45).flatMap((inForce) => [
  stateOf(inForce, null),
  ...rulesWith(7, 14, 30, 45)
    .filter((planned) => canBePlanned(planned, inForce))
    .map((planned) => stateOf(inForce, planned)),
]);

const changes: readonly Change[] = [undefined, null, 7, 14, 30, 45, 90].flatMap((days) =>
  [undefined, false, true].map((unlearned) => ({
    ...(days !== undefined && { delete_conversations_after_days: days }),
    ...(unlearned !== undefined && { delete_unlearned: unlearned }),
  })),
);

const daysOf = ({ delete_conversations_after_days: days }: DeletionRule): number => days ?? Number.POSITIVE_INFINITY;

interface Case extends Outcome {
  readonly state: ShownMemorySettings;
  readonly change: Change;
}

/** Returns the cases in which `isRight` is false, so that a failed test lists them. */
function findViolations(isRight: (each: Case) => boolean): Case[] {
  return states.flatMap((state) => changes.map((change) => ({ state, change, ...apply(state, change) }))).filter((each) => !isRight(each));
}

const isNothing = (change: Change): boolean => Object.keys(change).length === 0;
const isSame = (one: DeletionRule | null, other: DeletionRule | null): boolean =>
  one === null || other === null ? one === other : isSameRule(one, other);

describe('all changes of the deletion rule', () => {
  test('never make the rule in force stricter', () => {
    expect(
      findViolations(({ state, change, inForce }) => {
        const turnsOn = inForce.delete_unlearned && !state.delete_unlearned;
        // Without a deletion period nothing is deleted, so `delete_unlearned` may be turned on, but only if it's given.
        const isAllowed = !turnsOn || (change.delete_unlearned === true && inForce.delete_conversations_after_days === null);
        return isAllowed && !deletesMore(inForce, state);
      }),
    ).toEqual([]);
  });

  test('never leave or plan a rule that deletes more than was asked for', () => {
    expect(
      findViolations(({ change, inForce, planned }) =>
        [inForce, ...(planned ? [planned] : [])].every((rule) => {
          const isLongEnough =
            change.delete_conversations_after_days === undefined ||
            daysOf(rule) >= (change.delete_conversations_after_days ?? Number.POSITIVE_INFINITY);
          return isLongEnough && (change.delete_unlearned !== false || !rule.delete_unlearned);
        }),
      ),
    ).toEqual([]);
  });

  test('put what was asked for into force or into the plan', () => {
    expect(
      findViolations(({ change, inForce, planned }) => {
        const rule = planned ?? inForce;
        return isSame({ ...rule, ...change }, rule);
      }),
    ).toEqual([]);
  });

  test('only plan what was asked for, unless the plan stays as it is', () => {
    expect(
      findViolations(({ state, change, planned }) => {
        const isKept = isSame(planned, state.pending_deletion);
        return planned === null || isKept || isSame(planned, { ...toRule([null, false]), ...ruleOf(state), ...change });
      }),
    ).toEqual([]);
  });

  test('have no further effect if they are repeated', () => {
    expect(
      findViolations(({ change, inForce, planned }) => {
        const again = apply(stateOf(inForce, planned), change);
        return isSame(again.inForce, inForce) && isSame(again.planned, planned);
      }),
    ).toEqual([]);
  });

  test('keep the plan if they contain no part of a rule', () => {
    expect(
      findViolations(
        ({ state, change, inForce, planned }) =>
          !isNothing(change) || (isSame(inForce, ruleOf(state)) && isSame(planned, state.pending_deletion)),
      ),
    ).toEqual([]);
  });

  test('keep rule and plan if the settings are sent back as they were read', () => {
    expect(states.map((state) => apply(state, state))).toEqual(
      states.map((state) => ({ inForce: ruleOf(state), planned: state.pending_deletion && ruleOf(state.pending_deletion) })),
    );
  });

  test('cancel the plan if they contain the rule in force, or just its period', () => {
    const cancelled = states.map((state) => ({ inForce: ruleOf(state), planned: null }));
    expect(states.map((state) => apply(state, ruleOf(state)))).toEqual(cancelled);
    expect(states.map((state) => apply(state, { delete_conversations_after_days: state.delete_conversations_after_days }))).toEqual(
      cancelled,
    );
  });

  test('replace the plan if it is cancelled in the same request', () => {
    for (const state of states)
      for (const change of changes)
        expect(apply(state, { ...change, pending_deletion: null })).toEqual(apply({ ...state, pending_deletion: null }, change));
  });
});

describe('changes while a deletion is planned', () => {
  test.each<{ inForce: Rule; pending: Rule; days?: number | null; unlearned?: boolean; result: Rule; planned: Rule | null }>([
    // Sending the current period cancels a plan, even one that also deletes unlearned conversations.
    { inForce: [30, false], pending: [7, true], days: 30, result: [30, false], planned: null },
    { inForce: [30, false], pending: [30, true], days: 30, result: [30, false], planned: null },
    { inForce: [null, false], pending: [7, true], days: null, result: [null, false], planned: null },
    // A longer period applies immediately.
    { inForce: [30, false], pending: [30, true], days: 45, result: [45, false], planned: null },
    { inForce: [30, false], pending: [30, true], days: 45, unlearned: true, result: [45, false], planned: [45, true] },
    { inForce: [30, true], pending: [7, true], days: 14, unlearned: false, result: [30, false], planned: [14, false] },
    { inForce: [30, true], pending: [7, true], unlearned: false, result: [30, false], planned: null },
    // Parts of the planned rule don't change it.
    { inForce: [30, false], pending: [7, true], days: 7, result: [30, false], planned: [7, true] },
    { inForce: [30, false], pending: [7, true], unlearned: true, result: [30, false], planned: [7, true] },
    { inForce: [30, false], pending: [7, false], unlearned: false, result: [30, false], planned: [7, false] },
    // Another rule replaces the planned one.
    { inForce: [30, false], pending: [7, true], days: 14, result: [30, false], planned: [14, false] },
    { inForce: [30, false], pending: [7, false], unlearned: true, result: [30, false], planned: [30, true] },
  ])('%j', ({ inForce, pending, days, unlearned, result, planned }) => {
    const change = {
      ...(days !== undefined && { delete_conversations_after_days: days }),
      ...(unlearned !== undefined && { delete_unlearned: unlearned }),
    };
    expect(apply(stateOf(toRule(inForce), toRule(pending)), change)).toEqual({
      inForce: toRule(result),
      planned: planned && toRule(planned),
    });
  });

  test('applies the longer part of a plan that an older version has stored', () => {
    const state = stateOf(toRule([30, false]), toRule([45, true]));
    expect(apply(state, { delete_conversations_after_days: 45 })).toEqual({ inForce: toRule([45, false]), planned: toRule([45, true]) });
  });
});
