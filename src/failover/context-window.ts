/** Compares the context windows of models, where the catalog knows them. Pure. */
import type { Candidate } from '../core/candidate.ts';
import type { VendorError } from '../core/errors.ts';

/** Tokens of input that the model accepts; null when unknown. */
export function inputWindowOf({ maxInputTokens, contextWindow }: Candidate): number | null {
  return maxInputTokens ?? contextWindow ?? null;
}

/**
 * The window that a prompt did not fit into: the vendor's number where its message has one, because an account may have less than the catalog
 * says. Null when neither is known.
 */
export function exceededWindow(candidate: Candidate, { report }: VendorError): number | null {
  const window = inputWindowOf(candidate);
  if (report.windowTokens === null || window === null) return report.windowTokens ?? window;
  return Math.min(report.windowTokens, window);
}

/** Reports whether the model may accept a longer prompt: its window is larger, or unknown. */
export function mayBeLarger(candidate: Candidate, window: number | null): boolean {
  const own = inputWindowOf(candidate);
  return own === null || window === null || own > window;
}
