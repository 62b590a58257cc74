/** How hard a model shall think: chat names an effort, messages a budget of tokens or, for newer models, an effort beside `adaptive`. */
import type { ModelTraits } from '../../core/call.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { asString } from '../../core/json/narrow.ts';
import { asLosslessObject, asNumber } from '../json/lossless-json.ts';

const budgets = new Map([
  ['low', 1_024],
  ['medium', 4_096],
  ['high', 16_384],
  ['xhigh', 16_384],
]);
/** What every model that takes an effort knows; the highest ones exist on few. */
const efforts = new Map([
  ['low', 'low'],
  ['medium', 'medium'],
  ['high', 'high'],
  ['xhigh', 'high'],
  ['max', 'high'],
]);

/** What `reasoning_effort` comes to. */
export interface Thinking {
  readonly thinking: JsonObject;
  /** For `output_config`; null with a budget. */
  readonly effort: string | null;
}

/**
 * Null: no thinking is asked for. A budget leaves at least half of `maxTokens` to the answer: a smaller budget is taken where the
 * wished one is too large, and none where even the smallest is.
 */
export function toThinking(effort: unknown, maxTokens: number, form: NonNullable<ModelTraits['thinking']>): Thinking | null {
  const name = asString(effort) ?? '';
  const requested = budgets.get(name);
  if (requested === undefined || form === 'none') return null;
  if (form === 'adaptive') return { thinking: { type: 'adaptive' }, effort: efforts.get(name) ?? null };
  const fitting = [...budgets.values()].filter((budget) => budget <= requested && budget * 2 <= maxTokens);
  return fitting.length === 0 ? null : { thinking: { type: 'enabled', budget_tokens: Math.max(...fitting) }, effort: null };
}

/** `reasoning_effort` for a request of the messages dialect; null: the vendor's default. */
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
