/**
 * Groups a project's content rules by place and evaluates texts. We evaluate short texts immediately, and all others in
 * a thread that all projects share (`rule-queue.ts`).
 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { ContentRule, RuleClass } from './content-rule.ts';
import { compilingCost, createMatcher, firstPosition, matchingCost } from './match-rules.ts';
import { createRuleQueue, type RuleOutcome } from './rule-queue.ts';

/** The rules for either input or output. */
export interface PlaceRules {
  readonly rules: readonly ContentRule[];
  /** True if at least one of the rules blocks. */
  readonly blocks: boolean;
  /** The maximum time that it takes to evaluate a character, in microseconds. */
  readonly cost: number;
  /**
   * The time that it takes to compile all expressions, in microseconds. If other projects have evicted these
   * expressions from the cache, even the shortest text takes this long.
   */
  readonly compilingCost: number;
  /** The SHA-256 of the rules. */
  readonly revision: string;
}

/** The rules of both places. A place is null if it has no rules, so we don't evaluate its texts. */
export interface CompiledRules {
  readonly input: PlaceRules | null;
  readonly output: PlaceRules | null;
}

export interface RuleVerdict {
  /** The class of the first rule that blocks the text, or null if no rule blocks it. */
  readonly blockedBy: RuleClass | null;
  /** The classes of the observing rules that matched. */
  readonly observed: readonly RuleClass[];
  /** All rules that matched, including those after the first one that blocks. */
  readonly matched: readonly ContentRule[];
  /**
   * If we couldn't evaluate the texts completely, this contains the reason, the class of the slowest rule, and the
   * error that broke the thread if there was one. Otherwise it's null.
   */
  readonly unfinished: { readonly class: RuleClass; readonly reason: string; readonly cause: unknown } | null;
}

export interface Evaluation {
  /** The project that the thread's time is charged to, because projects share the thread fairly. */
  readonly project: string;
  /** Aborting this signal ends an evaluation in the thread, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** We may block the event loop for this long. A turn of the thread costs 0.1 ms. */
const maxInlineMicros = 2_000;
/** Limits the memory for expressions that are evaluated on the event loop. */
const maxInlineBytes = 16 * 1024 * 1024;
/** Each of these normalizes to several characters, up to 18, so we can't estimate the cost from the text's length. */
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
 * Remembers texts in which no rule matched, because agents send their whole history with each call. The keys are
 * hashes that include the project and the revision of its rules. A text in which a rule matches is evaluated again, so
 * that every call reports it.
 */
const passed = new LRUCache<string, true>({ max: 100_000 });
/** We evaluate shorter texts again, which takes about as long as looking them up. */
const minRememberedLength = 64;

/**
 * Returns null for texts that we don't remember. Malformed texts are among them, because in UTF-8 they're the same as
 * other texts in which a different rule may match.
 */
function keyOf(text: string, project: string, revision: string): string | null {
  if (text.length < minRememberedLength || !text.isWellFormed()) return null;
  return hash('sha256', `${project} ${revision} ${text}`, 'base64');
}

/**
 * Evaluates all texts and reports each rule once, no matter how often it matches. Rejects with `budget_unavailable`
 * if the project already has too much work waiting for the thread.
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

/** Names the slowest rule, which is the one to change. */
function toUnfinished(rules: readonly ContentRule[], reason: string, cause: unknown): RuleVerdict['unfinished'] {
  const [slowest] = rules.toSorted((a, b) => matchingCost(b) - matchingCost(a));
  return slowest ? { class: slowest.class, reason, cause } : null;
}
