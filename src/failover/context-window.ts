/** Compares the context windows of models, if the catalog has them. */
import type { Candidate } from '../core/candidate.ts';
import type { VendorError } from '../core/errors.ts';

/** Returns how many input tokens the model accepts. Null if that's unknown. */
export function inputWindowOf({ maxInputTokens, contextWindow }: Candidate): number | null {
  return maxInputTokens ?? contextWindow ?? null;
}

/**
 * Returns the window that a prompt didn't fit into. If the vendor's message has a number we use it, because an account
 * may have less than the catalog says. Null if neither is known.
 */
export function exceededWindow(candidate: Candidate, { report }: VendorError): number | null {
  const window = inputWindowOf(candidate);
  if (report.windowTokens === null || window === null) return report.windowTokens ?? window;
  return Math.min(report.windowTokens, window);
}

/** Reports whether the model may accept a longer prompt, because its window is larger or unknown. */
export function mayBeLarger(candidate: Candidate, window: number | null): boolean {
  const own = inputWindowOf(candidate);
  return own === null || window === null || own > window;
}
