/**
 * Removes models from a plan if their context window is smaller than the prompt
 * (docs/architecture/routing-and-failover.md#context-windows).
 */
import { isPromptRoute, type TextRoute } from '../core/call.ts';
import type { Candidate } from '../core/candidate.ts';
import { countLeastTokens, leastBytesPerToken } from '../dialects/prompt/least-tokens.ts';
import { inputWindowOf } from '../failover/context-window.ts';

export interface PromptSize {
  readonly body: Buffer;
  readonly maxOutputTokens: number | null;
}

interface FittingModels {
  readonly fitting: readonly Candidate[];
  readonly tooSmall: readonly Candidate[];
}

/**
 * Separates the candidates whose window is large enough for the prompt from the others, without changing their order.
 * If the prompt is too long for all candidates, we keep those with the largest window, because the vendor may count
 * fewer tokens than we do.
 */
export function splitByWindow(candidates: readonly Candidate[], route: TextRoute, prompt: PromptSize): FittingModels {
  const everything = { fitting: candidates, tooSmall: [] };
  if (candidates.length < 2 || !isPromptRoute(route)) return everything;
  const output = prompt.maxOutputTokens ?? 0;
  const most = Math.floor(prompt.body.length / leastBytesPerToken);
  if (candidates.every((candidate) => isLargeEnough(candidate, most, output))) return everything;
  const input = countLeastTokens(prompt.body, largestWindow(candidates));
  const fitting = candidates.filter((candidate) => isLargeEnough(candidate, input, output));
  const kept = fitting.length > 0 ? fitting : candidates.filter((candidate) => inputWindowOf(candidate) === largestWindow(candidates));
  return { fitting: kept, tooSmall: candidates.filter((candidate) => !kept.includes(candidate)) };
}

function isLargeEnough({ maxInputTokens = null, contextWindow = null }: Candidate, input: number, output: number): boolean {
  return (maxInputTokens === null || input <= maxInputTokens) && (contextWindow === null || input + output <= contextWindow);
}

function largestWindow(candidates: readonly Candidate[]): number {
  return Math.max(0, ...candidates.map((candidate) => inputWindowOf(candidate) ?? 0));
}
