/**
 * Groups a project's content rules by place, and evaluates texts. Short texts are evaluated immediately. All others are
 * evaluated in a thread that the projects share (`rule-queue.ts`).
 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { ContentRule, RuleClass } from './content-rule.ts';
import { compilingCost, createMatcher, firstPosition, matchingCost } from './match-rules.ts';
import { createRuleQueue, type RuleOutcome } from './rule-queue.ts';

/** A project's rules for the input or for the output. */
export interface PlaceRules {
  readonly rules: readonly ContentRule[];
  /** True if any of the rules blocks. */
  readonly blocks: boolean;
  /** The maximum time to evaluate a character, in microseconds. */
  readonly cost: number;
  /**
   * How long it takes to compile all expressions, in microseconds. Even the shortest text takes this long if other
   * projects have evicted the expressions from the cache.
   */
  readonly compilingCost: number;
  /** SHA-256 of all the rules. */
  readonly revision: string;
}

/**
 * A project's compiled rules by place. If there are no rules for a place, it's null, and texts of that place don't have
 * to be evaluated.
 */
export interface CompiledRules {
  readonly input: PlaceRules | null;
  readonly output: PlaceRules | null;
}

export interface RuleVerdict {
  /** Class of the first blocking rule. Null if no rule blocks the text. */
  readonly blockedBy: RuleClass | null;
  /** The classes of the rules that matched but don't block, because their action is `observe`. */
  readonly observed: readonly RuleClass[];
  /** All rules that matched. This also includes rules that come after the first one that blocks. */
  readonly matched: readonly ContentRule[];
  /**
   * Set if we couldn't evaluate all texts. It contains the reason, the class of the slowest rule, and the error if the
   * thread has broken.
   */
  readonly unfinished: { readonly class: RuleClass; readonly reason: string; readonly cause: unknown } | null;
}

export interface Evaluation {
  /** The project that uses the thread. Projects share the thread's time fairly. */
  readonly project: string;
  /** Aborting this stops the evaluation, even inside the thread, and makes it reject with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** How long rules may block the event loop. Anything slower runs in the thread, which costs 0.1 ms per turn. */
const maxInlineMicros = 2_000;
/** The memory limit for compiled expressions that we evaluate on the event loop. */
const maxInlineBytes = 16 * 1024 * 1024;
/**
 * Normalization can replace each of these characters by up to 18 others. A text that contains any of them can be
 * expensive to evaluate even if it's short.
 */
const expanding = /[\u3200-\u33ff\ufb50-\ufdff\u{1f100}-\u{1f2ff}]/u;

const matchInline = createMatcher(maxInlineBytes);
const queue = createRuleQueue();

export function compileRules(rules: readonly ContentRule[]): CompiledRules {
  const rulesOf = (place: ContentRule['place']): PlaceRules | null => {
    const placed = rules.filter((rule) => rule.place === place);
    if (placed.length === 0) return null;
    return {
      rules: placed,
      blocks: placed.some(({ action }) => action === 'block'),
      cost: placed.reduce((sum, rule) => sum + matchingCost(rule), 0),
      compilingCost: placed.reduce((sum, rule) => sum + compilingCost(rule), 0),
      revision: hash('sha256', JSON.stringify(placed)),
    };
  };
  return { input: rulesOf('input'), output: rulesOf('output') };
}

/**
 * Remembers texts in which no rule has matched, because agents send their whole history with each call. The keys are
 * hashes that include the project and the revision of its rules. A text with a match is evaluated again, so that every
 * call reports it.
 */
const passed = new LRUCache<string, true>({ max: 100_000 });
/** Shorter texts can be evaluated as fast as they can be looked up, so we don't remember them. */
const minRememberedLength = 64;

/**
 * Returns the key under which we remember a text, or null if we don't remember it. Malformed texts are never
 * remembered, because different ones look the same when they're encoded as UTF-8, and only one of them might match a
 * rule.
 */
function keyOf(text: string, project: string, revision: string): string | null {
  if (text.length < minRememberedLength || !text.isWellFormed()) return null;
  return hash('sha256', `${project} ${revision} ${text}`, 'base64');
}

/**
 * Evaluates all texts. Each matching rule is reported once, no matter how often it matches. Rejects with
 * `budget_unavailable` if too much of the project's work is already waiting for the thread.
 */
export async function evaluateTexts(
  { rules, cost, compilingCost: setup, revision }: PlaceRules,
  texts: readonly string[],
  { project, signal }: Evaluation,
): Promise<RuleVerdict> {
  const keys: string[] = [];
  const unknown = texts.filter((text) => {
    const key = keyOf(text, project, revision);
    if (key !== null && passed.get(key)) return false;
    if (key !== null) keys.push(key);
    return true;
  });
  const length = unknown.reduce((sum, text) => sum + text.length, 0);
  const isShort = setup + length * cost <= maxInlineMicros && !unknown.some((text) => expanding.test(text));
  const outcome = isShort ? evaluateInline(rules, unknown) : await queue.run({ project, rules, texts: unknown, signal });
  if (outcome.matched.size === 0 && outcome.stopped === null) for (const key of keys) passed.set(key, true);
  return toVerdict(rules, outcome);
}

function evaluateInline(rules: readonly ContentRule[], texts: readonly string[]): RuleOutcome {
  const chunks = texts.map((text) => ({ text, isStart: true, isEnd: true }));
  const { matched } = matchInline({ rules, chunks, from: firstPosition });
  return { matched: new Set(matched.flatMap((index) => rules[index] ?? [])), stopped: null };
}

function toVerdict(rules: readonly ContentRule[], { matched, stopped, cause }: RuleOutcome): RuleVerdict {
  const blocking = rules.find((rule) => rule.action === 'block' && matched.has(rule));
  const observed = rules.filter((rule) => rule.action === 'observe' && matched.has(rule)).map((rule) => rule.class);
  return {
    blockedBy: blocking?.class ?? null,
    observed: [...new Set(observed)],
    matched: rules.filter((rule) => matched.has(rule)),
    unfinished: stopped === null ? null : toUnfinished(rules, stopped, cause),
  };
}

/** Reports the slowest rule, because that's the one to change. */
function toUnfinished(rules: readonly ContentRule[], reason: string, cause: unknown): RuleVerdict['unfinished'] {
  const [slowest] = rules.toSorted((a, b) => matchingCost(b) - matchingCost(a));
  return slowest ? { class: slowest.class, reason, cause } : null;
}
