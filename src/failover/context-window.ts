/** Compares context windows. They're null for models whose window isn't in the catalog. */
import type { Candidate } from '../core/candidate.ts';
import type { VendorError } from '../core/errors.ts';

export function inputWindowOf({ maxInputTokens, contextWindow }: Candidate): number | null {
  return maxInputTokens ?? contextWindow ?? null;
}

/**
 * Returns the size of the window that the prompt didn't fit into, or null if it's unknown. The vendor's message may
 * mention a smaller window than the catalog, because it can depend on the account.
 */
export function exceededWindow(candidate: Candidate, { report }: VendorError): number | null {
  const window = inputWindowOf(candidate);
  if (report.windowTokens === null || window === null) return report.windowTokens ?? window;
  return Math.min(report.windowTokens, window);
}

/** Returns true if the model might accept a longer prompt, because its window is larger or unknown. */
export function mayBeLarger(candidate: Candidate, window: number | null): boolean {
  const own = inputWindowOf(candidate);
  return own === null || window === null || own > window;
}
