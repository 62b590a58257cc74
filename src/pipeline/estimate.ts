/** What an attempt that nobody saw the end of may have cost: what was sent. */
import type { Call, Price, Tokens } from '../core/call.ts';
import { noTokens } from '../core/call.ts';
import { costOf } from '../core/money.ts';
import { estimateTokens } from '../dialects/counts.ts';

/** Cost null: the price is unknown. */
export function estimateAsked({ body, route }: Call, price: Price | null): { readonly tokens: Tokens; readonly costNanos: number | null } {
  const tokens = { ...noTokens, input: estimateTokens(body.length) };
  return { tokens, costNanos: price === null ? null : costOf(tokens, price, route === 'rerank' ? 1 : 0) };
}
