/**
 * Charges for background responses (`background: true` on responses). The vendor goes on generating and bills all of it after the gateway has
 * seen the last byte, so a call whose end we don't see is charged what was reserved for it.
 */
import type { Call } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { noTokens, type Tokens } from '../../core/pricing.ts';
import { estimateInput } from './estimate.ts';
import { usageBounds } from './usage-bounds.ts';

export function isBackground({ route, spans }: Call): boolean {
  return route === 'responses' && (spans.members.get('background')?.kind === 'true' || spans.repeated.has('background'));
}

/** Returns the usage that was reserved for the call. Cost null when the price is unknown. */
export function reservedUsage(call: Call, candidate: Candidate): { readonly tokens: Tokens; readonly costNanos: number | null } {
  const bounds = usageBounds(call, [candidate]);
  const input = Math.min(estimateInput(call.body), bounds.tokens);
  return {
    tokens: { ...noTokens, input, output: bounds.tokens - input },
    costNanos: candidate.price === null ? null : bounds.costNanos,
  };
}
