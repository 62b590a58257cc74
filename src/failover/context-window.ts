/** Compares context windows. They're null for models whose window isn't in the catalog. */
import type { Candidate } from '../core/candidate.ts';
import type { VendorError } from '../core/errors.ts';

/** Returns how many input tokens a model accepts, or null if the catalog doesn't say. */
export function inputWindowOf({ maxInputTokens, contextWindow }: Candidate): number | null {
  return maxInputTokens ?? contextWindow ?? null;
}

/**
 * Returns the size of the context window that was too small for the prompt, or null if we don't know it. If the
 * vendor's message mentions a size, that can be smaller than the one in the catalog, because some accounts have a
 * smaller window.
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
