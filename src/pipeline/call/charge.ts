/** Computes what a vendor charges for a response. This is based on what the vendor reported, or else on estimates. */
import type { Call, Outcome } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { tokenCost } from '../../core/cost.ts';
import { type CallUnits, noTokens, type Tokens } from '../../core/pricing.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import { usesServers } from '../../dialects/routes/outside-input.ts';
import { estimateInput, tokensWithin } from './estimate.ts';
import { extraUnits } from './extra-charges.ts';
import { estimateSearches, isChargedBySearch } from './rerank-usage.ts';
import { countChoices, maxOutputTokens, outsideInput, reservedUsage } from './usage-bounds.ts';

const noUnits: CallUnits = {};

interface Charge {
  readonly tokens: Tokens;
  /** Null if the price is unknown. */
  readonly costNanos: number | null;
  /** Anything that's billed in addition to tokens, such as searches or uses of hosted tools. */
  readonly units: CallUnits | null;
  readonly isEstimated: boolean;
}

interface ResponseEnd {
  readonly outcome: Outcome;
  /** The time until the first content arrived. The model may have spent it on hidden reasoning. */
  readonly hiddenMs: number;
}

export function computeCharge(call: Call, candidate: Candidate, summary: ResponseSummary, end: ResponseEnd): Charge {
  const { price } = candidate;
  const lacksSearches = summary.searches === undefined && price !== null && isChargedBySearch(call, price);
  const searches = lacksSearches ? estimateSearches(call) : summary.searches;
  const { reportedCostNanos, usesOtherModels = false } = summary;
  const extra = extraUnits(call, candidate, summary);
  const units =
    searches === undefined && reportedCostNanos === undefined && extra === null
      ? null
      : { ...extra?.units, ...(searches !== undefined && { searches }), ...(reportedCostNanos !== undefined && { reportedCostNanos }) };
  // The vendor keeps generating after it has closed the response, and it bills that too. Since we can't see how much
  // that is, we charge the whole reservation.
  if (summary.isPending) return { ...reservedUsage(call, candidate), isEstimated: true };
  const { tokens, isEstimated } = resolveTokens(call, candidate, summary, end);
  const costNanos = price === null ? null : tokenCost(tokens, price, units ?? noUnits);
  return { tokens, costNanos, units, isEstimated: isEstimated || lacksSearches || usesOtherModels || extra?.isPriced === false };
}

/**
 * Returns the vendor's final token counts. If the vendor didn't send any, we estimate them from the request and from
 * what it generated, even if the caller never received that. If the response ended early, the estimate includes
 * reasoning that the model may have generated before its first content.
 *
 * We can't estimate input that isn't in the body, such as a file, so we charge what we've reserved for it. Otherwise,
 * callers could have such input processed almost for free, by leaving before the vendor reports its usage.
 */
function resolveTokens(
  call: Call,
  candidate: Candidate,
  { tokens, isFinal, generatedCharacters, searches }: ResponseSummary,
  { outcome, hiddenMs }: ResponseEnd,
): { tokens: Tokens; isEstimated: boolean } {
  if (tokens !== null && isFinal) return { tokens, isEstimated: false };
  const chargesTokens = candidate.price !== null && candidate.price.inputNanos > 0n;
  if (searches !== undefined && !chargesTokens) return { tokens: noTokens, isEstimated: false };
  const generated = estimateTokens(generatedCharacters);
  const reported = tokens ?? noTokens;
  // Some vendors report zero input tokens until the final usage event.
  const isInputKnown = reported.input + reported.cachedInput + reported.cacheWrite + reported.cacheWrite1h > 0;
  const mayGrow = isInputKnown && usesServers(call.body, call.spans);
  const outside = isInputKnown && !mayGrow ? null : outsideInput(call, candidate);
  const input = outside ?? (isInputKnown ? reported : { ...noTokens, input: estimateInput(call) });
  // The model generates all choices at the same time.
  const hidden = outcome === 'ok' ? 0 : Math.min(tokensWithin(hiddenMs) * countChoices(call), maxOutputTokens(call, candidate));
  return {
    tokens: { ...input, output: Math.max(reported.output, generated + hidden) },
    isEstimated: outcome !== 'ok' || generated > 0 || !isInputKnown || mayGrow,
  };
}
