/**
 * Evaluates the content rules of a project. For short texts, we do this right away. For all others, we use a thread
 * that the projects share (`rule-queue.ts`).
 */
import { hash } from 'node:crypto';
import { createLruCache } from '../core/lru-cache.ts';
import type { ContentRule, RuleClass } from './content-rule.ts';
import { compilingCost, createMatcher, firstPosition, matchingCost } from './match-rules.ts';
import { createRuleQueue, type RuleOutcome } from './rule-queue.ts';

export interface PlaceRules {
  readonly rules: readonly ContentRule[];
  readonly blocks: boolean;
  /** How long it can take to evaluate a character, in microseconds. */
  readonly cost: number;
  /**
   * The time to compile all expressions, in microseconds. This can be necessary for any text, because other projects
   * may have evicted them from the cache.
   */
  readonly compilingCost: number;
  readonly revision: string;
}

/** The compiled rules of a project. `null` means that there are no rules for the input or the output. */
export interface CompiledRules {
  readonly input: PlaceRules | null;
  readonly output: PlaceRules | null;
}

export interface RuleVerdict {
  readonly blockedBy: RuleClass | null;
  /** Classes of rules that matched but don't block, because their action is `observe`. */
  readonly observed: readonly RuleClass[];
  readonly matched: readonly ContentRule[];
  /**
   * Set if we had to stop early. Contains the reason, the class of the slowest rule, and the error if the thread broke.
   */
  readonly unfinished: { readonly class: RuleClass; readonly reason: string; readonly cause: unknown } | null;
}

export interface Evaluation {
  readonly project: string;
  /** Aborting this stops the evaluation, even in the thread, and rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * If rules take longer than this, we don't run them on the event loop but in the thread. For faster rules that isn't
 * worth it, because each request to the thread costs another 0.1 ms.
 */
const maxInlineMicros = 2_000;
/** The memory limit for compiled expressions that we evaluate on the event loop. */
const maxInlineBytes = 16 * 1024 * 1024;
/** Normalization can turn one of these characters into up to 18 others, so that even a short text can be expensive. */
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
 * Agents send their whole history with each call, so we remember which texts no rule has matched. The keys are hashes
 * of the text, the project and the revision of its rules. If a rule has matched, we don't remember the text, because
 * the match should be reported for every call.
 */
const passed = createLruCache<true>(100_000);
/** For shorter texts, it's as fast to evaluate them again as to look them up. */
const minRememberedLength = 64;

/**
 * Returns a cache key. Null for short texts, and for malformed ones, because different malformed texts become the same
 * text in UTF-8 and a rule might only match one of them.
 */
function keyOf(text: string, project: string, revision: string): string | null {
  if (text.length < minRememberedLength || !text.isWellFormed()) return null;
  return hash('sha256', `${project} ${revision} ${text}`, 'base64');
}

/**
 * Evaluates all texts, and reports each matching rule once. Rejects with `budget_unavailable` if the project already
 * has too much work waiting for the thread.
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

/** Reports the slowest rule, because that's the one that the project should change first. */
function toUnfinished(rules: readonly ContentRule[], reason: string, cause: unknown): RuleVerdict['unfinished'] {
  const [slowest] = rules.toSorted((a, b) => matchingCost(b) - matchingCost(a));
  return slowest ? { class: slowest.class, reason, cause } : null;
}
