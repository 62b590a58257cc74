/**
 * Translates reasoning settings. In the chat dialect, callers choose an effort. In the messages dialect, they set a
 * token budget or, for newer models, `adaptive` thinking with an effort.
 */
import type { ModelTraits } from '../../core/candidate.ts';
import { asString, type JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asLosslessObject, asNumber } from '../json/lossless-json.ts';

const budgets = new Map([
  ['low', 1_024],
  ['medium', 4_096],
  ['high', 16_384],
  ['xhigh', 16_384],
  ['max', 16_384],
]);
/** Vendors reject a thinking budget below this. */
const minBudget = 1_024;
/**
 * Maps efforts to efforts that most models accept. The two highest become `high`, because only a few models accept
 * them.
 */
const efforts = new Map([
  ['low', 'low'],
  ['medium', 'medium'],
  ['high', 'high'],
  ['xhigh', 'high'],
  ['max', 'high'],
]);

export function isHighestEffort(effort: unknown): boolean {
  return effort === 'xhigh' || effort === 'max';
}

export interface RequestedReasoning {
  /** Null if the request sets a number of tokens instead of an effort. */
  readonly effort: string | null;
  readonly budget: number | null;
  readonly members: readonly string[];
}

/** Efforts that ask for the vendor's default. */
const defaultEfforts: ReadonlySet<string> = new Set(['default', 'auto']);
/** With these efforts, a chat model doesn't think at all or as little as possible. */
const noEfforts: ReadonlySet<string> = new Set(['none', 'minimal']);

/**
 * Returns the reasoning that a chat request asks for. Callers can use `reasoning_effort`, OpenRouter's `reasoning`, or
 * `thinking` in the format of the messages dialect. Returns null if the request doesn't ask for reasoning or turns it
 * off. Throws UntranslatableError for an unknown effort.
 */
export function readRequestedReasoning({ thinking, reasoning, reasoning_effort: chatEffort }: JsonObject): RequestedReasoning | null {
  const { type, budget_tokens: budgetTokens } = asLosslessObject(thinking);
  const { effort: routerEffort, max_tokens: maxTokens, enabled } = asLosslessObject(reasoning);
  const isOn = type === 'enabled' || type === 'adaptive' || enabled === true;
  const effort = asString(chatEffort) ?? asString(routerEffort) ?? (isOn ? 'medium' : null);
  if (effort !== null && !budgets.has(effort) && !noEfforts.has(effort) && !defaultEfforts.has(effort))
    return rejectUntranslatable('reasoning_effort: this value is not supported by vendors that use the messages dialect', {
      param: 'reasoning_effort',
    });
  if (type === 'disabled' || enabled === false) return null;
  const members = Object.entries({ thinking, reasoning, reasoning_effort: chatEffort }).filter(
    ([, value]) => value !== undefined && value !== null,
  );
  const names = members.map(([name]) => name);
  const budget = asNumber(budgetTokens) ?? asNumber(maxTokens) ?? null;
  if (budget !== null) return { effort: null, budget, members: names };
  return effort === null || !budgets.has(effort) ? null : { effort, budget: null, members: names };
}

export interface Thinking {
  readonly thinking: JsonObject;
  /** The effort for `output_config`. Null if `thinking` has a token budget. */
  readonly effort: string | null;
  /** True if the model will think less than the caller has asked for. */
  readonly isReduced: boolean;
}

/**
 * Returns null if the model can't think, or if `maxTokens` leaves no room for thinking. We keep a valid budget from the
 * caller as long as it's smaller than `maxTokens`. Otherwise we take the largest budget up to the requested one that
 * leaves at least half of `maxTokens` for the response.
 */
export function toThinking(
  { effort, budget }: RequestedReasoning,
  maxTokens: number,
  form: NonNullable<ModelTraits['thinking']>,
): Thinking | null {
  if (form === 'none') return null;
  if (form === 'adaptive') {
    const name = effort ?? effortFor(budget ?? 0);
    return { thinking: { type: 'adaptive' }, effort: efforts.get(name) ?? null, isReduced: isHighestEffort(name) };
  }
  if (budget !== null && budget >= minBudget && budget < maxTokens)
    return { thinking: { type: 'enabled', budget_tokens: budget }, effort: null, isReduced: false };
  const requested = budget ?? budgets.get(effort ?? '') ?? 0;
  const fitting = [...budgets.values()].filter((tokens) => tokens <= Math.max(requested, minBudget) && tokens * 2 <= maxTokens);
  if (fitting.length === 0) return null;
  const given = Math.max(...fitting);
  return { thinking: { type: 'enabled', budget_tokens: given }, effort: null, isReduced: given < requested || isHighestEffort(effort) };
}

/** Returns the `reasoning_effort` for a messages request. Null means the vendor's default. */
export function toReasoningEffort(body: JsonObject): string | null {
  const { type, budget_tokens: budgetTokens } = asLosslessObject(body.thinking);
  if (type === 'disabled') return null;
  const named = efforts.get(asString(asLosslessObject(body.output_config).effort) ?? '');
  if (named !== undefined) return named;
  const budget = type === 'enabled' ? asNumber(budgetTokens) : undefined;
  return budget === undefined ? null : effortFor(budget);
}

function effortFor(budget: number): string {
  if (budget >= 16_384) return 'high';
  return budget >= 4_096 ? 'medium' : 'low';
}
