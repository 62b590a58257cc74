/** Translates reasoning settings: chat has an effort, messages a token budget or, for newer models, an effort with `adaptive`. */
import type { ModelTraits } from '../../core/candidate.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { asString } from '../../core/json/narrow.ts';
import { asLosslessObject, asNumber } from '../json/lossless-json.ts';

const budgets = new Map([
  ['low', 1_024],
  ['medium', 4_096],
  ['high', 16_384],
  ['xhigh', 16_384],
]);
/** Mapped to efforts that every model with efforts accepts; few accept the highest ones. */
const efforts = new Map([
  ['low', 'low'],
  ['medium', 'medium'],
  ['high', 'high'],
  ['xhigh', 'high'],
  ['max', 'high'],
]);

/** Messages settings for a `reasoning_effort`. */
export interface Thinking {
  readonly thinking: JsonObject;
  /** For `output_config`. Null with a budget. */
  readonly effort: string | null;
}

/**
 * Null when no thinking is requested. At least half of `maxTokens` stays for the response: a requested budget that is too large is reduced
 * to the next lower one, and omitted when even the lowest is too large.
 */
export function toThinking(effort: unknown, maxTokens: number, form: NonNullable<ModelTraits['thinking']>): Thinking | null {
  const name = asString(effort) ?? '';
  const requested = budgets.get(name);
  if (requested === undefined || form === 'none') return null;
  if (form === 'adaptive') return { thinking: { type: 'adaptive' }, effort: efforts.get(name) ?? null };
  const fitting = [...budgets.values()].filter((budget) => budget <= requested && budget * 2 <= maxTokens);
  return fitting.length === 0 ? null : { thinking: { type: 'enabled', budget_tokens: Math.max(...fitting) }, effort: null };
}

/** The `reasoning_effort` of a messages request. Null means the vendor's default. */
export function toReasoningEffort(body: JsonObject): string | null {
  const { type, budget_tokens: budgetTokens } = asLosslessObject(body.thinking);
  if (type === 'disabled') return null;
  const named = efforts.get(asString(asLosslessObject(body.output_config).effort) ?? '');
  if (named !== undefined) return named;
  const budget = type === 'enabled' ? asNumber(budgetTokens) : undefined;
  if (budget === undefined) return null;
  if (budget >= 16_384) return 'high';
  return budget >= 4_096 ? 'medium' : 'low';
}
